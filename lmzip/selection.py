"""Which model and order to code a picture with: the candidates, and the choice by a sample."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lmzip.errors import InputError
from lmzip.network.deep import is_deepenable
from lmzip.network.registry import Choice, Model, ModelEntry, list_models, load_model
from lmzip.network.released import LARGER
from lmzip.options import AUTO, BEST, DEFAULT, FAST, Options
from lmzip.order.orders import Order, expand_orders, parse_order
from lmzip.parallel.encode_job import EncodeJob
from lmzip.parallel.workers import run_jobs
from lmzip.picture import Mode, Samples
from lmzip.stream.precision import Precision

SAMPLE_SIDE = 32  # a picture is judged by crops of this size
SAMPLE_CROPS = 2  # along each side
MANY_CROPS = 4  # likewise, for a closer look
SMALL = 64 * 64  # pixels: below, everything is tried


def list_choices(
    options: Options, mode: Mode | None = None, tuned: Sequence[Model] = ()
) -> list[Choice]:
    """Return the models and orders to choose from, the most promising first.

    With a mode, only those that can code it. Tuned models take the place of those that they were
    made from. Raises InputError or ModelError if what the options name cannot be used.
    """
    if options.order == BEST:
        choices = [
            Choice(model, order)
            for model in _candidates(options, None, mode)
            for order in expand_orders(model.network.orders)
        ]
    else:
        order = parse_order(options.order)
        choices = [Choice(model, order) for model in _candidates(options, order, mode)]
    places = {model.base: model for model in tuned}
    return [Choice(places.get(model, model), order) for model, order in choices]


def check_options(options: Options) -> None:
    """Raise InputError or ModelError if the model or order that options name cannot be used."""
    if options.order != BEST:
        parse_order(options.order)
    if options.model != AUTO:
        list_choices(options)


def _candidates(options: Options, order: Order | None, mode: Mode | None) -> list[Model]:
    if options.model != AUTO:
        model = load_model(options.model)
        if order is not None:
            model.check_order(order)
        if mode and not _covers(model, mode):
            raise InputError(
                f"model {model.name!r} is for {model.network.channels} channels, "
                f"not for mode {mode.name}"
            )
        return [model]
    models = [load_model(entry.path) for entry in _list_for(options.effort)]
    models = [model for model in models if mode is None or _covers(model, mode)]
    if order is None:  # every model, each in the orders it was trained for
        return models
    fitting = [model for model in models if model.predicts(order)]
    if not fitting and models:
        raise InputError(f"no released model predicts in the order {order}")
    # A network trained for one order predicts better in it than one trained for all.
    special = [model for model in fitting if not model.any_order]
    return special + [m for m in fitting if m.any_order and (not special or options.effort == BEST)]


def _list_for(effort: str) -> list[ModelEntry]:
    """Return the released models that an effort tries: small ones, large ones, or all."""
    entries = list_models()
    names = {entry.name for entry in entries}
    if effort == FAST:
        return [entry for entry in entries if entry.name not in LARGER.values()]
    if effort == DEFAULT:
        return [entry for entry in entries if LARGER.get(entry.name) not in names]
    return entries


def _covers(model: Model, mode: Mode) -> bool:
    """Whether a model can code all groups of a mode; any codes a single channel."""
    if mode.deep and not is_deepenable(model.network):
        return False
    return all(len(group) in (1, model.network.channels) for group in mode.groups)


def choose_by_sample(
    crops: Samples,
    choices: Sequence[Choice],
    options: Options,
    precision: Precision | None = None,
) -> tuple[Choice, int]:
    """Encode crops (N, H, W, C) with each choice; return the cheapest one and its cost."""
    costs = measure_choices(crops, choices, options, precision)
    best = int(np.argmin(costs))
    return choices[best], costs[best]


def measure_choices(
    crops: Samples,
    choices: Sequence[Choice],
    options: Options,
    precision: Precision | None = None,
) -> list[int]:
    """Return what crops (N, H, W, C) cost with each choice."""
    images = np.ascontiguousarray(crops)
    jobs = [
        EncodeJob(model, options.backend, order, images, (len(images),), precision)
        for model, order in choices
    ]
    return [results[0].cost for results in run_jobs(jobs, options.threads)]


def take_sample(samples: Samples, along: int = SAMPLE_CROPS) -> Samples:
    """Return crops (N, h, w, C) spread over a picture, `along` each side; all of it if small."""
    height, width = samples.shape[:2]
    if height * width <= SMALL:
        return samples[None]
    crop_height, crop_width = min(height, SAMPLE_SIDE), min(width, SAMPLE_SIDE)
    places = [
        ((height - crop_height) * down // (2 * along), (width - crop_width) * right // (2 * along))
        for down in range(1, 2 * along, 2)
        for right in range(1, 2 * along, 2)
    ]
    crops = [samples[top : top + crop_height, left : left + crop_width] for top, left in places]
    return np.stack(crops)
