"""A network that adapts: its output layer learns from the pixels that are already coded.

Encoder and decoder know the same pixels, so both learn the same and nothing of it is in the file
(FORMAT.md, "Adaptation"). Every output has a change for each of the last features, all zero at
first, and for each error that the network made nearby. From time to time each change moves by a
fixed amount, to where the likelihood of the latest pixels rises: only the signs of exact sums
count, so no scale has to be found and no rounding can differ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lmzip.network.integer_network import IntegerNetwork
from lmzip.order.schedule import Neighbours, Offset, Schedule

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]

ONE = 1 << 12  # the constant beside the features
SHIFT = 17  # changes are in units of 2^-17 of an output, per unit of a feature
MOST = (1 << 12) - 1  # a change at most
WAIT = 64  # pixels, at least, from one move to the next
FORGET = 2  # what pulls at a change loses 2^-2 of itself with each move
LARGEST_ERROR = 1 << 10


@dataclass(frozen=True)
class Manner:
    """How a network adapts.

    rates:  how far changes move: those of logits, means, log-scales, coefficients
    around: of which pixels, by rows and columns from the one at hand, errors are features too
    """

    rates: tuple[int, int, int, int]
    around: tuple[Offset, ...] = ()


BY_FEATURES = Manner((32, 24, 3, 32))
BY_ERRORS = Manner(
    (24, 18, 2, 24),
    ((0, -1), (-1, 0), (-1, 1), (-1, -1), (0, -2), (-2, 0), (-2, 1), (-1, 2)),
)

Watch = Callable[[int, Int32s], None]
"""Called with the places coded so far, and the changes by then: (outputs, features + 1)."""


def can_adapt(network: IntegerNetwork, manner: Manner) -> bool:
    """Whether a network's features are so small and so few that 32 bits hold all sums."""
    features = network.out.weight.shape[2] * (ONE - 1) + ONE
    errors = len(manner.around) * network.channels * LARGEST_ERROR
    largest = MOST * (features + errors) + (1 << (SHIFT - 1))
    return network.activation_max < ONE and largest < 1 << 31


def choose_manner(network: IntegerNetwork) -> Manner | None:
    """Return the better manner in which a network can adapt; None if there is none."""
    manners = BY_ERRORS, BY_FEATURES
    return next((manner for manner in manners if can_adapt(network, manner)), None)


def find_around(manner: Manner, network: IntegerNetwork, seen: Neighbours) -> list[int | None]:
    """Return which of the taps that a network's first layer uses see the errors around a pixel."""
    offsets = network.first.taps.offsets
    used = [offsets[tap] for tap in seen.used]
    return [used.index(offset) if offset in used else None for offset in manner.around]


class Adaptation:
    """What the output layer of a network has learnt in one tile.

    For each step, `correct` comes first, and then `learn` about the same pixels.
    """

    def __init__(self, network: IntegerNetwork, manner: Manner, schedule: Schedule) -> None:
        assert can_adapt(network, manner)
        outputs, _, features = network.out.weight.shape
        self._neighbours = schedule.neighbours[network.first.taps]
        self._taps = find_around(manner, network, self._neighbours)
        # One more than there are pixels: where nothing is seen, no error is.
        self._errors = np.zeros((schedule.pixels + 1, network.channels), np.int16)
        # Floats that hold exact integers, far below 2^53: numpy multiplies those fast.
        inputs = features + 1 + len(self._taps) * network.channels
        self._changes = np.zeros((outputs, inputs))
        self._pull = np.zeros((outputs, inputs))
        kinds = 1, network.channels, network.channels, network.couplings
        rates = np.repeat(manner.rates, [network.mixtures * count for count in kinds])
        self._rates, self._learnt = rates[:, None], features + 1
        self._place = self._seen = 0

    def correct(self, features: npt.NDArray[Any]) -> Int32s:
        """Return what is added to the outputs of the next pixels, (outputs, n): features (n, F)."""
        count = len(features)
        places = self._neighbours.places[self._place : self._place + count]
        hidden = np.full(count, len(self._errors) - 1)
        around = [hidden if tap is None else places[:, tap] for tap in self._taps]
        parts = [features, np.full((count, 1), ONE), *(self._errors[each] for each in around)]
        self._inputs = np.concatenate(parts, 1, dtype=np.float64)
        sums = self._changes @ self._inputs.T
        return np.floor((sums + (1 << (SHIFT - 1))) / (1 << SHIFT)).astype(np.int32)

    def learn(self, gradients: Int64s, errors: Int64s) -> None:
        """Take in how the likelihood of those pixels rises with their outputs: (outputs, n).

        errors (channels coded, n) tell how far off they were predicted.
        """
        count = len(self._inputs)
        self._errors[self._place : self._place + count, : len(errors)] = errors.T
        self._place += count
        self._pull += gradients @ self._inputs
        self._seen += count
        if self._seen < WAIT:
            return
        self._seen = 0
        self._changes += self._rates * np.sign(self._pull)
        self._changes.clip(-MOST, MOST, out=self._changes)
        self._pull -= np.floor(self._pull / (1 << FORGET))

    @property
    def changes(self) -> Int32s:
        """The changes of each output, for each feature and then the constant."""
        return self._changes[:, : self._learnt].astype(np.int32)
