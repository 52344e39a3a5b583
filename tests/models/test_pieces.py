"""Pieces to learn from: all of the images in a pass, in batches of one shape."""

from __future__ import annotations

import torch
from torch import Tensor

from lmzip.models.pieces import PIXELS, SIDE, Pieces


def numbered_image(height: int, width: int, channels: int = 3) -> Tensor:
    """Return an image whose pixels are all different."""
    return torch.arange(height * width).view(1, height, width).expand(channels, -1, -1)


def draw_pass(pieces: Pieces, pixels: int) -> list[Tensor]:
    """Draw until so many pixels have come."""
    batches = []
    while pixels > 0:
        batches.append(pieces.draw().levels)
        pixels -= batches[-1][:, 0].numel()
    return batches


def test_a_pass_sees_nearly_every_pixel_nearly_once() -> None:
    image = numbered_image(5 * SIDE + 7, 4 * SIDE - 9)
    pixels = image[0].numel()
    for seed in range(5):
        batches = draw_pass(Pieces([image], seed), pixels)
        assert {tuple(batch.shape) for batch in batches} == {(1, 3, SIDE, SIDE)}
        times = torch.cat([batch[:, 0].flatten() for batch in batches]).bincount(minlength=pixels)
        assert (times > 0).float().mean() > 0.7
        assert times.float().mean() < 1.4
        assert times.max() <= 4


def test_small_images_come_whole_and_together() -> None:
    images = [numbered_image(32, 32) for _ in range(9)] + [numbered_image(7, 90)]
    shapes = [tuple(batch.shape) for batch in draw_pass(Pieces(images), 10 * 32 * 32)]
    together = PIXELS // (32 * 32)
    assert shapes.count((together, 3, 32, 32)) == 9 // together
    assert any(shape[2:] == (7, SIDE) for shape in shapes)


def test_what_is_spread_out_does_not_depend_on_chance() -> None:
    image = numbered_image(6 * SIDE, 6 * SIDE)
    ours, theirs = (Pieces([image], seed).spread_out(4) for seed in (0, 1))
    assert [batch.places for batch in ours] == [batch.places for batch in theirs]
    tops = [int(batch.levels.min()) // (6 * SIDE) for batch in ours]
    assert len(ours) == 4
    assert max(tops) - min(tops) >= 3 * SIDE  # from all over the image
    assert len(Pieces([image]).spread_out(1000)) == 36


def test_batches_know_where_they_were_cut() -> None:
    images = [numbered_image(3 * SIDE, 2 * SIDE), numbered_image(20, 30), numbered_image(20, 30)]
    pieces = Pieces(images)
    for batch in [*pieces.spread_out(100), *(pieces.draw() for _ in range(10))]:
        assert batch.pixels == batch.levels[:, 0].numel()
        assert len(batch.places) == len(batch.levels)
        for levels, (image, top, left) in zip(batch.levels, batch.places, strict=True):
            height, width = levels.shape[1:]
            whole = images[image][:, top : top + height, left : left + width]
            assert torch.equal(levels, whole)
