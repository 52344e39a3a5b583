"""Batches: a step's images, order and augmentation as a pure function of (seed, step, rank).

So a resumed run sees exactly what an uninterrupted one would have seen, and a checkpoint need not
hold the state of a random generator. Each source goes through all of its images in a new random
sequence before it repeats any.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from lmzip.models.alterations import alter
from lmzip.models.data_files import DataError
from lmzip.models.data_tensors import average_boxes, load_data_set, load_folder, to_luma
from lmzip.models.lmconv import MaskSet
from lmzip.models.recipe import DataRecipe, PhaseRecipe
from lmzip.order.orders import Order, observed_first, parse_order

Indices = npt.NDArray[np.int64]

# The purposes of random numbers: no two of them ever share a seed.
_SOURCE, _ORDER, _SEQUENCE, _AUGMENT = range(4)
_BLOCK = 4096  # steps whose sources are drawn together
_MASKS_KEPT = 256  # more than named orders need; regions are drawn anew for each batch


class ImageSource:
    """The images of one `[[data]]` table, held in memory, from which batches are cut."""

    def __init__(self, recipe: DataRecipe, roots: Sequence[str | Path], channels: int = 3) -> None:
        """Load the images; those of a folder are converted to this many channels, or to grey."""
        self.recipe = recipe
        self.pictures: Tensor | list[Tensor]  # one tensor if all have one size
        if recipe.kind == "folder":
            self.pictures = _load_scaled(recipe, roots, 1 if recipe.grey else channels)
        else:
            images = load_data_set(recipe.kind, roots, recipe.split, recipe.path)
            images = images[recipe.skip :][: recipe.limit or None]
            self.pictures = to_luma(images) if recipe.grey else images
        self.channels = self.pictures[0].shape[0]

    def __len__(self) -> int:
        return len(self.pictures)

    def cut(self, indices: Indices, rng: np.random.Generator, downscale: int = 1) -> Tensor:
        """Return the images of some indices, cropped and augmented: levels (B, C, H, W) uint8."""
        if isinstance(self.pictures, Tensor):
            batch = self.pictures[torch.from_numpy(indices)]
        else:
            batch = torch.stack([self._crop(self.pictures[i], rng) for i in indices])
        if self.recipe.flip:
            mirrored = torch.from_numpy(rng.random(len(indices)) < 0.5)
            batch[mirrored] = batch[mirrored].flip(3)
        batch = average_boxes(batch, downscale)
        if self.recipe.noise:
            batch = _add_noise(batch, self.recipe.noise, rng)
        # Binary data comes as levels; everything else as bytes, whose upper bits are kept.
        return batch >> (8 - self.recipe.depth) if 1 < self.recipe.depth < 8 else batch

    def cut_all(self, seed: int) -> Tensor:
        """Return every picture once, always cropped in the same way: levels (N, C, H, W)."""
        return self.cut(np.arange(len(self)), np.random.default_rng((seed, _AUGMENT)))

    def _crop(self, picture: Tensor, rng: np.random.Generator) -> Tensor:
        size, names = self.recipe.crop, self.recipe.alter
        drawn = int(rng.integers(len(names) + 1)) if names else 0
        if drawn:
            return _alter(picture, size, names[drawn - 1], rng)
        top = int(rng.integers(picture.shape[1] - size + 1))
        left = int(rng.integers(picture.shape[2] - size + 1))
        return picture[:, top : top + size, left : left + size]


class Batches:
    """All sources of a recipe, mixed by weight, under one order a batch.

    All ranks draw the same source and order in a step, and different images.
    """

    def __init__(
        self,
        sources: Sequence[ImageSource],
        orders: Sequence[Order],
        phases: Sequence[PhaseRecipe] = (),
        seed: int = 0,
        rank: int = 0,
        world: int = 1,
        completion: float = 0.0,
    ) -> None:
        self.completion = completion  # the share of the batches that visit a region last
        self.sources, self.orders, self.phases = sources, orders, phases
        self.seed, self.rank, self.world = seed, rank, world
        weights = np.array([source.recipe.weight for source in sources])
        self._shares = tuple((np.cumsum(weights) / weights.sum()).tolist())
        self._drawn = [np.zeros(len(sources), np.int64)]  # from each source, before each block

    def draw(self, step: int) -> tuple[Tensor, Order]:
        """Return the levels (B, C, H, W) and the order of a step's batch on this rank."""
        number, earlier = self._source_of(step)
        source = self.sources[number]
        size = source.recipe.batch
        first = (earlier * self.world + self.rank) * size
        indices = _sequence(self.seed, number, len(source), first, size)
        rng = np.random.default_rng((self.seed, _AUGMENT, step, self.rank))
        levels = source.cut(indices, rng, self._downscale(step))
        rng = np.random.default_rng((self.seed, _ORDER, step))
        order = self.orders[int(rng.integers(len(self.orders)))]
        if rng.random() < self.completion:
            height, width = levels.shape[2:]
            hidden = draw_rectangle(height, width, rng)
            ranks = observed_first(order.ranks(height, width), hidden)
            order = parse_order(np.argsort(ranks, axis=None))
        return levels, order

    def batch_size(self, step: int) -> int:
        """Return how many images all ranks together see in a step."""
        return self.sources[self._source_of(step)[0]].recipe.batch * self.world

    def _source_of(self, step: int) -> tuple[int, int]:
        """Return the number of a step's source, and how many earlier steps had the same one."""
        block, place = divmod(step, _BLOCK)
        for done in range(len(self._drawn) - 1, block):
            choices = _choose_sources(self.seed, done, self._shares)
            counts = np.bincount(choices, minlength=len(self.sources))
            self._drawn.append(self._drawn[done] + counts)
        choices = _choose_sources(self.seed, block, self._shares)
        number = int(choices[place])
        return number, int(self._drawn[block][number] + (choices[:place] == number).sum())

    def _downscale(self, step: int) -> int:
        for phase in self.phases:
            if step < phase.steps:
                return phase.downscale
            step -= phase.steps
        return 1


