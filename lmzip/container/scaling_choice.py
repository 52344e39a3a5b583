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
from lmzip.stream.precision import LEAST_DEPTH, MOST_FLATNESS, SQUARE_ROOT, Precision

SHARPER = (24, 40, 64, 104, 168, 255)  # tried in turn, as long as they gain
FEWEST_FLAT = 64  # pixels whose neighbours agree: fewer are not worth a number
# A sample easily misses constant areas, such as those around a round picture. From some depth on,
# networks waste bits there, more than what this costs elsewhere.
CERTAIN, FINE = 62000, 11
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


def number_planes(
    images: Samples, mode: Mode, scalings: Sequence[Scaling], group: int
) -> tuple[npt.NDArray[Any], Precision | None]:
    """Return a group of channels of images (..., C) as the network codes it, and its precision."""
    plane = np.ascontiguousarray(images[..., mode.groups[group]])
    if not scalings:
        return plane, None
    return scalings[group].number(plane), scalings[group].precision


def _choose_scaling(images: Samples, crops: Samples, choice: Choice, options: Options) -> Scaling:
    best = describe_values(images)
    if options.effort == FAST or choice.order.permutation is not None:
        return best
    share = images.size / crops.size

    def bits(scaling: Scaling) -> float:
        numbers = np.ascontiguousarray(scaling.number(crops))
        model, order = choice
        job = EncodeJob(model, options.backend, order, numbers, (len(crops),), scaling.precision)
        listed = 8 * len(pack_values(scaling.listed)) if scaling.listed else 0
        return to_bits(job.run()[0].cost) * share + listed

    least = bits(best)

    def try_out(scaling: Scaling) -> bool:
        nonlocal best, least
        cost = bits(scaling)
        if cost < GAIN * least:
            best, least = scaling, cost
            return True
        return False

    values = _find_values(images)
    if _bits(len(values)) < best.precision.depth:
        try_out(Scaling(Precision(_bits(len(values))), listed=tuple(values.tolist())))
    if best.precision.depth > LEAST_DEPTH:
        try_out(_with(best, curve=SQUARE_ROOT))
        flatness = measure_flatness(images)
        if flatness >= CERTAIN and best.precision.depth >= FINE:
            best = _with(best, flatness=flatness)
            least = bits(best)
        elif flatness:
            try_out(_with(best, flatness=flatness))
        for sharpness in SHARPER:
            if not try_out(_with(best, sharpness=sharpness)):
                break
    return best


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
