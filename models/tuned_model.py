"""A model that has learnt from a collection, as a model file of its own (`lmzip tune`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from lmzip.container.learning import gather_images
from lmzip.container.tile_coding import LARGE
from lmzip.models.tune import learn_tuning
from lmzip.models.tuned_layers import Plan
from lmzip.network.deep import deepen
from lmzip.network.integer_network import save_integer_network
from lmzip.network.registry import Choice, Model
from lmzip.network.tuning import apply_tuning
from lmzip.options import Options
from lmzip.order.orders import expand_orders
from lmzip.picture import Picture
from lmzip.progress import Progress

# Nothing is sent with the images, so everything may be as fine as it goes, and costs nothing.
PLAN = Plan(gain_step=0, bias_step=0, out_bias_step=0, weight_step=0.0, price=0.0)


def write_tuned_model(
    base: Model,
    pictures: Sequence[Picture],
    path: Path,
    seconds: float,
    progress: Progress | None = None,
) -> int:
    """Let a model learn from pictures for so long at most, and write its file.

    It learns in the first order that it was trained for, and from pictures of one depth, whichever
    there is most of. Returns how many those are; 0, and writes nothing, if there is too little of
    pictures or time to learn anything. Raises ModelError if what is learnt from deep pictures
    cannot code them.
    """
    order = expand_orders(base.network.orders)[0]
    images, precision = gather_images(Choice(base, order), pictures, Options())
    tuning = learn_tuning(base.network, order, images, seconds, progress, PLAN, precision, LARGE)
    if tuning is None:
        return 0
    notes = {"tuned_from": f"{base.name} {base.fingerprint[:16]}", "images": len(images)}
    network = replace(apply_tuning(base.network, tuning), name=path.stem, notes=notes)
    if precision is not None:
        deepen(network)
    save_integer_network(network, path)
    return len(images)
