"""Effort "max": a network learns from the pictures it is to code (FORMAT.md, "Tunings").

Learning needs torch and is `lmzip.models.tune`, which is imported only when it is asked for:
nothing else of the codec knows that it exists.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

from lmzip.container.tuning_bank import tune_model
from lmzip.container.tuning_block import write_tuning
from lmzip.errors import InputError
from lmzip.network.registry import Choice, Model
from lmzip.options import Options
from lmzip.picture import Picture
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
        picture.samples[..., channels]
        for picture in pictures
        for channels in picture.mode.groups[:1]
        if len(channels) in (1, model.network.channels)
    ]
    tuning = tune.learn_tuning(model.network, order, images, 60 * options.minutes, progress)
    return None if tuning is None else tune_model(model, write_tuning(tuning, model.network))
