"""What a caller may choose when compressing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lmzip.errors import InputError
from lmzip.orders import Order, expand_orders, parse_order
from lmzip.picture import Mode
from lmzip.registry import Model, list_models, load_model

AUTO = "auto"
BEST = "best"
FAST = "fast"
EFFORTS = (FAST, "default", BEST)


@dataclass(frozen=True)
class Options:
    """How to compress. `order` is a name, a name and variant, a permutation, or "best".

    Leaving model and order alone lets lmzip store a picture by a classical method where that is
    smaller; naming either one forces the network wherever it covers the picture's mode.
    """

    model: str = AUTO
    order: str | Order | tuple[int, ...] = "raster"
    effort: str = "default"
    threads: int = 0
    backend: str = "numpy"

    def __post_init__(self) -> None:
        if self.effort not in EFFORTS:
            raise InputError(f"unknown effort {self.effort!r}: choose from {', '.join(EFFORTS)}")
        if isinstance(self.order, np.ndarray):
            object.__setattr__(self, "order", parse_order(self.order))

    @property
    def forced(self) -> bool:
        return self.model != AUTO or self.order not in ("raster", BEST)


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
