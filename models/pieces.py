"""Pieces of images to learn from: squares of one size, cut anew for each pass over the images."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

SIDE = 64  # of the squares; images that are smaller are used whole
PIXELS = SIDE * SIDE  # of a batch, roughly: many small steps learn more than few large ones

Place = tuple[int, int, int]  # image, top, left


@dataclass(frozen=True)
class Batch:
    """Pieces of one shape, (N, C, h, w), and where each was cut from."""

    levels: Tensor
    places: tuple[Place, ...]

    @property
    def pixels(self) -> int:
        return self.levels[:, 0].numel()


class Pieces:
    """Batches from images (C, H, W), in random sequence.

    Each pixel comes about once before any comes again, so that a few batches of a large collection
    are a sample of it, and as many as make a pass are all of it.
    """

    def __init__(self, images: Sequence[Tensor], seed: int = 0) -> None:
        self._images = images
        self._generator = torch.Generator().manual_seed(seed)
        self._batches: Iterator[list[Place]] = iter(())

    def draw(self) -> Batch:
        """Return the next batch."""
        places = next(self._batches, None)
        if places is None:
            self._batches = iter(self._shuffle_pass())
            places = next(self._batches)
        return self._cut(places)

    def spread_out(self, count: int) -> list[Batch]:
        """Return so many batches at most that do not depend on chance, from all over the images."""
        batches = list(self._make_batches([(0, 0)] * len(self._images)))
        kept = min(count, len(batches))
        return [self._cut(batches[number * len(batches) // kept]) for number in range(kept)]

    def _shuffle_pass(self) -> list[list[Place]]:
        shifts = torch.randint(SIDE, (len(self._images), 2), generator=self._generator)
        batches = list(self._make_batches([(int(a), int(b)) for a, b in shifts], shuffle=True))
        return [batches[int(number)] for number in self._permute(len(batches))]

    def _make_batches(
        self, shifts: Sequence[tuple[int, int]], shuffle: bool = False
    ) -> Iterator[list[Place]]:
        by_shape: dict[tuple[int, int], list[Place]] = defaultdict(list)
        for number, (image, (down, right)) in enumerate(zip(self._images, shifts, strict=True)):
            height, width = image.shape[1:]
            by_shape[min(height, SIDE), min(width, SIDE)] += [
                (number, top, left)
                for top in _cut_side(height, down)
                for left in _cut_side(width, right)
            ]
        for (height, width), places in by_shape.items():
            size = max(1, PIXELS // (height * width))
            # Without chance, a batch has places from all over the images, too.
            sequence = self._permute(len(places)) if shuffle else _stride(len(places), size)
            for start in range(0, len(places), size):
                yield [places[int(place)] for place in sequence[start : start + size]]

    def _permute(self, count: int) -> Tensor:
        return torch.randperm(count, generator=self._generator)

    def _cut(self, places: Sequence[Place]) -> Batch:
        pieces = [
            self._images[n][:, top : top + SIDE, left : left + SIDE] for n, top, left in places
        ]
        return Batch(torch.stack(pieces), tuple(places))


def _cut_side(side: int, shift: int) -> list[int]:
    """Return where pieces begin along a side; the last ones overlap where they would stick out."""
    if side <= SIDE:
        return [0]
    starts = [start for start in range(shift - SIDE, side, SIDE) if _inside(start, side) > SIDE / 2]
    return [min(max(start, 0), side - SIDE) for start in starts]


def _inside(start: int, side: int) -> int:
    return min(start + SIDE, side) - max(start, 0)


def _stride(count: int, size: int) -> Tensor:
    """Return 0..count - 1 in a sequence whose stretches of `size` are spread over all of it."""
    batches = -(-count // size)
    return torch.cat([torch.arange(start, count, batches) for start in range(batches)])
