"""Which model and order a picture is coded with: the candidates, and the choice by a sample."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lmzip.errors import InputError
from lmzip.network.registry import Model, list_models, load_model
from lmzip.options import AUTO, BEST, FAST, Options
from lmzip.order.orders import Order, expand_orders, parse_order
from lmzip.parallel.jobs import EncodeJob
from lmzip.picture import Mode, Samples

SAMPLE_SIDE = 32  # a picture is judged by crops of this size
SAMPLE_CROPS = 4
SMALL = 64 * 64  # pixels: below, everything is tried


def candidate_codings(options: Options, mode: Mode | None = None) -> list[tuple[Model, Order]]:
    """Return the models and orders to choose from, the likeliest first; if given, for a mode."""
    if options.order == BEST:
        codings = [
            (model, order)
            for model in _candidates(options, None, mode)
            for order in expand_orders(model.network.orders)
        ]
    else:
        order = parse_order(options.order)
        codings = [(model, order) for model in _candidates(options, order, mode)]
    return codings[:1] if options.effort == FAST else codings


def _candidates(options: Options, order: Order | None, mode: Mode | None) -> list[Model]:
    if options.model != AUTO:
        model = load_model(options.model)
        if order is not None and not _predicts(model, order):
            raise InputError(
                f"model {model.name!r} is for {', '.join(model.network.orders)} only, not {order}"
            )
        if mode and not _covers(model, mode):
            raise InputError(
                f"model {model.name!r} is for {model.network.channels} channels, "
                f"not for mode {mode.name}"
            )
        return [model]
    models = [load_model(entry.path) for entry in list_models()]
    models = [model for model in models if mode is None or _covers(model, mode)]
    if order is None:  # each in all of its own
        return models
    fitting = [model for model in models if _predicts(model, order)]
    if not fitting and models:
        raise InputError(f"no released model predicts in the order {order}")
    # A network for one order is better in it than one for all.
    special = [model for model in fitting if not model.any_order]
    return special + [m for m in fitting if m.any_order and (not special or options.effort == BEST)]


def _covers(model: Model, mode: Mode) -> bool:
    """Whether a model can code all groups of a mode; any codes a single channel."""
    return all(len(group) in (1, model.network.channels) for group in mode.groups)


def _predicts(model: Model, order: Order) -> bool:
    return model.any_order or str(order) in model.network.orders


def choose_by_sample(
    crops: Samples, codings: Sequence[tuple[Model, Order]], options: Options
) -> tuple[tuple[Model, Order], int]:
    """Code crops (N, H, W, C) with each candidate; return the cheapest and its cost."""
    crops = np.ascontiguousarray(crops)
    costs = [
        EncodeJob(model.path, options.backend, order, crops, (len(crops),)).run()[0].cost
        for model, order in codings
    ]
    best = int(np.argmin(costs))
    return codings[best], costs[best]


def take_sample(samples: Samples) -> Samples:
    """Return crops (N, h, w, C) spread over a picture, or all of it if it is small."""
    height, width = samples.shape[:2]
    if height * width <= SMALL:
        return samples[None]
    crop_height, crop_width = min(height, SAMPLE_SIDE), min(width, SAMPLE_SIDE)
    places = [(1, 1), (1, 3), (3, 1), (3, 3)][:SAMPLE_CROPS]  # in quarters of the picture
    crops = []
    for down, right in places:
        top = (height - crop_height) * down // 4
        left = (width - crop_width) * right // 4
        crops.append(samples[top : top + crop_height, left : left + crop_width])
    return np.stack(crops)
