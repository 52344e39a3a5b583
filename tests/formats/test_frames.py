"""Animations and documents come apart into frames, and come back as they were."""

import io
import struct
import zlib
from dataclasses import replace

import numpy as np
import pytest
import tifffile
from PIL import Image
from support.animations import TIMES, make_animations, make_frames, save, show

from lmzip.errors import DamagedError, InputError, LimitError
from lmzip.formats.frames import (
    describe_frames,
    keep_frames,
    read_frames,
    strip_frames,
    write_frames,
)
from lmzip.formats.reading import read_picture
from lmzip.formats.writing import write_picture
from lmzip.limits import Limits
from lmzip.picture import MODES, Picture
from lmzip.png_chunks import join_png, split_png

ANIMATIONS = make_animations()
each = pytest.mark.parametrize("name", ANIMATIONS)


def assert_same(frames: list[Picture], others: list[Picture]) -> None:
    assert len(frames) == len(others)
    for one, other in zip(frames, others, strict=True):
        assert one.mode == other.mode
        np.testing.assert_array_equal(one.samples, other.samples)
        assert dict(one.metadata) == dict(other.metadata)


@each
def test_frames_come_back_as_they_were(name):
    data = ANIMATIONS[name]
    frames = read_frames(data)
    described = describe_frames(frames[0].metadata)
    assert described is not None
    assert (described.count, described.suffix[1:]) == (len(TIMES), name.split("-")[0])
    back = write_frames(frames)
    assert_same(read_frames(back), frames)
    assert show(back) == show(data)
    assert back[:4] == data[:4] or name.startswith(("webp", "tiff"))


@each
def test_frames_are_pictures_by_themselves(name):
    """The place of a frame in the file is lost, not what its samples mean."""
    for frame in read_frames(ANIMATIONS[name]):
        image = read_picture(
            write_picture(frame, ".tiff" if frame.mode.name == "CMYK" else ".png")[0]
        )
        np.testing.assert_array_equal(image.picture.samples, frame.samples)


