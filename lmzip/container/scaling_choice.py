"""Which scaling suits deep samples: what is known of their values, and what a sample of them costs.

Only the encoder comes here; a file states the scaling that was chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from lmzip.container.scaling import VALUES, Scaling, pack_values
from lmzip.cost import to_bits
from lmzip.network.registry import Choice
from lmzip.options import FAST, Options
from lmzip.parallel.encode_job import EncodeJob
from lmzip.picture import Mode, Samples
from lmzip.selection import MANY_CROPS, take_sample
from lmzip.stream.precision import LEAST_DEPTH, MOST_FLATNESS, SQUARE_ROOT, Precision

SHARPER = (24, 40, 64, 104, 168, 255)  # tried in turn, as long as they gain
FEWEST_FLAT = 64  # pixels whose neighbours agree: fewer are not worth a number
# A sample easily misses constant areas, such as those around a round picture. From some depth on,
# networks waste bits there, more than what this costs elsewhere.
CERTAIN, FINE = 62000, 11
SPARSE = 0.8  # of the values there may be: if no more occur, listing them is tried
GAIN = 0.998  # what a sample must shrink to for a finer choice to count


def describe_values(samples: Samples) -> Scaling:
    """Return the plain scaling of samples: the fewest bits that evenly spaced values need."""
    values = _find_values(samples)
    lowest, highest = int(values[0]), int(values[-1])
    step = max(1, int(np.gcd.reduce(np.diff(values)))) if len(values) > 1 else 1
    # What is dark for the network stays dark, unless it takes a bit more.
    depths = {low: _bits((highest - low) // step + 1) for low in (lowest % step, lowest)}
    low = min(depths, key=lambda low: (depths[low], low))
    return Scaling(Precision(depths[low]), low, step)


def choose_scalings(
    images: Samples, crops: Samples, mode: Mode, choice: Choice, options: Options
) -> tuple[Scaling, ...]:
    """Return the scaling of each group of channels; none unless the samples are deep.

    images (N, H, W, C) are all that share the scalings, crops (n, h, w, C) a sample of them.
    """
    if not mode.deep:
        return ()
    return tuple(
        _choose_scaling(images[..., channels], crops[..., channels], choice, options)
        for channels in mode.groups
    )


def choose_sharpness(plane: Samples, choice: Choice, options: Options) -> int:
    """Return the sharpness for a network that is to learn from a plane (H, W, C) of deep samples.

    It is the next after the one that suits the network as it is: learning makes it more certain.
    """
    judge = _Judge(plane[None], take_sample(plane, MANY_CROPS), choice, options)
    best = judge.sharpen(describe_values(plane)).precision.sharpness
    return next((sharpness for sharpness in SHARPER if sharpness > best), best)


def number_planes(
    images: Samples, mode: Mode, scalings: Sequence[Scaling], group: int
) -> tuple[npt.NDArray[Any], Precision | None]:
    """Return a group of channels of images (..., C) as the network codes it, and its precision."""
    plane = np.ascontiguousarray(images[..., mode.groups[group]])
    if not scalings:
        return plane, None
    return scalings[group].number(plane), scalings[group].precision


def _choose_scaling(images: Samples, crops: Samples, choice: Choice, options: Options) -> Scaling:
    if options.effort == FAST or choice.order.permutation is not None:
        return describe_values(images)
    flatness = measure_flatness(images)
    judge = _Judge(images, crops, choice, options)
    # A network that has learnt from samples expects the sharpness that it has learnt with, so each
    # scaling is judged by the sharpness that suits it best.
    best, *others = [judge.sharpen(_where_certain(s, flatness)) for s in _list_scalings(images)]
    for scaling in others:
        best = judge.choose(best, scaling)
    if flatness and best.precision.depth > LEAST_DEPTH:
        best = judge.choose(best, _with(best, flatness=flatness))
    return best


class _Judge:
    """Tells scalings of images (N, H, W, C) apart by what a sample of these costs."""

    def __init__(self, images: Samples, crops: Samples, choice: Choice, options: Options) -> None:
        self._crops, self._choice, self._options = crops, choice, options
        self._share = images.size / crops.size
        self._known: dict[Scaling, float] = {}

    def choose(self, best: Scaling, other: Scaling) -> Scaling:
        """Return the best scaling so far, or another one if that is clearly better."""
        return other if self._bits(other) < GAIN * self._bits(best) else best

    def sharpen(self, scaling: Scaling) -> Scaling:
        """Return a scaling with the sharpness that suits it best."""
        if scaling.precision.depth == LEAST_DEPTH:
            return scaling
        for sharpness in SHARPER:
            sharper = _with(scaling, sharpness=sharpness)
            if self.choose(scaling, sharper) is scaling:
                break
            scaling = sharper
        return scaling

    def _bits(self, scaling: Scaling) -> float:
        """Return about how many bits all images take."""
        if scaling not in self._known:
            numbers = np.ascontiguousarray(scaling.number(self._crops))
            (model, order), sizes = self._choice, (len(self._crops),)
            job = EncodeJob(model, self._options.backend, order, numbers, sizes, scaling.precision)
            listed = 8 * len(pack_values(scaling.listed)) if scaling.listed else 0
            self._known[scaling] = to_bits(job.run()[0].cost) * self._share + listed
        return self._known[scaling]


def _where_certain(scaling: Scaling, flatness: int) -> Scaling:
    certain = flatness >= CERTAIN and scaling.precision.depth >= FINE
    return _with(scaling, flatness=flatness) if certain else scaling


def _list_scalings(images: Samples) -> list[Scaling]:
    """Return the ways to number the values of images, with either curve."""
    plain = describe_values(images)
    scalings = [plain]
    values = _find_values(images)
    if len(values) <= SPARSE * ((int(values[-1]) - plain.low) // plain.step + 1):
        listed = tuple(values.tolist())
        scalings.append(Scaling(Precision(_bits(len(values))), listed=listed))
    deep = [scaling for scaling in scalings if scaling.precision.depth > LEAST_DEPTH]
    return scalings + [_with(scaling, curve=SQUARE_ROOT) for scaling in deep]


def _with(scaling: Scaling, **changes: int) -> Scaling:
    return replace(scaling, precision=replace(scaling.precision, **changes))


def measure_flatness(images: Samples) -> int:
    """Return how many samples are what all neighbours before them in raster are, in 2^-16.

    Zero if there are too few pixels (N, H, W, C) whose neighbours agree.
    """
    if min(images.shape[1:3]) < 3:
        return 0
    left, here = images[:, 1:, :-2], images[:, 1:, 1:-1]
    above = [images[:, :-1, first : first + left.shape[2]] for first in range(3)]
    agreed = np.all([(left == other).all(-1) for other in above], axis=0)
    flat = int(agreed.sum())
    if flat < FEWEST_FLAT:
        return 0
    kept = int((here == left).all(-1)[agreed].sum())
    return min(MOST_FLATNESS, (kept << 16) // flat)


def _find_values(samples: Samples) -> npt.NDArray[np.int64]:
    return np.flatnonzero(np.bincount(samples.ravel(), minlength=VALUES))


def _bits(count: int) -> int:
    """Return the depth of so many values."""
    return max(LEAST_DEPTH, (count - 1).bit_length())
