"""Batches: a step's images, order and augmentation as a pure function of (seed, step, rank).

So a resumed run sees exactly what an uninterrupted one would have seen, and a checkpoint need not
hold any state of a random generator. Each source goes through all of its images in a new random
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

from lmzip.models.data import (
    DataError,
    average_boxes,
    load_binarized_mnist,
    load_cifar10,
    load_folder,
    load_mnist,
)
from lmzip.models.lmconv import MaskSet
from lmzip.models.recipe import DataRecipe, PhaseRecipe
from lmzip.orders import Order

# Purposes of random numbers: streams of different purposes never share a seed.
_SOURCE, _ORDER, _SEQUENCE, _AUGMENT = range(4)
_BLOCK = 4096  # steps whose sources are drawn together


class Source:
    """The images of one `[[data]]` table, held in memory, from which batches are cut."""

    def __init__(self, recipe: DataRecipe, roots: Sequence[str | Path], channels: int) -> None:
        self.recipe = recipe
        self.pictures = _load_pictures(recipe, roots, channels)
        shape = self.pictures[0].shape
        if shape[0] != channels:
            raise DataError(
                f"{recipe.kind} has {shape[0]} channels, the network is for {channels}"
            )
        self.bits = 1 if recipe.kind == "binarized-mnist" else recipe.bits

    def __len__(self) -> int:
        return len(self.pictures)

    def cut(self, indices: npt.NDArray[np.int64], rng: np.random.Generator) -> Tensor:
        """Return the images of some indices, augmented, still of 8 bits: uint8 (B, C, H, W)."""
        if self.recipe.crop:
            batch = torch.stack([self._crop(self.pictures[i], rng) for i in indices])
        else:
            assert isinstance(self.pictures, Tensor)
            batch = self.pictures[torch.from_numpy(indices)]
        if self.recipe.flip:
            mirrored = torch.from_numpy(rng.random(len(indices)) < 0.5)
            batch = torch.where(mirrored[:, None, None, None], batch.flip(3), batch)
        if self.recipe.noise:
            batch = _add_noise(batch, self.recipe.noise, rng)
        return batch

    def _crop(self, picture: Tensor, rng: np.random.Generator) -> Tensor:
        size = self.recipe.crop
        top = int(rng.integers(picture.shape[1] - size + 1))
        left = int(rng.integers(picture.shape[2] - size + 1))
        return picture[:, top : top + size, left : left + size]

    def held_out(self, seed: int) -> Tensor:
        """Return every picture once, in a fixed way: levels (N, C, H, W)."""
        rng = np.random.default_rng((seed, _AUGMENT))
        return reduce_depth(self.cut(np.arange(len(self)), rng), self)


def reduce_depth(images: Tensor, source: Source) -> Tensor:
    """Keep the upper bits of each sample, where a source has fewer than 8."""
    if source.bits == 8 or source.recipe.kind == "binarized-mnist":
        return images
    return images >> (8 - source.bits)


class Batches:
    """All sources of a recipe, mixed by weight, under one order a batch."""

    def __init__(
        self,
        sources: Sequence[Source],
        orders: Sequence[Order],
        phases: Sequence[PhaseRecipe] = (),
        seed: int = 0,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        self.sources, self.orders, self.phases = sources, orders, phases
        self.seed, self.rank, self.world = seed, rank, world
        weights = np.array([source.recipe.weight for source in sources], float)
        if not weights.sum() > 0:
            raise DataError("the weights of all sources are zero")
        self._shares = np.cumsum(weights) / weights.sum()
        self._blocks: list[npt.NDArray[np.int64]] = []  # batches drawn from each, before block i

    def draw(self, step: int) -> tuple[Tensor, Order]:
        """Return the levels (B, C, H, W) and the order of a step's batch on this rank."""
        number, earlier = self._source_of(step)
        source = self.sources[number]
        size = source.recipe.batch
        first = (earlier * self.world + self.rank) * size
        indices = self._sequence(number, len(source), first, size)
        rng = np.random.default_rng((self.seed, _AUGMENT, step, self.rank))
        images = average_boxes(source.cut(indices, rng), self._downscale(step))
        order = np.random.default_rng((self.seed, _ORDER, step)).integers(len(self.orders))
        return reduce_depth(images, source), self.orders[int(order)]

    def batch_size(self, step: int) -> int:
        """Return how many images all ranks together see in a step."""
        return self.sources[self._source_of(step)[0]].recipe.batch * self.world

    def _source_of(self, step: int) -> tuple[int, int]:
        """Return the source of a step, and how many earlier steps had the same one."""
        block, place = divmod(step, _BLOCK)
        while len(self._blocks) <= block:
            done = len(self._blocks)
            drawn = self._blocks[-1] if done else np.zeros(len(self.sources), np.int64)
            if done:
                choices = _choose_sources(self.seed, done - 1, tuple(self._shares))
                drawn = drawn + np.bincount(choices, minlength=len(self.sources))
            self._blocks.append(drawn)
        choices = _choose_sources(self.seed, block, tuple(self._shares))
        number = int(choices[place])
        return number, int(self._blocks[block][number] + (choices[:place] == number).sum())

    def _sequence(self, number: int, count: int, first: int, size: int) -> npt.NDArray[np.int64]:
        """Return places first .. first + size - 1 of a source's endless sequence of images."""
        places = np.arange(first, first + size)
        epochs, within = np.divmod(places, count)
        sequence = [
            _shuffle(self.seed, number, int(epoch), count)[within[epochs == epoch]]
            for epoch in np.unique(epochs)
        ]
        return np.concatenate(sequence)

    def _downscale(self, step: int) -> int:
        for phase in self.phases:
            if step < phase.steps:
                return phase.downscale
            step -= phase.steps
        return 1