@each
def test_every_cut_is_noticed_or_leaves_whole_frames(name):
    """A file that is cut short is refused, or has fewer frames than before."""
    data, frames = ANIMATIONS[name], read_frames(ANIMATIONS[name])
    for length in range(0, len(data), 1 + len(data) // 300):
        try:
            fewer = read_frames(data[:length])
        except InputError:
            continue
        assert len(fewer) <= len(frames)
        for one, other in zip(fewer, frames, strict=False):
            np.testing.assert_array_equal(one.samples, other.samples)


def test_what_is_around_the_frames_of_a_gif_is_kept():
    """Extensions that nobody knows, bytes between blocks, and what follows the end."""
    data = ANIMATIONS["gif"]
    screen = 13 + (6 << (data[10] & 7))
    application = b"\x21\xff\x0bXMP DataXMP\x03abc\0"
    strange = data[:screen] + application + b"\0" + data[screen:] + b"and more"
    frames = read_frames(strange)
    back = write_frames(frames)
    assert application + b"\0" in back
    assert back.endswith(b";and more")
    assert show(back) == show(strange)
    stripped = write_frames(strip_frames(frames))
    assert b"XMP" not in stripped
    assert b"made by hand" not in stripped
    assert [shown[1:4] for shown in show(stripped)] == [shown[1:4] for shown in show(data)]


def test_what_is_around_the_frames_of_a_png_is_kept():
    chunks = [*split_png(ANIMATIONS["png"]), (b"prVt", b"private"), (b"tEXt", b"Title\0Hello")]
    data = join_png([*chunks, (b"IEND", b"")]) + b"behind"
    frames = read_frames(data)
    back = write_frames(frames)
    assert back.endswith(b"behind")
    kinds = [kind for kind, _ in split_png(back) if kind not in (b"IDAT", b"fdAT")]
    assert kinds == [kind for kind, _ in chunks if kind not in (b"IDAT", b"fdAT")]
    stripped = write_frames(strip_frames(frames))
    assert {b"prVt", b"tEXt"}.isdisjoint(kind for kind, _ in split_png(stripped))
    assert show(stripped) == show(data)


def test_frames_of_a_png_may_be_in_several_chunks_and_interlaced():
    chunks, number = [], 0
    for kind, content in split_png(ANIMATIONS["png"]):
        if kind == b"fcTL":
            content = struct.pack(">I", number) + content[4:]
            number += 1
        if kind != b"fdAT":
            chunks.append((kind, content))
            continue
        for part in (content[4:9], content[9:]):
            chunks.append((kind, struct.pack(">I", number) + part))
            number += 1
    data = join_png([*chunks, (b"IEND", b"")])
    assert show(data) == show(ANIMATIONS["png"])
    assert_same(read_frames(data), read_frames(ANIMATIONS["png"]))


def test_metadata_of_webp_can_be_stripped():
    data = ANIMATIONS["webp-alpha"]
    frames = read_frames(data)
    stripped = write_frames(strip_frames(frames))
    assert b"profile" in write_frames(frames)
    assert b"profile" not in stripped
    assert b"Camera" not in stripped
    assert [shown[1:4] for shown in show(stripped)] == [shown[1:4] for shown in show(data)]


@pytest.mark.parametrize("byteorder", ["<", ">"])
def test_pages_keep_their_own_metadata(byteorder):
    file = io.BytesIO()
    with tifffile.TiffWriter(file, byteorder=byteorder) as writer:
        for number in range(3):
            samples = np.full((9, 8 + number, 3), 40 * number, np.uint16)
            writer.write(samples, description=f"page {number}", subfiletype=2, metadata=None)
    data = file.getvalue()
    back = write_frames(keep_frames(data, read_picture(data)))
    with tifffile.TiffFile(io.BytesIO(back)) as tiff:
        pages = [page.aspage() for page in tiff.pages]
        assert [page.description for page in pages] == ["page 0", "page 1", "page 2"]
        assert [int(page.tags[254].value) for page in pages] == [2, 2, 2]
        for number, page in enumerate(pages):
            np.testing.assert_array_equal(page.asarray(), np.full((9, 8 + number, 3), 40 * number))


def test_a_resolution_comes_back_as_it_was():
    for dpi in (72, 96, 300, 299.72, 1200):
        data = write_frames(read_frames(save(make_frames(), "TIFF", dpi=(dpi, 2 * dpi))))
        with Image.open(io.BytesIO(data)) as image:
            assert tuple(map(float, image.info["dpi"])) == pytest.approx((dpi, 2 * dpi), rel=1e-5)
            if dpi == int(dpi):
                assert image.info["dpi"] == (dpi, 2 * dpi)


def test_a_gif_of_one_picture_is_one_picture():
    file = io.BytesIO()
    make_frames()[0].save(file, "GIF", comment=b"alone")
    (picture,) = keep_frames(file.getvalue(), read_picture(file.getvalue()))
    described = describe_frames(picture.metadata)
    assert described is not None
    assert described.is_one_picture
    assert show(write_frames([picture])) == show(file.getvalue())


def test_a_gif_of_one_picture_beside_nothing_is_not():
    """On a screen that is larger than its only image, more is shown than the image."""
    file = io.BytesIO()
    make_frames()[0].save(file, "GIF")
    data = bytearray(file.getvalue())
    struct.pack_into("<HH", data, 6, 100, 90)
    (picture,) = keep_frames(bytes(data), read_picture(bytes(data)))
    described = describe_frames(picture.metadata)
    assert described is not None
    assert not described.is_one_picture
    assert (picture.height, picture.width) == (24, 32)
    assert show(write_frames([picture])) == show(bytes(data))


@pytest.mark.parametrize("mode", ["1", "L", "P"])
def test_gif_holds_few_colours(mode):
    state = np.random.default_rng(0)
    samples = state.integers(0, 2 if mode == "1" else 256, (9, 300, 1))
    metadata = {"PLTE": bytes(range(255, -1, -1)) * 3} if mode == "P" else {}
    picture = Picture(samples.astype(MODES[mode].dtype), MODES[mode], metadata)
    back = read_picture(write_picture(picture, ".gif")[0]).picture
    np.testing.assert_array_equal(back.samples, picture.samples)
    if mode == "P":
        assert back.metadata["PLTE"] == metadata["PLTE"]


def test_gif_hides_one_colour_at_most():
    picture = Picture(np.zeros((2, 2, 1), np.uint8), MODES["P"], {"PLTE": bytes(9)})
    for block in (b"\0\0", b"\x80"):
        with pytest.raises(InputError, match="hide one colour and no more"):
            write_picture(replace(picture, metadata={"PLTE": bytes(9), "TRNS": block}), ".gif")
    for block in (b"\xff\0", b"\xff\0\xff"):
        hidden = replace(picture, metadata={"PLTE": bytes(9), "TRNS": block})
        back = read_picture(write_picture(hidden, ".gif")[0]).picture
        assert back.metadata["TRNS"] == b"\xff\0"


@each
def test_limits_come_before_pixels(name):
    data = ANIMATIONS[name]
    for limits in (Limits(images=3), Limits(pixels=24 * 32), Limits(memory=5000)):
        with pytest.raises(LimitError):
            read_frames(data, limits)


def test_a_promise_of_many_pixels_is_refused_at_once():
    """Frames of a few bytes that claim the largest screen there is."""
    screen = b"GIF89a" + struct.pack("<HH", 65535, 65535) + b"\x80\0\0" + bytes(6)
    image = b"\x2c" + struct.pack("<HHHH", 0, 0, 65535, 65535) + b"\0\2\1\0\0"
    with pytest.raises(LimitError, match="frames of"):
        read_frames(screen + 9 * image + b";")


@each
def test_hostile_skeletons_are_damage(name):
    frames = read_frames(ANIMATIONS[name])
    block = frames[0].metadata["FRMS"]
    for wrong in (b"", block[:7], b"JPEG" + block[4:], block[:4] + bytes(4) + block[8:]):
        first = replace(frames[0], metadata={**frames[0].metadata, "FRMS": wrong})
        with pytest.raises(DamagedError, match="FRMS"):
            write_frames([first, *frames[1:]])
    with pytest.raises(DamagedError, match="3 frames of a file of 4"):
        write_frames(frames[:3])
    if not name.startswith("tiff"):
        other = Picture(np.zeros((5, 5, 1), np.uint8), MODES["L"])
        with pytest.raises(DamagedError, match="cannot be put together"):
            write_frames([*frames[:3], other])
        cut = replace(frames[0], metadata={**frames[0].metadata, "FRMS": block[: len(block) // 2]})
        with pytest.raises(DamagedError, match="cannot be put together"):
            write_frames([cut, *frames[1:]])


def test_pixels_of_a_frame_that_are_cut_short_are_damage():
    chunks = list(split_png(ANIMATIONS["png"]))
    kind, content = chunks[-1]
    assert kind == b"fdAT"
    chunks[-1] = kind, content[:4] + zlib.compress(b"\0")
    with pytest.raises(InputError, match="pixels are missing"):
        read_frames(join_png([*chunks, (b"IEND", b"")]))
