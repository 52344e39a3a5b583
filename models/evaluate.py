"""Likelihoods of a data set: under one order, averaged over several, and of hidden regions.

The figures of the paper's Tables 1 to 3: bits per dimension, and nats for binary data.

- Several orders are averaged as the paper does it: the mean of the joint probabilities of an
  image, which is a distribution again.
- A hidden region's likelihood is the product of its own pixels' conditionals. A maximum-context
  order visits the observed pixels first, so that these conditionals see all of them. An adversarial
  order visits the hidden ones first, so that they see none.

One pass over the true image gives all conditionals. Whether hidden pixels that are still to come
hold their values or zero makes no difference: the masks hide them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from lmzip.errors import InputError
from lmzip.models.lmconv import MaskSet
from lmzip.order.context import RegionMask, adversarial_order, maximum_context
from lmzip.order.orders import Order, Ranks, expand_orders
from lmzip.progress import Progress

_Rows = list[tuple[str, list[Ranks]]]  # the name of a score and the orders that it averages


class LikelihoodModel(Protocol):
    """What can be evaluated: anything that gives the nats of each pixel under an order."""

    @property
    def channels(self) -> int: ...

    @property
    def levels(self) -> int: ...

    def nll(self, levels: Tensor, masks: MaskSet) -> Tensor:
        """Return the nats of each pixel, (B, H, W), for integer levels (B, C, H, W)."""


@dataclass(frozen=True)
class ImageSet:
    """What was measured: how many images, of which kind."""

    count: int
    channels: int
    height: int
    width: int
    levels: int

    @property
    def unit(self) -> str:
        """The unit in which the literature reports such images."""
        return "nats" if self.channels == 1 and self.levels == 2 else "bpd"

    def __str__(self) -> str:
        size = f"{self.height}x{self.width}"
        return f"{self.count} images, {size}, {self.channels} channels, {self.levels} levels"


@dataclass(frozen=True)
class Score:
    """A negative log likelihood: the mean over the images, and the mean's standard error.

    `nats` counts the whole region, `bpd` one dimension of it in bits. One image has no error.
    """

    name: str
    orders: int  # how many were averaged
    nats: float
    nats_error: float | None
    bpd: float
    bpd_error: float | None


@dataclass(frozen=True)
class RegionScores:
    """The scores of a hidden region given the rest of the image, or of the whole image."""

    name: str
    pixels: int
    scores: tuple[Score, ...]


@dataclass(frozen=True)
class Evaluation:
    """The scores of a data set. Every region has the same rows of scores."""

    images: ImageSet
    regions: tuple[RegionScores, ...]


def evaluate(
    network: LikelihoodModel,
    images: Tensor | npt.ArrayLike,
    orders: Iterable[Order | str],
    *,
    batch_size: int = 32,
    progress: Progress | None = None,
) -> Evaluation:
    """Score whole images (N, C, H, W) of integer levels under each order and on average.

    "s-curve:*" stands for all variants of a family. Orders of one family are also averaged.
    Raises InputError for images that do not fit the network, OrderError for unknown orders.
    """
    levels, kind = _check_images(network, images)
    families: dict[str, _Rows] = {}
    for order in _read_orders(orders):
        row = str(order), [order.ranks(kind.height, kind.width)]
        families.setdefault(order.family, []).append(row)
    rows: _Rows = []
    for family, singles in families.items():
        rows += singles
        if len(singles) > 1:
            everything = [ranks for _, own in singles for ranks in own]
            rows.append((f"{family} ({len(singles)} orders)", everything))
    whole = np.ones((kind.height, kind.width), bool)
    return _evaluate_rows(network, levels, kind, [("image", whole, rows)], batch_size, progress)


def evaluate_completion(
    network: LikelihoodModel,
    images: Tensor | npt.ArrayLike,
    regions: Mapping[str, RegionMask],
    *,
    family: str = "s-curve",
    orders: Iterable[Order | str] = (),
    batch_size: int = 32,
    progress: Progress | None = None,
) -> Evaluation:
    """Score hidden regions (see `make_regions`) of images (N, C, H, W): the paper's Table 3.

    Maximum-context and adversarial orders are variants of `family`; `orders` are scored as they
    are, such as raster for the baseline. Raises InputError and OrderError as `evaluate` does.
    """
    levels, kind = _check_images(network, images)
    fixed: _Rows = [(str(o), [o.ranks(kind.height, kind.width)]) for o in _read_orders(orders)]
    tasks = []
    for name, hidden in regions.items():
        _check_region(name, hidden, kind)
        best = maximum_context(hidden, 2, family)
        rows = [
            *fixed,
            ("adversarial order", [adversarial_order(hidden, family)]),
            ("1 max context order", best[:1]),
            ("2 max context orders", best),
        ]
        tasks.append((name, hidden, rows))
    return _evaluate_rows(network, levels, kind, tasks, batch_size, progress)


@torch.no_grad()
def measure_nats(
    network: LikelihoodModel, levels: Tensor, masks: MaskSet, region: RegionMask
) -> Tensor:
    """Return the nats of a region of each image: float64 (B) for levels (B, C, H, W)."""
    nats = network.nll(levels, masks)
    return nats[:, torch.from_numpy(region)].double().sum(1)


def average_orders(nats: Sequence[Tensor]) -> Tensor:
    """Return the nats of each image under the mean of the orders' probabilities: (N)."""
    return math.log(len(nats)) - torch.stack(list(nats)).neg().logsumexp(0)


