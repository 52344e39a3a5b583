"""PNG files of every colour type and depth, against a decoder that shares nothing with ours."""

import contextlib
import io
import itertools
import os
import zlib
from pathlib import Path

import numpy as np
import png as pypng
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmzip.errors import InputError
from lmzip.formats.png import GREY, GREY_ALPHA, PALETTE, RGB, RGB_ALPHA, Png, read_png, write_png
from lmzip.formats.reading import read_picture
from lmzip.formats.writing import write_picture

KINDS = [
    *((GREY, depth) for depth in (1, 2, 4, 8, 16)),
    *((PALETTE, depth) for depth in (1, 2, 4, 8)),
    *itertools.product((RGB, GREY_ALPHA, RGB_ALPHA), (8, 16)),
]
CHANNELS = {GREY: 1, RGB: 3, PALETTE: 1, GREY_ALPHA: 2, RGB_ALPHA: 4}
PALETTE_256 = [(i, 255 - i, i * 7 % 256) for i in range(256)]
PNGSUITE = os.environ.get("LMZIP_PNGSUITE", "")


def make_samples(colour: int, depth: int, height: int, width: int) -> np.ndarray:
    state = np.random.default_rng(height * 1000 + width)
    shape = (height, width, CHANNELS[colour])
    smooth = np.cumsum(state.integers(-3, 4, shape), axis=1) + (1 << depth) // 2
    return (smooth % (1 << depth)).astype(np.uint16 if depth == 16 else np.uint8)


def write_with_pypng(samples: np.ndarray, colour: int, depth: int, interlace: bool) -> bytes:
    palette = PALETTE_256[: 1 << depth] if colour == PALETTE else None
    writer = pypng.Writer(
        samples.shape[1], samples.shape[0],
        greyscale=colour in (GREY, GREY_ALPHA), alpha=colour in (GREY_ALPHA, RGB_ALPHA),
        bitdepth=depth, palette=palette, interlace=interlace,
    )  # fmt: skip
    file = io.BytesIO()
    writer.write_array(file, samples.ravel().tolist())
    return file.getvalue()


def read_with_pypng(data: bytes) -> np.ndarray:
    width, height, rows, _ = pypng.Reader(bytes=data).read()
    return np.array([list(row) for row in rows]).reshape(height, width, -1)


@pytest.mark.parametrize("interlace", [False, True])
@pytest.mark.parametrize(("colour", "depth"), KINDS)
@pytest.mark.parametrize(("height", "width"), [(1, 1), (3, 2), (9, 13)])
def test_reads_what_another_writer_wrote(colour, depth, height, width, interlace):
    samples = make_samples(colour, depth, height, width)
    file = read_png(write_with_pypng(samples, colour, depth, interlace))
    assert (file.depth, file.colour) == (depth, colour)
    np.testing.assert_array_equal(file.samples, samples)


@pytest.mark.parametrize(("colour", "depth"), KINDS)
def test_another_reader_reads_what_we_wrote(colour, depth):
    samples = make_samples(colour, depth, 37, 23)
    chunks = ((b"PLTE", bytes(np.array(PALETTE_256[: 1 << depth], np.uint8).ravel())),)
    data = write_png(Png(samples, depth, colour, chunks if colour == PALETTE else ()))
    np.testing.assert_array_equal(read_with_pypng(data), samples)


