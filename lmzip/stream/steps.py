"""A decoder's way through the steps of a schedule: engine and mixture, for all images at once.

`Steps` is what a decoder asks for; `ArraySteps` answers with numpy or torch, `lmzip.native.runs`
with a kernel. A column is one place of one image. The columns of a step lie group by group; in a
group place by place, and of each place image by image: so each group's symbols lie as its stream
has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from lmzip.network.adaptation import Adaptation
from lmzip.network.backend import Backend
from lmzip.network.engine import Pass
from lmzip.order.schedule import Schedule
from lmzip.stream.depths import Depth
from lmzip.stream.mixture import Mixture
from lmzip.stream.sequence import Int32s, Samples

Frequencies = npt.NDArray[np.float32]  # (columns, 16), less one


class Steps(Protocol):
    """Turns samples known so far into frequencies; `samples` are (places, images, channels)."""

    samples: Samples

    def begin(self, start: int, stop: int) -> Frequencies:
        """Evaluate a step; return the frequencies of the first channel's first nibbles."""

    def refine(self, nibbles: Int32s) -> Frequencies:
        """Take nibbles; return the frequencies of the next ones of the same samples."""

    def finish(self, nibbles: Int32s) -> Frequencies:
        """Take the last nibbles; return the frequencies of the next channel's first, if any."""


class ArraySteps:
    """The steps of a network that an array library evaluates."""

    def __init__(
        self,
        backend: Backend,
        depth: Depth,
        schedule: Schedule,
        groups: Sequence[int],
        coded: int,
        adaptation: Adaptation | None = None,
    ) -> None:
        count = sum(groups)
        self._depth, self._coded, self._adaptation = depth, coded, adaptation
        self._groups = np.split(np.arange(count), np.cumsum(groups)[:-1])
        self.samples: Samples = np.zeros((schedule.pixels, count, coded), depth.dtype)
        longest = schedule.longest
        self._pass = Pass(depth.network, schedule, count, longest, backend, adaptation)

    def begin(self, start: int, stop: int) -> Frequencies:
        """Evaluate a step; return the frequencies of the first channel's first nibbles."""
        self._start, self._stop, self._channel = start, stop, 0
        parameters = self._pass.advance(start, stop)
        self._mixture = self._depth.make_mixture(parameters, self.samples, start, stop)
        return self._by_group(self._mixture.frequencies())

    def refine(self, nibbles: Int32s) -> Frequencies:
        """Take nibbles; return the frequencies of the next ones of the same samples."""
        self._mixture.take(self._by_place(nibbles))
        return self._by_group(self._mixture.frequencies())

    def finish(self, nibbles: Int32s) -> Frequencies:
        """Take the last nibbles; return the frequencies of the next channel's first, if any."""
        column = self._mixture.take(self._by_place(nibbles))
        step, more = slice(self._start, self._stop), self._channel + 1 < self._coded
        count = self.samples.shape[1]
        self.samples[step, :, self._channel] = column.reshape(-1, count)
        self._mixture.observe(self._channel, column, more)
        self._channel += 1
        if more:
            return self._by_group(self._mixture.frequencies())
        if self._adaptation is not None:
            assert isinstance(self._mixture, Mixture)
            self._adaptation.learn(self._mixture.gradients(), self._mixture.errors())
        inputs = self._depth.find_inputs(self.samples[step])
        self._pass.write_inputs(self._start, self._stop, inputs)
        return np.empty((0, 0), np.float32)

    def _columns(self) -> npt.NDArray[np.intp]:
        """Return, group by group, where its columns lie among those of the mixture."""
        places = np.arange(self._stop - self._start)[:, None] * self.samples.shape[1]
        return np.concatenate([(places + images).ravel() for images in self._groups])

    def _by_group(self, frequencies: Int32s) -> Frequencies:
        """Turn frequencies (16, columns), place by place, into rows."""
        rows = frequencies.T if len(self._groups) == 1 else frequencies.T[self._columns()]
        return np.ascontiguousarray(rows, np.float32)

    def _by_place(self, symbols: Int32s) -> Int32s:
        if len(self._groups) == 1:
            return symbols
        ordered = np.empty_like(symbols)
        ordered[self._columns()] = symbols
        return ordered
