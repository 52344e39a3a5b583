"""Which tuning of a model's bank suits pictures, by a sample of them.

All tunings are tried on few crops, and the most promising ones again on more of them: a picture is
never coded with a tuning that a sample of it does not speak for clearly.
"""

from __future__ import annotations

from collections.abc import Sequence

from lmzip.container.model_reference import CHECK_BYTES
from lmzip.container.tuning_bank import read_bank, tune_by_bank
from lmzip.cost import cost_of_bytes
from lmzip.network.deep import is_deepenable
from lmzip.network.registry import Choice
from lmzip.options import FAST, Options
from lmzip.picture import Samples
from lmzip.selection import MANY_CROPS, SMALL, measure_choices, take_sample
from lmzip.stream.precision import Precision

FIELD_BYTES = 1 + CHECK_BYTES  # of a file that has a tuning of the bank
CLEARLY = 0.003  # of the bits: what a tuning must save on a sample to be trusted with the rest
FINALISTS = 3  # tunings that are tried on more crops


def choose_tuning(
    choice: Choice, samples: Samples, precision: Precision | None, options: Options
) -> Choice:
    """Return the choice with the tuning of the model's bank that suits a picture (H, W, C) best.

    Samples are of 8 bits, or the numbers of deep ones of a `precision`. Returns the choice as it is
    if none does, or if the model has no bank.
    """
    choices = [choice, *_list_tuned(choice, precision, options)]
    if samples.shape[0] * samples.shape[1] <= SMALL:
        return _choose_for(choices, samples[None], precision, options, 0.0)
    if len(choices) > 1 + FINALISTS:
        costs = measure_choices(take_sample(samples), choices, options, precision)
        ranked = sorted(range(1, len(choices)), key=costs.__getitem__)
        choices = [choice, *(choices[place] for place in ranked[:FINALISTS])]
    return _choose_for(choices, take_sample(samples, MANY_CROPS), precision, options, CLEARLY)


def choose_tuning_for_all(
    choice: Choice, images: Samples, options: Options, precision: Precision | None = None
) -> Choice:
    """Do the same for many images (N, H, W, C) of which these are a sample."""
    choices = [choice, *_list_tuned(choice, precision, options)]
    return _choose_for(choices, images, precision, options, CLEARLY)


def _list_tuned(choice: Choice, precision: Precision | None, options: Options) -> list[Choice]:
    """Return the choice with each tuning of its model's bank that may be used."""
    if choice.model.base is not None or choice.order.permutation is not None:
        return []
    if options.effort == FAST:
        return []
    models = [tune_by_bank(choice.model, entry.number) for entry in read_bank(choice.model)]
    if precision is not None:
        models = [model for model in models if is_deepenable(model.network)]
    return [Choice(model, choice.order) for model in models]


def _choose_for(
    choices: Sequence[Choice],
    crops: Samples,
    precision: Precision | None,
    options: Options,
    share: float,
) -> Choice:
    """Return the cheapest choice, if it is cheaper than the first by its field and by a share."""
    if len(choices) == 1:
        return choices[0]
    before, *costs = measure_choices(crops, choices, options, precision)
    after = min(costs)
    if after + cost_of_bytes(FIELD_BYTES) < (1 - share) * before:
        return choices[1 + costs.index(after)]
    return choices[0]
