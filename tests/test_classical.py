"""Classical methods: every mode comes back, the smallest wins, and bad data has a name."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from support import oracle

from lmzip import classical
from lmzip.classical import (
    DEFLATE,
    JPEG2000,
    METHOD_NAMES,
    NETWORK,
    PNG,
    RAW,
    WEBP,
    decode_classical,
    encode_classical,
)
from lmzip.errors import DamagedError, FormatError
from lmzip.jpeg2000_headers import split_codestream
from lmzip.picture import MODES, Mode, Samples

SHAPES = [(1, 1), (1, 9), (9, 1), (7, 8), (5, 17)]
PREDICTORS = [0, 1, 2, 3, 16, 17, 18, 19]
Encoder = Callable[[Samples, Mode], list[bytes]]

ENCODERS: dict[int, Encoder] = {
    RAW: lambda samples, mode: [classical._encode_raw(samples, mode)],
    WEBP: lambda samples, mode: list(classical._encode_webp(samples, mode, True)),
    PNG: lambda samples, mode: [classical._encode_png(samples, mode, True)],
    DEFLATE: lambda samples, mode: list(classical._encode_deflate(samples, PREDICTORS, 9)),
    JPEG2000: lambda samples, mode: list(classical._encode_jpeg2000(samples, mode)),
}
UNSUPPORTED = {
    WEBP: {"CMYK", "L16", "LA16", "RGB16", "RGBA16"},
    PNG: {"CMYK", "LA16", "RGB16", "RGBA16"},
    JPEG2000: {"1", "LA", "RGBA", "P", "CMYK", "LA16", "RGB16", "RGBA16"},
}
PAIRS = [
    (method, mode)
    for method in ENCODERS
    for mode in MODES.values()
    if mode.name not in UNSUPPORTED.get(method, set())
]


def draw_samples(mode: Mode, height: int, width: int, seed: int = 0) -> Samples:
    """Draw samples of the full range of a mode, smooth ones on the left."""
    state = np.random.default_rng(seed)
    shape = (height, width, mode.channels)
    samples = state.integers(0, 1 << mode.bits, shape)
    samples[:, : width // 2] = np.arange(height)[:, None, None] * 3 % (1 << mode.bits)
    return samples.astype(mode.dtype)


@pytest.mark.parametrize(
    ("method", "mode"), PAIRS, ids=[f"{METHOD_NAMES[m]}-{mode.name}" for m, mode in PAIRS]
)
def test_every_method_restores_every_mode_that_it_covers(method: int, mode: Mode) -> None:
    for height, width in SHAPES:
        samples = draw_samples(mode, height, width)
        for data in ENCODERS[method](samples, mode):
            restored = decode_classical(method, data, mode, height, width)
            assert restored.dtype == mode.dtype
            assert restored.tobytes() == samples.tobytes()  # true is 1, and not just any byte
            planes = oracle.CLASSICAL[method](data, height, width, mode.channels, mode.bits)
            assert planes == [
                samples[..., c].astype(int).ravel().tolist() for c in range(len(planes))
            ]


@given(
    mode=st.sampled_from(list(MODES.values())),
    height=st.integers(1, 20),
    width=st.integers(1, 20),
    seed=st.integers(0, 2**32 - 1),
    thorough=st.booleans(),
)
@settings(max_examples=40)
def test_the_smallest_comes_back(
    mode: Mode, height: int, width: int, seed: int, thorough: bool
) -> None:
    samples = draw_samples(mode, height, width, seed)
    method, data = encode_classical(samples, mode, thorough=thorough)
    assert np.array_equal(decode_classical(method, data, mode, height, width), samples)
    raw = -(-width * mode.bits * mode.channels // 8) * height
    assert len(data) <= raw


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: np.random.default_rng(0).integers(0, 256, (64, 64, 3)), {RAW}),
        (lambda: np.full((64, 64, 3), 77), {WEBP}),
        (lambda: np.random.default_rng(0).integers(0, 4, (64, 64, 3)) * 80, {WEBP}),
    ],
    ids=["noise", "constant", "few colours"],
)
def test_contents_choose_their_method(make: Callable[[], Any], expected: set[int]) -> None:
    method, _ = encode_classical(make().astype(np.uint8), MODES["RGB"], thorough=True)
    assert method in expected


def test_transparent_pixels_keep_their_colours() -> None:
    """Encoders like to clear what cannot be seen; pixels must come back all the same."""
    samples = draw_samples(MODES["RGBA"], 9, 9)
    samples[::2, :, 3] = 0
    for method in (WEBP, PNG):
        for data in ENCODERS[method](samples, MODES["RGBA"]):
            assert np.array_equal(decode_classical(method, data, MODES["RGBA"], 9, 9), samples)


def test_opaque_alpha_comes_back() -> None:
    samples = draw_samples(MODES["RGBA"], 9, 9)
    samples[..., 3] = 255
    for data in ENCODERS[WEBP](samples, MODES["RGBA"]):
        assert np.array_equal(decode_classical(WEBP, data, MODES["RGBA"], 9, 9), samples)


@pytest.mark.parametrize("method", [PNG, WEBP, JPEG2000])
def test_pillows_limit_for_strangers_files_does_not_apply(
    method: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The size stands in our own header, checked; a large picture is not an attack."""
    samples = draw_samples(MODES["RGB"], 40, 50)
    (data, *_) = ENCODERS[method](samples, MODES["RGB"])
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    assert np.array_equal(decode_classical(method, data, MODES["RGB"], 40, 50), samples)


