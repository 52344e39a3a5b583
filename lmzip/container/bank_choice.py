"""Which tuning of a model's bank suits pictures, by a sample of them.

A tuning is tried on few crops, and the best one again on more of them: a picture is never coded
with a tuning that a sample of it does not speak for clearly.
"""

from __future__ import annotations

from lmzip.container.model_reference import CHECK_BYTES
from lmzip.container.tuning_bank import read_bank, tune_by_bank
from lmzip.cost import cost_of_bytes
from lmzip.network.deep import is_deepenable
from lmzip.network.registry import Choice
from lmzip.options import FAST, Options
from lmzip.picture import Samples
from lmzip.selection import MANY_CROPS, SMALL, choose_by_sample, measure_sample, take_sample
from lmzip.stream.precision import Precision

FIELD_BYTES = 1 + CHECK_BYTES  # of a file that has a tuning of the bank
CLEARLY = 0.003  # of the bits: what a tuning must save on a sample to be trusted with the rest


def choose_tuning(
    choice: Choice, samples: Samples, precision: Precision | None, options: Options
) -> Choice:
    """Return the choice with the tuning of the model's bank that suits a picture (H, W, C) best.

    Samples are of 8 bits, or the numbers of deep ones of a `precision`. Returns the choice as it is
    if none does, or if the model has no bank.
    """
    if not _may_be_tuned(choice, options):
        return choice
    if samples.shape[0] * samples.shape[1] <= SMALL:
        least = cost_of_bytes(FIELD_BYTES)
        return _choose_for(choice, samples[None], precision, options, least, 0.0)
    tuned = _choose_for(choice, take_sample(samples), precision, options, 0, CLEARLY)
    if tuned is choice:
        return choice
    crops = take_sample(samples, MANY_CROPS)
    before, after = (measure_sample(crops, each, options, precision) for each in (choice, tuned))
    return tuned if after < (1 - CLEARLY) * before else choice


def choose_tuning_for_all(
    choice: Choice, images: Samples, options: Options, precision: Precision | None = None
) -> Choice:
    """Do the same for many images (N, H, W, C) of which these are a sample."""
    if not _may_be_tuned(choice, options):
        return choice
    return _choose_for(choice, images, precision, options, cost_of_bytes(FIELD_BYTES), CLEARLY)


def _may_be_tuned(choice: Choice, options: Options) -> bool:
    plain = choice.model.base is None and choice.order.permutation is None
    return plain and options.effort != FAST and bool(read_bank(choice.model))


def _choose_for(
    choice: Choice,
    crops: Samples,
    precision: Precision | None,
    options: Options,
    least: int,
    share: float,
) -> Choice:
    """Return the tuned choice that is cheapest, if it saves so many units and such a share."""
    models = [tune_by_bank(choice.model, entry.number) for entry in read_bank(choice.model)]
    if precision is not None:
        models = [model for model in models if is_deepenable(model.network)]
    if not models:
        return choice
    before = measure_sample(crops, choice, options, precision)
    tuned = [Choice(model, choice.order) for model in models]
    best, after = choose_by_sample(crops, tuned, options, precision)
    return best if after + least < (1 - share) * before else choice
