"""What differs between samples of 8 bits and deep ones on their way through engine and mixture."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt

from lmzip.network.deep import deepen
from lmzip.network.integer_network import PIXEL_MAX, PREDICTOR_TAPS, IntegerNetwork
from lmzip.network.parameters import Parameters
from lmzip.order.schedule import Schedule
from lmzip.stream.deep_mixture import DeepMixture
from lmzip.stream.mixture import Mixture
from lmzip.stream.precision import Precision
from lmzip.stream.sequence import Int32s, Samples, widen

AGREEING = 3  # as many neighbours at least must be visible to agree on something


class Depth(ABC):
    """How samples enter a network, and how its mixture codes them."""

    symbols: int  # nibbles of a sample
    dtype: type[np.integer[Any]]
    network: IntegerNetwork  # as it is run

    @abstractmethod
    def find_inputs(self, samples: Samples) -> Int32s:
        """Return what the network sees of samples (places, images, channels)."""

    @abstractmethod
    def make_mixture(
        self, parameters: Parameters, samples: Samples, start: int, stop: int
    ) -> Mixture | DeepMixture:
        """Return the mixture of places start..stop; `samples` are all that are known."""


def choose_depth(
    network: IntegerNetwork, schedule: Schedule, precision: Precision | None, adapts: bool = False
) -> Depth:
    """Return how samples of a precision are coded: 8 bits if there is none, and those may adapt."""
    if precision is None:
        return _EightBits(network, adapts)
    assert not adapts, "deep samples do not adapt"
    return _Deep(network, schedule, precision)


class _EightBits(Depth):
    symbols, dtype = 2, np.uint8

    def __init__(self, network: IntegerNetwork, adapts: bool) -> None:
        self.network, self._adapts = network, adapts

    def find_inputs(self, samples: Samples) -> Int32s:
        return 2 * widen(samples.astype(np.int32), self.network) - np.int32(PIXEL_MAX)

    def make_mixture(
        self, parameters: Parameters, samples: Samples, start: int, stop: int
    ) -> Mixture:
        return Mixture(self.network.tables, parameters, self._adapts)


class _Deep(Depth):
    dtype = np.uint16

    def __init__(self, network: IntegerNetwork, schedule: Schedule, precision: Precision) -> None:
        self.network, self._precision = deepen(network), precision
        self.symbols, self._inputs = precision.symbols, precision.inputs
        self._places = schedule.neighbours[PREDICTOR_TAPS].places

    def find_inputs(self, samples: Samples) -> Int32s:
        return widen(self._inputs.take(samples, mode="clip"), self.network)

    def make_mixture(
        self, parameters: Parameters, samples: Samples, start: int, stop: int
    ) -> DeepMixture:
        if self._precision.flatness:
            agreed = find_agreement(samples, self._places[start:stop])
        else:
            agreed = np.full((samples.shape[2], (stop - start) * samples.shape[1]), -1, np.int32)
        return DeepMixture(self.network.tables, parameters, self._precision, agreed)


def find_agreement(samples: Samples, places: npt.NDArray[np.int32]) -> Int32s:
    """Return what the neighbours of some pixels agree on, or -1: (channels, pixels * images).

    samples (all places, images, channels); places (pixels, taps) of the neighbours, where that of a
    hidden one is the number of all places.
    """
    hidden = places == len(samples)
    seen = samples.take(np.where(hidden, 0, places), axis=0).astype(np.int32)  # (n, taps, N, C)
    least = np.where(hidden[..., None, None], 1 << 16, seen).min(1, initial=1 << 16)
    largest = np.where(hidden[..., None, None], -1, seen).max(1, initial=-1)
    enough = (~hidden).sum(1) >= AGREEING
    agree = (least == largest).all(2) & enough[:, None]  # in all channels
    return np.where(agree[..., None], least, -1).reshape(-1, samples.shape[2]).T