@pytest.mark.parametrize(
    ("method", "mode"), PAIRS, ids=[f"{METHOD_NAMES[m]}-{mode.name}" for m, mode in PAIRS]
)
def test_bad_data_has_a_name(method: int, mode: Mode) -> None:
    """Cut, flipped or of another size: a DamagedError, or samples of the right shape."""
    samples = draw_samples(mode, 7, 9)
    (data, *_) = ENCODERS[method](samples, mode)
    candidates = [data[:cut] for cut in range(0, len(data), max(1, len(data) // 12))]
    candidates += [data + b"\0", data[::-1], b"", b"\0" * 40, b"\xff" * 40]
    for position in range(0, len(data), max(1, len(data) // 25)):
        flipped = bytearray(data)
        flipped[position] ^= 0xFF
        candidates.append(bytes(flipped))
    for candidate in candidates:
        try:
            restored = decode_classical(method, candidate, mode, 7, 9)
        except FormatError:
            continue
        assert restored.shape == samples.shape
        assert restored.dtype == samples.dtype
    for height, width in ((7, 30), (30, 9), (1, 1), (9, 7)):
        if method == RAW and (height, width) == (9, 7):
            continue  # as many samples: nothing in the data says which is right
        if method == DEFLATE and height * width == 63 and mode.bits > 1:
            continue
        if method == JPEG2000:
            continue  # packets fit any size, more or less: the checksum of the pixels tells
        with pytest.raises(FormatError):
            decode_classical(method, data, mode, height, width)


@pytest.mark.parametrize("method", [NETWORK, 6, 255])
def test_unknown_methods_are_named(method: int) -> None:
    with pytest.raises(FormatError, match=str(method)):
        decode_classical(method, b"abc", MODES["L"], 1, 3)


@pytest.mark.parametrize(
    ("method", "name"), [(m, n) for m in UNSUPPORTED for n in sorted(UNSUPPORTED[m])]
)
def test_modes_that_a_method_does_not_cover_are_refused(method: int, name: str) -> None:
    rgb = draw_samples(MODES["RGB"], 4, 4)
    (data, *_) = ENCODERS[method](rgb, MODES["RGB"])
    with pytest.raises(FormatError):
        decode_classical(method, data, MODES[name], 4, 4)


def test_what_was_jpeg_2000_becomes_as_small_again() -> None:
    """A lossy file of a kilobyte, decoded, is no mystery to the codec that it came from."""
    rows, columns = np.mgrid[:128, :128]
    picture = (rows * 180 + columns * 90 + 4000 * np.sin(rows / 9) * np.cos(columns / 7)).clip(0)
    noise = np.random.default_rng(0).normal(0, 60, picture.shape)
    file = io.BytesIO()
    settings = {"irreversible": False, "quality_mode": "rates", "quality_layers": [40]}
    Image.fromarray((picture + noise).clip(0).astype(np.uint16)).save(file, "JPEG2000", **settings)
    samples = np.asarray(Image.open(file))[..., None]
    method, data = encode_classical(samples, MODES["L16"], thorough=False)
    assert method == JPEG2000
    assert len(data) < 1.1 * len(file.getvalue())
    assert np.array_equal(decode_classical(method, data, MODES["L16"], 128, 128), samples)


@pytest.mark.parametrize("place", [20, 60, 75, 90])
def test_other_headers_of_jpeg_2000_are_not_taken(place: int) -> None:
    samples = draw_samples(MODES["L"], 9, 9)
    file = io.BytesIO()
    Image.fromarray(samples[..., 0]).save(file, "JPEG2000", no_jp2=True, irreversible=False)
    stream = bytearray(file.getvalue())
    shape = 9, 9, 1, 8
    assert split_codestream(bytes(stream), *shape) == ENCODERS[JPEG2000](samples, MODES["L"])[0]
    stream[place] ^= 1
    assert split_codestream(bytes(stream), *shape) is None or place == 90  # in a comment


def test_no_more_samples_are_stored_as_jpeg_2000_than_readers_believe() -> None:
    mode = MODES["L16"]
    assert ENCODERS[JPEG2000](np.zeros((700, 700, 1), np.uint16), mode)
    assert not ENCODERS[JPEG2000](np.zeros((2000, 2000, 1), np.uint16), mode)


def test_inflating_stops_at_the_size_of_the_picture() -> None:
    """A few bytes must not become gigabytes."""
    bomb = b"\0" + zlib.compress(bytes(50_000_000), 9)
    with pytest.raises(DamagedError, match="deflate"):
        decode_classical(DEFLATE, bomb, MODES["L"], 10, 10)


@pytest.mark.parametrize(
    ("number", "mode"), [(4, "L"), (9, "L"), (20, "L16"), (32, "L"), (16, "1")]
)
def test_unknown_predictor(number: int, mode: str) -> None:
    data = bytes([number]) + zlib.compress(bytes(2 * MODES[mode].bits // 4))
    with pytest.raises(FormatError, match=f"{number:02x}"):
        decode_classical(DEFLATE, data, MODES[mode], 2, 2)


@pytest.mark.parametrize("thorough", [False, True])
def test_colours_that_repeat_are_seen_as_pixels(thorough: bool) -> None:
    """Eight colours of three 16-bit samples take three bits a pixel, and not three times that."""
    state = np.random.default_rng(0)
    colours = state.integers(0, 65536, (8, 3), np.uint16)
    samples = colours[state.integers(0, 8, (60, 70))]
    method, data = encode_classical(samples, MODES["RGB16"], thorough=thorough)
    assert (method, data[0]) == (DEFLATE, 16)
    planes = classical._encode_deflate(samples, [0, 1, 2, 3], 9)
    assert len(data) < 0.6 * min(map(len, planes))


def test_pixels_of_8_bits_are_not_tried_interleaved() -> None:
    """What is written for them has not changed since there were planes only."""
    for mode in MODES.values():
        for thorough in (False, True):
            listed = classical._list_predictors(mode, False, thorough)
            assert (max(listed) >= 16) == mode.deep


def test_only_the_streams_are_stored() -> None:
    """No headers of PNG or WebP: those would be bytes that say what our own header says."""
    samples = draw_samples(MODES["RGB"], 30, 30)
    file = io.BytesIO()
    Image.fromarray(samples).save(file, "PNG", optimize=True)
    (png,) = ENCODERS[PNG](samples, MODES["RGB"])
    assert len(png) <= len(file.getvalue()) - 45
    for webp in ENCODERS[WEBP](samples, MODES["RGB"]):
        assert webp[0] == 0x2F  # VP8L's own signature byte
        width_and_height = struct.unpack("<I", webp[1:5])[0]
        assert width_and_height & 0x3FFF == 29
