"""A model that has learnt from a collection, as a model file of its own (`lmzip tune`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from lmzip.models.tune import learn_tuning
from lmzip.models.tuned_layers import Plan
from lmzip.network.integer_network import save_integer_network
from lmzip.network.registry import Model
from lmzip.network.tuning import apply_tuning
from lmzip.order.orders import expand_orders
from lmzip.progress import Progress

# Nothing is sent with the images, so everything may be as fine as it goes, and costs nothing.
PLAN = Plan(gain_step=0, bias_step=0, out_bias_step=0, weight_step=0.0, price=0.0)


def write_tuned_model(
    base: Model,
    images: Sequence[npt.NDArray[np.uint8]],
    path: Path,
    seconds: float,
    progress: Progress | None = None,
) -> bool:
    """Let a model learn from images (H, W, C) for so long at most, and write its file.

    It learns in the first order that it was trained for. Returns False, and writes nothing, if
    there is too little of images or time to learn anything.
    """
    order = expand_orders(base.network.orders)[0]
    tuning = learn_tuning(base.network, order, images, seconds, progress, PLAN)
    if tuning is None:
        return False
    notes = {"tuned_from": f"{base.name} {base.fingerprint[:16]}", "images": len(images)}
    network = apply_tuning(base.network, tuning)
    save_integer_network(replace(network, name=path.stem, notes=notes), path)
    return True