@given(
    filters=st.lists(st.integers(0, 4), min_size=1, max_size=6),
    width=st.integers(1, 7),
    step=st.sampled_from([1, 3, 8]),
    seed=st.integers(0, 1000),
)
def test_every_sequence_of_row_filters_is_undone(filters, width, step, seed):
    """Filter by the specification's formulas, one byte at a time, and read the result."""
    colour, depth = {1: (GREY, 8), 3: (RGB, 8), 8: (RGB_ALPHA, 16)}[step]
    rows = np.random.default_rng(seed).integers(0, 256, (len(filters), width * step))
    filtered = bytearray()
    for y, kind in enumerate(filters):
        filtered.append(kind)
        for x in range(width * step):
            left = int(rows[y, x - step]) if x >= step else 0
            up = int(rows[y - 1, x]) if y else 0
            corner = int(rows[y - 1, x - step]) if y and x >= step else 0
            estimate = left + up - corner
            nearest = min((left, up, corner), key=lambda value: abs(estimate - value))
            guess = (0, left, up, (left + up) // 2, nearest)[kind]
            filtered.append((int(rows[y, x]) - guess) % 256)
    empty = write_png(
        Png(
            np.zeros(
                (len(filters), width, CHANNELS[colour]), np.uint16 if depth == 16 else np.uint8
            ),
            depth,
            colour,
        )
    )
    data = empty.replace(_chunk_of(empty, b"IDAT"), _frame(b"IDAT", zlib.compress(bytes(filtered))))
    samples = read_png(data).samples
    stored = samples.astype(">u2") if depth == 16 else samples
    np.testing.assert_array_equal(np.frombuffer(stored.tobytes(), np.uint8), rows.ravel())


def test_tall_images_are_filtered_band_by_band():
    samples = make_samples(RGB, 8, 1100, 3)
    data = write_png(Png(samples, 8, RGB))
    np.testing.assert_array_equal(read_png(data).samples, samples)
    np.testing.assert_array_equal(read_with_pypng(data), samples)


def test_a_gradient_is_predicted():
    samples = np.add.outer(np.arange(64), np.arange(64)).astype(np.uint8)[:, :, None]
    assert len(write_png(Png(samples, 8, GREY))) < 400


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda d: b"\x89PNG\n\n\x1a\n" + d[8:], "wrong signature"),
        (lambda d: d[:-6], "its end is missing"),
        (lambda d: d.replace(b"IHDR", b"IHDQ"), "checksum of IHDQ does not match"),
        (lambda d: _edit(d, b"IDAT", lambda c: c[:-1] + bytes([c[-1] ^ 1]), fix=False),
         "checksum of IDAT does not match"),
        (lambda d: _edit(d, b"IDAT", lambda c: c[:-1] + bytes([c[-1] ^ 1])),
         "incorrect data check"),
        (lambda d: _edit(d, b"IDAT", lambda c: zlib.compress(zlib.decompress(c)[:-1])),
         "(pixels are|its end is) missing"),
        (lambda d: _edit(d, b"IDAT", lambda c: zlib.compress(b"\5" + zlib.decompress(c)[1:])),
         "row filter 5"),
        (lambda d: _edit(d, b"IHDR", lambda c: c[:9] + b"\5" + c[10:]), "colour type 5 at 8 bits"),
        (lambda d: _edit(d, b"IHDR", lambda c: bytes(4) + c[4:]), "impossible values"),
        (lambda d: _edit(d, b"IHDR", lambda c: b"\0\0\x1f\xff" * 2 + c[8:]),
         "(pixels are|its end is) missing"),
        (lambda d: _edit(d, b"IHDR", lambda c: c[:9] + b"\3" + c[10:]), "no palette"),
        (lambda d: d.replace(_chunk_of(d, b"IDAT"), b""), "(pixels are|its end is) missing"),
        (lambda d: d[:8] + _chunk_of(d, b"IEND"), "it does not start with a header"),
    ],
)  # fmt: skip
def test_damage_is_named(damage, reason):
    data = write_png(Png(make_samples(GREY, 8, 5, 6), 8, GREY))
    with pytest.raises(InputError, match=f"damaged PNG file .*{reason}"):
        read_png(damage(data))


@pytest.mark.parametrize(
    ("colour", "chunk"),
    [
        (GREY, (b"acTL", b"\0\0")),
        (PALETTE, (b"PLTE", b"")),
        (PALETTE, (b"PLTE", bytes(7))),
        (PALETTE, (b"PLTE", bytes(771))),
        (RGB, (b"PLTE", bytes(4))),
        (PALETTE, (b"tRNS", bytes(257))),
        (GREY, (b"tRNS", b"\1")),
        (GREY, (b"tRNS", bytes(6))),
        (RGB, (b"tRNS", bytes(2))),
    ],
)
def test_chunks_of_impossible_lengths_are_named(colour, chunk):
    palette = ((b"PLTE", bytes(6)),) if colour == PALETTE else ()
    data = write_png(Png(np.zeros((2, 2, CHANNELS[colour]), np.uint8), 8, colour, palette))
    read_png(data)
    name, content = chunk
    reason = rf"damaged PNG file \({name.decode()} of {len(content)} bytes\)"
    with pytest.raises(InputError, match=reason):
        read_png(data.replace(_chunk_of(data, b"IDAT"), _frame(*chunk) + _chunk_of(data, b"IDAT")))


@given(st.data())
@settings(max_examples=200)
def test_no_damage_raises_anything_else(data):
    good = bytearray(write_with_pypng(make_samples(RGB, 8, 4, 5), RGB, 8, interlace=True))
    for _ in range(data.draw(st.integers(1, 3))):
        good[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(good)))
    for damaged in (bytes(good), bytes(good[:cut])):
        with contextlib.suppress(InputError):
            read_png(damaged)


@pytest.mark.shared_data
@pytest.mark.skipif(not PNGSUITE, reason="LMZIP_PNGSUITE names no folder")
def test_pngsuite_comes_back():
    """Every valid file of PngSuite keeps its raw samples, depth and palette; others are refused."""
    files = sorted(Path(PNGSUITE).glob("*.png"))
    assert len(files) >= 175
    for path in files:
        data = path.read_bytes()
        if path.name.startswith("x"):
            with pytest.raises(InputError):
                read_picture(data)
            continue
        again, remarks = write_picture(read_picture(data).picture, ".png")
        assert not remarks
        np.testing.assert_array_equal(read_with_pypng(again), read_with_pypng(data), path.name)
        before, after = (pypng.Reader(bytes=file).read()[3] for file in (data, again))
        del before["interlace"], after["interlace"]
        assert after == before, path.name


def _frame(kind: bytes, content: bytes) -> bytes:
    body = kind + content
    return len(content).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")


def _chunk_of(data: bytes, kind: bytes) -> bytes:
    start = data.index(kind) - 4
    return data[start : start + 12 + int.from_bytes(data[start : start + 4], "big")]


def _edit(data: bytes, kind: bytes, change, fix: bool = True) -> bytes:
    """Change the content of a chunk, and its checksum too unless told otherwise."""
    chunk = _chunk_of(data, kind)
    changed = _frame(kind, change(chunk[8:-4]))
    return data.replace(chunk, changed if fix else changed[:-4] + chunk[-4:])
