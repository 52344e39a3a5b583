"""Effort "max": a network learns from the pictures it is to code (FORMAT.md, "Tunings").

Learning needs torch and is `lmzip.models.tune`, which is imported only when it is asked for:
nothing else of the codec knows that it exists.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from importlib import import_module

import numpy as np

from lmzip.container.scaling_choice import choose_sharpness, describe_values
from lmzip.container.tile_coding import LARGE
from lmzip.container.tuning_bank import tune_model
from lmzip.container.tuning_block import write_tuning
from lmzip.errors import InputError
from lmzip.network.deep import is_deepenable
from lmzip.network.registry import Choice, Model
from lmzip.options import Options
from lmzip.picture import Picture, Samples
from lmzip.progress import Progress
from lmzip.stream.precision import Precision


def learn_model(
    choice: Choice,
    pictures: Sequence[Picture],
    options: Options,
    progress: Progress | None,
    adaptive_from: int = LARGE,
) -> Model | None:
    """Return a model as it is after learning from pictures; None if they are too few to pay.

    Tiles of `adaptive_from` pixels or more are going to be coded by a network that adapts to them.
    Raises InputError if torch is not installed.
    """
    try:
        tune = import_module("lmzip.models.tune")
    except ModuleNotFoundError as error:
        raise InputError('effort "max" needs torch: pip install "lmzip[train]"') from error
    model, order = choice
    images, precision = gather_images(choice, pictures, options)
    tuning = tune.learn_tuning(
        model.network,
        order,
        images,
        60 * options.minutes,
        progress,
        precision=precision,
        adaptive_from=adaptive_from,
    )
    if tuning is None:
        return None
    tuned = tune_model(model, write_tuning(tuning, model.network))
    deep = any(picture.mode.deep for picture in pictures)
    return None if deep and not is_deepenable(tuned.network) else tuned


def gather_images(
    choice: Choice, pictures: Sequence[Picture], options: Options
) -> tuple[list[Samples], Precision | None]:
    """Return what to learn from: colours or grey of pictures of one depth, plainly scaled.

    Depths do not mix in a step: whichever there is most of is learnt from.
    """
    by_depth: dict[int, list[Samples]] = defaultdict(list)
    for picture in pictures:
        for channels in picture.mode.groups[:1]:
            if len(channels) in (1, choice.model.network.channels):
                plane = picture.samples[..., channels]
                depth = describe_values(plane).precision.depth if picture.mode.deep else 0
                by_depth[depth].append(plane)
    if not by_depth:
        return [], None
    depth = max(by_depth, key=lambda depth: sum(plane.size for plane in by_depth[depth]))
    planes = by_depth[depth]
    if not depth:
        return planes, None
    sharpness = choose_sharpness(max(planes, key=np.size), choice, options)
    numbers = [describe_values(plane).number(plane) for plane in planes]
    return numbers, Precision(depth, sharpness=sharpness)
