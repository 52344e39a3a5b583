"""Effort "max": a network learns from the pictures it is to code (FORMAT.md, "Tunings").

Learning needs torch and is `lmzip.models.tune`, which is imported only when it is asked for:
nothing else of the codec knows that it exists.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

import numpy as np

from lmzip.container.scaling_choice import describe_values
from lmzip.container.tuning_bank import tune_model
from lmzip.container.tuning_block import write_tuning
from lmzip.errors import InputError
from lmzip.network.deep import is_deepenable
from lmzip.network.registry import Choice, Model
from lmzip.options import Options
from lmzip.picture import Picture, Samples
from lmzip.progress import Progress


def learn_model(
    choice: Choice, pictures: Sequence[Picture], options: Options, progress: Progress | None
) -> Model | None:
    """Return a model as it is after learning from pictures; None if they are too few to pay.

    Raises InputError if torch is not installed.
    """
    try:
        tune = import_module("lmzip.models.tune")
    except ModuleNotFoundError as error:
        raise InputError('effort "max" needs torch: pip install "lmzip[train]"') from error
    model, order = choice
    images = [
        _find_levels(picture.samples[..., channels])
        for picture in pictures
        for channels in picture.mode.groups[:1]
        if len(channels) in (1, model.network.channels)
    ]
    tuning = tune.learn_tuning(model.network, order, images, 60 * options.minutes, progress)
    if tuning is None:
        return None
    tuned = tune_model(model, write_tuning(tuning, model.network))
    deep = any(picture.mode.deep for picture in pictures)
    return None if deep and not is_deepenable(tuned.network) else tuned


def _find_levels(samples: Samples) -> Samples:
    """Return samples as levels of 8 bits: what is learnt from these holds for deep ones as well."""
    if samples.dtype != np.uint16:
        return samples
    scaling = describe_values(samples)
    return (scaling.number(samples) >> (scaling.precision.depth - 8)).astype(np.uint8)