def draw_rectangle(height: int, width: int, rng: np.random.Generator) -> npt.NDArray[np.bool_]:
    """Return a region to hide, (height, width): a rectangle of a quarter to three of each side."""
    region = np.zeros((height, width), bool)
    rows = int(rng.integers(max(1, height // 4), max(1, 3 * height // 4) + 1))
    columns = int(rng.integers(max(1, width // 4), max(1, 3 * width // 4) + 1))
    top, left = int(rng.integers(height - rows + 1)), int(rng.integers(width - columns + 1))
    region[top : top + rows, left : left + columns] = True
    return region


class MaskCache:
    """The masks of each order and shape, made once, of the latest ones."""

    def __init__(self) -> None:
        self._sets: dict[tuple[Order, int, int], MaskSet] = {}

    def get(self, order: Order, height: int, width: int) -> MaskSet:
        key = (order, height, width)
        if key not in self._sets:
            if len(self._sets) == _MASKS_KEPT:
                del self._sets[next(iter(self._sets))]
            self._sets[key] = MaskSet(order.ranks(height, width))
        return self._sets[key]


@lru_cache(maxsize=8)
def _choose_sources(seed: int, block: int, shares: tuple[float, ...]) -> Indices:
    drawn = np.random.default_rng((seed, _SOURCE, block)).random(_BLOCK)
    return np.searchsorted(shares, drawn, "right")


def _sequence(seed: int, number: int, count: int, first: int, size: int) -> Indices:
    """Return places first .. first + size - 1 of a source's endless sequence of images."""
    epochs, places = np.divmod(np.arange(first, first + size), count)
    return np.concatenate(
        [
            _shuffle(seed, number, int(epoch), count)[places[epochs == epoch]]
            for epoch in np.unique(epochs)
        ]
    )


@lru_cache(maxsize=32)
def _shuffle(seed: int, number: int, epoch: int, count: int) -> Indices:
    return np.random.default_rng((seed, _SEQUENCE, number, epoch)).permutation(count)


def _load_scaled(
    recipe: DataRecipe, roots: Sequence[str | Path], channels: int
) -> Tensor | list[Tensor]:
    """Load a folder, at each scale, without the images that are too small to be cropped."""
    images = load_folder(
        roots,
        recipe.path,
        channels=channels,
        size=recipe.size,
        files=slice(recipe.skip, recipe.skip + recipe.limit if recipe.limit else None),
    )
    if not recipe.crop:
        return torch.stack(images)
    scaled = [average_boxes(image, scale) for scale in recipe.scales for image in images]
    large = [image for image in scaled if min(image.shape[1:]) >= recipe.crop]
    if not large:
        raise DataError(f"{recipe.path}: no image is as large as a crop of {recipe.crop}")
    return large


def _alter(picture: Tensor, size: int, name: str, rng: np.random.Generator) -> Tensor:
    """Crop and alter a picture (C, H, W); a grey one is altered as if it had colours."""
    channels = picture.shape[0]
    colours = picture.expand(3, -1, -1).permute(1, 2, 0).numpy()
    altered = torch.from_numpy(alter(colours, size, name, rng).copy()).permute(2, 0, 1)
    return altered if channels == 3 else to_luma(altered)


def _add_noise(batch: Tensor, most: float, rng: np.random.Generator) -> Tensor:
    """Add Gaussian noise whose strength differs from image to image, from none to `most`."""
    strength = rng.random((len(batch), 1, 1, 1), np.float32) * most
    noise = torch.from_numpy(rng.standard_normal(batch.shape, np.float32) * strength)
    return (batch + noise).round_().clamp_(0, 255).to(torch.uint8)