@lru_cache(maxsize=8)
def _choose_sources(seed: int, block: int, shares: tuple[float, ...]) -> npt.NDArray[np.int64]:
    drawn = np.random.default_rng((seed, _SOURCE, block)).random(_BLOCK)
    return np.minimum(np.searchsorted(shares, drawn, "right"), len(shares) - 1)


@lru_cache(maxsize=32)
def _shuffle(seed: int, number: int, epoch: int, count: int) -> npt.NDArray[np.int64]:
    return np.random.default_rng((seed, _SEQUENCE, number, epoch)).permutation(count)


class MaskCache:
    """The masks of each order and shape, made once."""

    def __init__(self) -> None:
        self._sets: dict[tuple[Order, int, int], MaskSet] = {}

    def get(self, order: Order, height: int, width: int) -> MaskSet:
        key = (order, height, width)
        if key not in self._sets:
            self._sets[key] = MaskSet(order.ranks(height, width))
        return self._sets[key]


def _load_pictures(
    recipe: DataRecipe, roots: Sequence[str | Path], channels: int
) -> Tensor | list[Tensor]:
    """Load a source: one tensor where all images have one shape, a list where they are cropped."""
    if recipe.kind == "folder":
        images = load_folder(
            roots, recipe.path, channels=channels, size=recipe.size, limit=recipe.limit
        )
        scaled = [average_boxes(image, scale) for scale in recipe.scales for image in images]
        if not recipe.crop:
            return torch.stack(scaled) if len(recipe.scales) == 1 else _refuse_scales(recipe)
        large = [image for image in scaled if min(image.shape[1:]) >= recipe.crop]
        if not large:
            raise DataError(f"{recipe.path}: no image is as large as a crop of {recipe.crop}")
        return large
    load = {"cifar10": load_cifar10, "mnist": load_mnist, "binarized-mnist": load_binarized_mnist}
    return load[recipe.kind](roots, recipe.split, recipe.path)[: recipe.limit or None]


def _refuse_scales(recipe: DataRecipe) -> list[Tensor]:
    raise DataError(f"{recipe.path}: several scales need a crop, for batches have one size")


def _add_noise(batch: Tensor, most: float, rng: np.random.Generator) -> Tensor:
    """Add Gaussian noise whose strength differs from image to image, from none to `most`."""
    strength = rng.random((len(batch), 1, 1, 1), np.float32) * most
    noise = torch.from_numpy(rng.standard_normal(batch.shape, np.float32) * strength)
    return (batch + noise).round_().clamp_(0, 255).to(torch.uint8)