def to_json(evaluation: Evaluation) -> dict[str, Any]:
    """Return an evaluation as an object of JSON."""
    return asdict(evaluation)


def format_table(evaluation: Evaluation) -> str:
    """Return an evaluation as lines of at most 80 columns, with standard errors in brackets.

    Binary images, whose unit is nats, are shown in bits per dimension as well.
    """
    units = ["nats", "bpd"] if evaluation.images.unit == "nats" else ["bpd"]
    lines = [str(evaluation.images)]
    for unit in units:
        for start in range(0, len(evaluation.regions), 3):
            regions = evaluation.regions[start : start + 3]
            heading = "".join(f"{region.name[:17]:>18}" for region in regions)
            lines += ["", f"{unit + ' (standard error)':<26}{heading}"]
            for row in zip(*(region.scores for region in regions), strict=True):
                cells = (f"{_format_score(score, unit):>18}" for score in row)
                lines.append(f"{row[0].name:<26}" + "".join(cells))
    return "\n".join(lines)


def _evaluate_rows(
    network: LikelihoodModel,
    levels: Tensor,
    kind: ImageSet,
    tasks: Sequence[tuple[str, RegionMask, _Rows]],
    batch_size: int,
    progress: Progress | None,
) -> Evaluation:
    """Score each region's rows; an order that several rows share is measured once."""
    parameter = next(network.parameters(), None) if isinstance(network, nn.Module) else None
    device = None if parameter is None else parameter.device
    needed = [{r.tobytes(): r for _, own in rows for r in own} for _, _, rows in tasks]
    done, total = 0, len(levels) * sum(map(len, needed))
    regions = []
    for (name, region, rows), orders in zip(tasks, needed, strict=True):
        nats = {}
        for key, ranks in orders.items():
            masks, parts = MaskSet(ranks), []
            for batch in _batches(levels, batch_size):
                parts.append(measure_nats(network, batch.to(device), masks, region).cpu())
                done += len(batch)
                if progress is not None:
                    progress(done, total)
            nats[key] = torch.cat(parts)
        dimensions = int(region.sum()) * kind.channels
        scores = [_score(row, [nats[r.tobytes()] for r in own], dimensions) for row, own in rows]
        regions.append(RegionScores(name, int(region.sum()), tuple(scores)))
    return Evaluation(kind, tuple(regions))


def _batches(levels: Tensor, size: int) -> Iterator[Tensor]:
    """Cut a data set into batches of int64; all of it might not fit into memory."""
    return (levels[start : start + size].long() for start in range(0, len(levels), size))


def _score(name: str, nats: Sequence[Tensor], dimensions: int) -> Score:
    """Summarise the nats (N) of each order, averaged over the orders if there are several."""
    joint = average_orders(nats)
    mean, per_bit = float(joint.mean()), math.log(2) * dimensions
    if len(joint) == 1:
        return Score(name, len(nats), mean, None, mean / per_bit, None)
    error = float(joint.std()) / math.sqrt(len(joint))
    return Score(name, len(nats), mean, error, mean / per_bit, error / per_bit)


def _format_score(score: Score, unit: str) -> str:
    value, error, places = score.bpd, score.bpd_error, 4
    if unit == "nats":
        value, error, places = score.nats, score.nats_error, 2
    return f"{value:.{places}f}" + ("" if error is None else f" ({error:.{places}f})")


def _read_orders(orders: Iterable[Order | str]) -> list[Order]:
    read: list[Order] = []
    for order in orders:
        read += expand_orders([order]) if isinstance(order, str) else [order]
    return read


def _check_images(
    network: LikelihoodModel, images: Tensor | npt.ArrayLike
) -> tuple[Tensor, ImageSet]:
    levels = images if isinstance(images, Tensor) else torch.from_numpy(np.asarray(images))
    if levels.dim() != 4 or levels.numel() == 0:
        raise InputError(f"images are N x C x H x W and not empty, not {tuple(levels.shape)}")
    if levels.dtype.is_floating_point or levels.dtype == torch.bool:
        raise InputError(f"images hold integer levels, not {str(levels.dtype).split('.')[-1]}")
    count, channels, height, width = levels.shape
    if channels != network.channels:
        raise InputError(f"the images have {channels} channels, the network {network.channels}")
    for batch in _batches(levels, 1024):
        for extreme in batch.aminmax():
            if not 0 <= extreme < network.levels:
                raise InputError(f"level {extreme} is not in the network's 0..{network.levels - 1}")
    return levels, ImageSet(count, channels, height, width, network.levels)


def _check_region(name: str, hidden: RegionMask, kind: ImageSet) -> None:
    if hidden.dtype != bool or hidden.shape != (kind.height, kind.width):
        wanted = f"bool ({kind.height}, {kind.width})"
        raise InputError(f"region {name!r} is {hidden.dtype} {hidden.shape}, not {wanted}")
    if not hidden.any():
        raise InputError(f"region {name!r} hides no pixel of a {kind.height}x{kind.width} image")
