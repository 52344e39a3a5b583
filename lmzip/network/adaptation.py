"""A network that adapts: its output layer learns from the pixels that are already coded.

Encoder and decoder know the same pixels, so both learn the same and nothing of it is in the file
(FORMAT.md, "Adaptation"). Every output has a change for each of the last features, all zero at
first. From time to time each change moves by a fixed amount, to where the likelihood of the latest
pixels rises: only the signs of exact sums count, so no scale has to be found and no rounding can
differ.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from lmzip.network.integer_network import IntegerNetwork

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]

ONE = 1 << 12  # the constant beside the features
SHIFT = 17  # changes are in units of 2^-17 of an output, per unit of a feature
MOST = (1 << 12) - 1  # a change at most
WAIT = 64  # pixels, at least, from one move to the next
FORGET = 2  # what pulls at a change loses 2^-2 of itself with each move
RATES = (32, 24, 3, 32)  # of logits, means, log-scales, coefficients
MOST_FEATURES = 127  # so that 32 bits hold every sum of changes and features


Watch = Callable[[int, Int32s], None]
"""Called with the places coded so far, and the changes by then: (outputs, features + 1)."""


def can_adapt(network: IntegerNetwork) -> bool:
    """Whether a network's features are small and few enough to learn from."""
    return network.activation_max < ONE and network.out.weight.shape[2] <= MOST_FEATURES


class Adaptation:
    """What the output layer of a network has learnt in one tile.

    For each step, `correct` comes first, and then `learn` about the same pixels.
    """

    def __init__(self, network: IntegerNetwork) -> None:
        assert can_adapt(network)
        outputs, _, features = network.out.weight.shape
        # Floats that hold exact integers, far below 2^53: numpy multiplies those fast.
        self._changes = np.zeros((outputs, features + 1))
        self._pull = np.zeros((outputs, features + 1))
        self._features = np.empty((0, features + 1))
        kinds = 1, network.channels, network.channels, network.couplings
        self._rates = np.repeat(RATES, [network.mixtures * count for count in kinds])[:, None]
        self._seen = 0

    def correct(self, features: npt.NDArray[Any]) -> Int32s:
        """Return what is added to the outputs of pixels with features (n, F): (outputs, n)."""
        count = len(features)
        self._features = np.concatenate([features, np.full((count, 1), ONE)], 1, dtype=np.float64)
        sums = self._changes @ self._features.T
        return np.floor((sums + (1 << (SHIFT - 1))) / (1 << SHIFT)).astype(np.int32)

    def learn(self, gradients: Int64s) -> None:
        """Take in how the likelihood of those pixels rises with their outputs: (outputs, n)."""
        self._pull += gradients @ self._features
        self._seen += len(self._features)
        if self._seen < WAIT:
            return
        self._seen = 0
        self._changes += self._rates * np.sign(self._pull)
        self._changes.clip(-MOST, MOST, out=self._changes)
        self._pull -= np.floor(self._pull / (1 << FORGET))

    @property
    def changes(self) -> Int32s:
        """The changes of each output, for each feature and then the constant."""
        return self._changes.astype(np.int32)
