"""Deep samples in files: every 16-bit mode, scalings, regions, archives, and both decoders."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import oracle, oracle_streams
from support.networks import ANY_ORDER, compact_network, smooth_images, write_model

import lmzip
from lmzip.container.binary import Reader, Writer
from lmzip.container.image_file import read_image_header
from lmzip.container.scaling import Scaling, pack_values, read_scalings, write_scalings
from lmzip.container.scaling_choice import describe_values, measure_flatness
from lmzip.network.integer_network import load_integer_network, save_integer_network
from lmzip.network.registry import load_model
from lmzip.picture import MODES, Picture, Samples
from lmzip.stream.precision import SQUARE_ROOT, Precision

DEEP_MODES = ("L16", "LA16", "RGB16", "RGBA16")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    network = compact_network(orders=ANY_ORDER, name="any")
    return write_model(network, tmp_path_factory.mktemp("deep"))


def noise(shape: tuple[int, ...], depth: int, seed: int) -> Samples:
    return np.random.default_rng(seed).integers(0, 1 << depth, shape).astype(np.uint16)


def gradient(shape: tuple[int, ...], depth: int, seed: int) -> Samples:
    rows, columns = np.indices(shape[:2])
    plane = (rows * 977 + columns * 31 + seed) % (1 << depth)
    return np.repeat(plane[..., None], shape[2], axis=2).astype(np.uint16)


def constant(shape: tuple[int, ...], depth: int, seed: int) -> Samples:
    return np.full(shape, (1 << depth) - 1 - seed % 5, np.uint16)


def sparse(shape: tuple[int, ...], depth: int, seed: int) -> Samples:
    """Values of a byte, stretched unevenly to all of 16 bits."""
    stretched = np.round(np.linspace(0, 1, 256) ** 1.3 * ((1 << depth) - 1)).astype(np.uint16)
    return stretched[noise(shape, 8, seed)]


def smooth(shape: tuple[int, ...], depth: int, seed: int) -> Samples:
    levels = smooth_images(1, *shape, seed=seed)[0].astype(np.int64) << 8
    return ((levels + noise(shape, 8, seed)) >> (16 - depth)).astype(np.uint16)


CONTENTS = (noise, gradient, constant, sparse, smooth)


def header_of(data: bytes) -> tuple[Scaling, ...]:
    coding = read_image_header(Reader(data)).coding
    assert coding is not None
    return coding.scalings


@given(
    st.sampled_from(DEEP_MODES),
    st.integers(1, 24),
    st.integers(1, 24),
    st.integers(9, 16),
    st.sampled_from(CONTENTS),
    st.integers(0, 99),
)
@settings(max_examples=60)
def test_every_deep_picture_comes_back(
    model: Path,
    mode: str,
    height: int,
    width: int,
    depth: int,
    content: Callable[[tuple[int, ...], int, int], Samples],
    seed: int,
) -> None:
    samples = content((height, width, MODES[mode].channels), depth, seed)
    data = lmzip.compress(samples, model=model)
    restored = lmzip.decompress(data, model=model)
    assert restored.dtype == np.uint16
    assert np.array_equal(restored, samples)


@pytest.mark.slow
@given(
    st.sampled_from(DEEP_MODES),
    st.integers(1, 300),
    st.integers(1, 200),
    st.integers(9, 16),
    st.sampled_from((noise, gradient, constant, sparse)),
    st.integers(0, 99),
)
@settings(max_examples=12, deadline=None)
def test_large_deep_pictures_come_back(
    model: Path,
    mode: str,
    height: int,
    width: int,
    depth: int,
    content: Callable[[tuple[int, ...], int, int], Samples],
    seed: int,
) -> None:
    """Twice: by the network, which a named model insists on, and by whatever is smallest."""
    samples = content((height, width, MODES[mode].channels), depth, seed)
    by_network = lmzip.compress(samples, model=model)
    assert np.array_equal(lmzip.decompress(by_network, model=model), samples)
    assert np.array_equal(lmzip.decompress(lmzip.compress(samples)), samples)


@pytest.mark.slow
@pytest.mark.parametrize("content", CONTENTS, ids=lambda content: content.__name__)
@pytest.mark.parametrize("mode", DEEP_MODES)
def test_large_deep_pictures_come_back_by_released_models(
    mode: str, content: Callable[[tuple[int, ...], int, int], Samples]
) -> None:
    for depth, shape in ((9, (300, 200)), (12, (61, 300)), (16, (200, 33))):
        samples = content((*shape, MODES[mode].channels), depth, 1)
        for model in ("auto", "photo"):
            data = lmzip.compress(samples, model=model)
            assert np.array_equal(lmzip.decompress(data), samples)


@pytest.mark.parametrize("order", ["raster:flip", "s-curve", "hilbert:transpose"])
@pytest.mark.parametrize("content", CONTENTS, ids=lambda content: content.__name__)
def test_both_decoders_restore_deep_pictures(
    order: str, content: Callable[[tuple[int, ...], int, int], Samples], model: Path
) -> None:
    network = oracle_streams.read_model(model.read_bytes())
    for depth, mode in zip((9, 12, 14, 16), DEEP_MODES, strict=True):
        samples = content((6, 7, MODES[mode].channels), depth, depth)
        data = lmzip.compress(samples, model=model, order=order)
        assert np.array_equal(lmzip.decompress(data, model=model), samples)
        assert oracle.decode_image(data, [network]) == samples.astype(int).tolist()


@pytest.mark.parametrize(
    "scaling",
    [
        Scaling(Precision(12, SQUARE_ROOT, 24, 60000)),
        Scaling(Precision(16, SQUARE_ROOT, 255, 65535)),
        Scaling(Precision(9, sharpness=1, flatness=1)),
        Scaling(Precision(10), low=40000, step=24),
        Scaling(Precision(8), listed=tuple(range(0, 65536, 257))),
    ],
    ids=str,
)
def test_every_scaling_is_stored_and_decoded(
    scaling: Scaling, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lmzip.container.image_writer.choose_scalings", lambda *_: (scaling,))
    numbers = smooth((8, 9, 3), scaling.precision.depth, 3)
    numbers[2:6, 1:] = numbers[2, 1]  # neighbours that agree
    numbers[5, 5] += 1
    samples = scaling.restore(numbers)
    data = lmzip.compress(samples, model=model)
    assert header_of(data) == (scaling,)
    assert np.array_equal(lmzip.decompress(data, model=model), samples)
    network = oracle_streams.read_model(model.read_bytes())
    assert oracle.decode_image(data, [network]) == samples.astype(int).tolist()


def test_values_are_described_by_few_bits() -> None:
    def describe(*values: int) -> tuple[int, int, int]:
        scaling = describe_values(np.array(values, np.uint16).reshape(1, -1, 1))
        return scaling.precision.depth, scaling.low, scaling.step

    assert describe(7) == (8, 0, 1)
    assert describe(0, 1023) == (8, 0, 1023)
    assert describe(3, 4, 1024) == (10, 3, 1)  # 1022 numbers: a bit less if they start from 3
    assert describe(3, 4, 1023) == (10, 0, 1)
    assert describe(64, 128, 65472) == (10, 0, 64)
    assert describe(5, 6, 65535) == (16, 0, 1)
    assert describe(65535) == (8, 65535, 1)


def test_flatness_is_how_often_agreeing_neighbours_are_right() -> None:
    image = np.full((1, 20, 20, 1), 9, np.uint16)
    assert measure_flatness(image) == 65535
    image[0, 10, 10] = 8
    assert 65535 * 0.98 < measure_flatness(image) < 65535
    assert measure_flatness(noise((1, 20, 20, 1), 16, 0)) == 0
    assert measure_flatness(image[:, :2]) == 0


def test_constant_areas_cost_little() -> None:
    samples = smooth((64, 64, 1), 16, 0)
    samples[:40] = 1000
    (with_flat,) = header_of(flat := lmzip.compress(samples, model="photo"))
    plain = lmzip.compress(samples, model="photo", effort="fast")
    assert with_flat.precision.flatness > 60000
    assert len(flat) < 0.8 * len(plain)


def test_headers_of_small_deep_pictures_count() -> None:
    for shape in ((1, 1, 1), (1, 1, 2), (3, 2, 4)):
        samples = noise(shape, 16, 0)
        assert len(lmzip.compress(samples)) <= samples.nbytes + 16


def test_regions_of_deep_pictures(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lmzip.container.tiles.TILE", (16, 16))
    samples = smooth((40, 50, 4), 14, 0)
    data = lmzip.compress(samples, model=model)
    for top, left, height, width in ((0, 0, 40, 50), (3, 20, 9, 11), (39, 49, 1, 1)):
        part = lmzip.decompress_region(data, top, left, height, width, model=model)
        assert np.array_equal(part, samples[top : top + height, left : left + width])


def test_archives_of_deep_pictures(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lmzip.container.archive_writer.BATCH_PIXELS", 150)
    pictures = [
        Picture(smooth((7, 8, MODES[mode].channels), 9 + number, number), MODES[mode])
        for number, mode in enumerate(("RGB16", "L16", "RGB16", "LA16", "RGB16", "L16", "RGBA16"))
    ]
    named = [(None, picture) for picture in pictures]
    data = lmzip.pack_archive(named, lmzip.Options(model=str(model)))
    with lmzip.open_archive(data, model=model) as archive:
        for number, picture in enumerate(pictures):
            assert np.array_equal(archive[number], picture.samples)
    network = oracle_streams.read_model(model.read_bytes())
    expected = [picture.samples.astype(int).tolist() for picture in pictures]
    assert oracle.decode_archive(data, [network]) == expected


def test_lists_of_an_archive_are_limited(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scaling = Scaling(Precision(12), listed=tuple(range(0, 65536, 20)))
    monkeypatch.setattr("lmzip.container.archive_writer.choose_scalings", lambda *_: (scaling,))
    images = scaling.restore(smooth((7, 8, 1), 11, 0))[None]
    data = lmzip.compress_batch(images, model=model)
    with lmzip.open_archive(data, model=model) as archive:
        assert np.array_equal(archive[0], images[0])
    with pytest.raises(lmzip.LimitError, match="bytes of memory"):
        lmzip.open_archive(data, model=model, limits=lmzip.Limits(memory=100_000))


def test_deep_alpha_has_a_scaling_of_its_own(model: Path) -> None:
    samples = smooth((9, 10, 4), 16, 0)
    samples[..., 3] = 65535
    colours, alpha = header_of(lmzip.compress(samples, model=model, effort="fast"))
    assert colours.precision.depth > 8
    assert (alpha.precision.depth, alpha.low) == (8, 65535)


def test_bits_of_deep_pictures_add_up(model: Path) -> None:
    picture = Picture(smooth((20, 21, 3), 12, 0), MODES["RGB16"])
    loaded = load_model(model)
    costs = lmzip.measure_bits(picture, loaded, lmzip.Order("raster"))
    data = lmzip.compress_picture(picture, lmzip.Options(model=str(model)))
    info = lmzip.read_info(data)
    assert info.model_bpd == pytest.approx(costs.bpd, abs=1e-3)


BAD_SCALINGS = {
    "depth": (bytes([9]), lmzip.FormatError, "unknown scaling"),
    "both kinds of values": (bytes([48, 0, 0]), lmzip.FormatError, "unknown scaling"),
    "no step": (bytes([16, 0, 0]), lmzip.FormatError, "impossible values"),
    "sharpness": (bytes([128, 0, 0, 0]), lmzip.FormatError, "sharpness"),
    "cut short": (bytes([128, 1]), lmzip.DamagedError, "ends"),
}


@pytest.mark.parametrize("name", BAD_SCALINGS)
def test_bad_scalings_are_refused(name: str) -> None:
    data, error, message = BAD_SCALINGS[name]
    with pytest.raises(error, match=message):
        read_scalings(Reader(data), MODES["L16"])


@pytest.mark.parametrize("values", [(5, 5), tuple(range(300)), ()], ids=["twice", "many", "none"])
def test_bad_lists_of_values_are_refused(values: tuple[int, ...]) -> None:
    writer = Writer()
    writer.byte(32)
    writer.block(pack_values(values))
    with pytest.raises(lmzip.DamagedError):
        read_scalings(Reader(bytes(writer.data)), MODES["L16"])


def test_scalings_come_back() -> None:
    writer = Writer()
    scaling = Scaling(Precision(11, SQUARE_ROOT, 17, 300), low=7, step=3)
    listed = Scaling(Precision(8), listed=(1, 5, 65535))
    write_scalings(writer, [scaling, listed])
    reader = Reader(bytes(writer.data))
    assert read_scalings(reader, MODES["LA16"]) == (scaling, listed)
    assert reader.position == len(writer.data)
    assert read_scalings(reader, MODES["RGB"]) == ()


def test_numbers_without_a_value_are_damage() -> None:
    with pytest.raises(lmzip.DamagedError, match="value 3 of 3"):
        Scaling(Precision(8), listed=(1, 5, 9)).restore(np.array([3], np.uint16))
    with pytest.raises(lmzip.DamagedError, match="value 200"):
        Scaling(Precision(8), step=1000).restore(np.array([200], np.uint16))


def test_models_with_coarse_means_are_not_used(model: Path, tmp_path: Path) -> None:
    network = load_integer_network(model)
    shift = network.out.shift.copy()
    shift[network.mixtures] = 5
    coarse = replace(network, out=replace(network.out, shift=shift))
    path = tmp_path / "coarse.safetensors"
    save_integer_network(coarse, path)
    samples = smooth((5, 6, 3), 12, 0)
    with pytest.raises(lmzip.InputError, match="not for mode RGB16"):
        lmzip.compress(samples, model=path)
    assert lmzip.compress(samples.astype(np.uint8), model=path)
