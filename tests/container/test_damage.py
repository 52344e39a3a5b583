"""Damage: whatever happens to a file, it has a name, and no wrong pixel is returned."""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
import pytest
from support.networks import (
    ANY_ORDER,
    compact_network,
    custom_order,
    draw_tuned,
    random_network,
    smooth_images,
    various_images,
    write_model,
)

import lmzip
from lmzip.container.binary import Reader
from lmzip.container.checksums import checksum_of_samples
from lmzip.container.image_file import (
    Chunk,
    close_image,
    read_image_header,
    write_image,
)
from lmzip.container.image_header import ImageHeader
from lmzip.network.registry import load_model
from lmzip.picture import MODES, Picture


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model for raster order and one for any order."""
    folder = tmp_path_factory.mktemp("weights")
    write_model(compact_network(name="raster"), folder)
    write_model(compact_network(orders=ANY_ORDER, name="any"), folder)
    return folder


def sample_positions(start: int, end: int) -> list[int]:
    """Return all positions near the start and the end of a file, and some between."""
    chosen = {*range(start, min(start + 50, end)), *range(max(start, end - 12), end)}
    return sorted(chosen | set(range(start, end, max(1, (end - start) // 40))))


@pytest.fixture(scope="module")
def files(folder: Path) -> dict[str, bytes]:
    """Small files of every kind: tiles and groups, a stored order, metadata, classical ones."""
    model = folder / "any.safetensors"
    (colour,) = smooth_images(1, 5, 7, 4)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lmzip.container.tiles.TILE", (4, 4))
        tiled = lmzip.compress(colour, model=model)
    (image,) = smooth_images(1, 9, 12)
    picture = Picture(image, MODES["RGB"], {"EXIF": bytes(30), "TEXT": b"hello"})
    options = lmzip.Options(model=str(model), order=custom_order(9, 12))
    contents = dict(various_images(9, 12, 3))
    with pytest.MonkeyPatch.context() as patch:  # no networks: classical methods
        patch.setattr("lmzip.network.registry.WEIGHTS", folder / "none")
        classical = {
            "raw": lmzip.compress(contents["noise"]),
            "webp": lmzip.compress(contents["constant"]),
            "deflate": lmzip.compress(contents["photograph"].astype(np.uint16) * 257),
            "png": lmzip.compress(smooth_images(1, 40, 50, 1)[0].astype(np.uint16) * 200),
        }
    tuned = draw_tuned(load_model(model))
    options_of_plain = lmzip.Options(model=str(model))
    small = Picture(smooth_images(1, 6, 7)[0], MODES["RGB"])
    return {
        "plain": lmzip.compress_picture(small, options_of_plain),
        "tuned": lmzip.compress_picture(small, options_of_plain, tuned=[tuned]),
        "tiled": tiled,
        "custom": lmzip.compress_picture(picture, options),
        **classical,
    }


NAMES = ("plain", "tuned", "tiled", "custom", "raw", "webp", "deflate", "png")


def check_damaged(data: bytes, model: Path) -> type[Exception]:
    """Every reader refuses the data by an error of our own; return the decoder's."""
    with pytest.raises(lmzip.LmzipError) as caught:
        lmzip.decompress(data, model=model)
    assert str(caught.value)
    assert "\n" not in str(caught.value)
    with pytest.raises(lmzip.LmzipError):
        lmzip.decompress_picture(data, model=model)
    try:
        lmzip.read_info(data)
        lmzip.decompress_region(data, 1, 1, 3, 3, model=model)
    except lmzip.LmzipError:
        pass
    return caught.type


@pytest.mark.parametrize("name", NAMES)
def test_a_flipped_byte_is_noticed(name: str, files: dict[str, bytes], folder: Path) -> None:
    data, model = files[name], folder / "any.safetensors"
    lmzip.decompress(data, model=model)
    for position in sample_positions(0, len(data)):
        for mask in (0x01, 0xFF):
            damaged = bytearray(data)
            damaged[position] ^= mask
            check_damaged(bytes(damaged), model)


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_end_is_noticed(name: str, files: dict[str, bytes], folder: Path) -> None:
    data, model = files[name], folder / "any.safetensors"
    for length in sample_positions(0, len(data)):
        kind = check_damaged(data[:length], model)
        if length > 6:
            assert kind is lmzip.DamagedError


@pytest.mark.parametrize("name", NAMES)
def test_bytes_that_follow_are_noticed(name: str, files: dict[str, bytes], folder: Path) -> None:
    check_damaged(files[name] + b"\0", folder / "any.safetensors")
    check_damaged(files[name] * 2, folder / "any.safetensors")


def test_other_versions_are_named(files: dict[str, bytes]) -> None:
    for version in (0, 3, 255):
        data = files["raw"][:4] + bytes([version]) + files["raw"][5:]
        with pytest.raises(lmzip.VersionError, match=f"version {version}"):
            lmzip.decompress(data)
        with pytest.raises(lmzip.VersionError, match=f"version {version}"):
            lmzip.read_info(data)


def test_another_model_is_refused(files: dict[str, bytes], folder: Path) -> None:
    """By its integers: a model of the same name does not pass for the right one."""
    with pytest.raises(lmzip.FingerprintError, match="'any'"):
        lmzip.decompress(files["tiled"], model=folder / "raster.safetensors")
    with pytest.raises(lmzip.FingerprintError, match=r"'any'.*not installed"):
        lmzip.decompress(files["tiled"])
    info = lmzip.read_info(files["tiled"])  # needs no model
    assert info.model == "any"


def test_a_model_is_found_by_its_fingerprint(
    files: dict[str, bytes], folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "renamed.safetensors").write_bytes((folder / "any.safetensors").read_bytes())
    write_model(random_network(name="any"), tmp_path)  # right name, wrong integers
    monkeypatch.setattr("lmzip.network.registry.WEIGHTS", tmp_path)
    assert lmzip.decompress(files["tiled"]).shape == (5, 7, 4)


def reseal(data: bytes, position: int, mask: int, pixel_checksum: int) -> bytes:
    """Flip bits of a file and make its checksums right again, for the pixels that it had."""
    damaged = bytearray(data)
    damaged[position] ^= mask
    reader = Reader(bytes(data))
    header = read_image_header(reader)
    start = reader.position
    if header.sealed:
        closing = close_image(header, damaged[:-4], pixel_checksum)
        damaged[-4:] = closing.to_bytes(4, "little")
        return bytes(damaged)
    ends = [(0, start - 4)]
    for _ in range(header.chunks):
        reader.byte()
        reader.block()
        ends.append((start, reader.position))
        reader.raw(4)
        start = reader.position
    for first, last in ends:
        damaged[last : last + 4] = zlib.crc32(damaged[first:last]).to_bytes(4, "little")
    return bytes(damaged)


@pytest.mark.parametrize("name", NAMES)
def test_wrong_values_under_right_checksums(
    name: str, files: dict[str, bytes], folder: Path
) -> None:
    """A bad writer rather than a bad disk: an error of our own, or exactly the right pixels."""
    data, model = files[name], folder / "any.safetensors"
    pixels = lmzip.decompress(data, model=model)
    for position in sample_positions(6, len(data) - 4)[:: 2 if name == "tiled" else 1]:
        try:
            resealed = reseal(data, position, 0x81, checksum_of_samples(pixels))
            found = lmzip.decompress(resealed, model=model)
        except lmzip.LmzipError:
            continue
        assert np.array_equal(found, pixels)


@pytest.mark.parametrize(("height", "width"), [(1 << 40, 7), (1, 1 << 60), ((1 << 31) - 1,) * 2])
def test_absurd_sizes_are_refused(height: int, width: int) -> None:
    """Before memory is asked for that no machine has."""
    header = ImageHeader(MODES["RGB"], height, width, (1, 1), None, {})
    data = write_image(header, [Chunk(0, bytes(12))], 0)
    with pytest.raises((lmzip.FormatError, lmzip.LimitError)):
        lmzip.decompress(data)


def test_what_is_no_lmz_file_is_named() -> None:
    for data in (b"", b"\x89LM", b"\x89PNG\r\n\x1a\n" + bytes(100), bytes(1000)):
        for read in (lmzip.decompress, lmzip.read_info):
            with pytest.raises(lmzip.FormatError):
                read(data)
    archive = lmzip.compress_batch(np.zeros((2, 3, 3, 3), np.uint8))
    with pytest.raises(lmzip.FormatError, match="archive"):
        lmzip.decompress(archive)


# ---- Archives ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def archive(folder: Path) -> bytes:
    """An archive with batches of two groups of channels, image files, names and metadata."""
    state = np.random.default_rng(0)
    pictures = [
        (f"image {i}", Picture(image, MODES["LA"], {"TEXT": b"note"} if i == 2 else {}))
        for i, image in enumerate(smooth_images(4, 6, 7, 2))
    ]
    noise = state.integers(0, 2, (5, 4, 1)).astype(bool)
    pictures.append(("noise", Picture(noise, MODES["1"], {"GAMA": b"1234"})))
    options = lmzip.Options(model=str(folder / "any.safetensors"), order="s-curve")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lmzip.container.archive_writer.BATCH_PIXELS", 90)
        return lmzip.pack_archive(pictures, options)


def read_all(data: bytes, model: Path) -> list[Picture]:
    lmzip.read_info(data)
    with lmzip.open_archive(data, model=model) as opened:
        return opened.pictures(range(len(opened)))


def test_a_flipped_byte_of_an_archive_is_noticed(archive: bytes, folder: Path) -> None:
    model = folder / "any.safetensors"
    assert len(read_all(archive, model)) == 5
    for position in {*sample_positions(0, len(archive)), *range(0, len(archive), 3)}:
        damaged = bytearray(archive)
        damaged[position] ^= 0x10
        with pytest.raises(lmzip.LmzipError):
            read_all(bytes(damaged), model)


def test_a_missing_end_of_an_archive_is_noticed(archive: bytes, folder: Path) -> None:
    for length in sample_positions(0, len(archive)):
        with pytest.raises(lmzip.FormatError):
            read_all(archive[:length], folder / "any.safetensors")
    for more in (b"\0", archive[-16:], archive):
        with pytest.raises(lmzip.FormatError):
            read_all(archive + more, folder / "any.safetensors")


def test_damage_stays_where_it_is(archive: bytes, folder: Path) -> None:
    """A damaged chunk takes its own images with it, and no others."""
    damaged = bytearray(archive)
    damaged[10] ^= 1  # in the first batch
    model = folder / "any.safetensors"
    with lmzip.open_archive(bytes(damaged), model=model) as opened:
        with pytest.raises(lmzip.DamagedError, match="byte 6"):
            opened[0]
        whole = read_all(archive, model)
        for number in (2, 3, 4):
            assert np.array_equal(opened[number], whole[number].samples)


def test_wrong_values_in_an_index_under_right_checksums(archive: bytes, folder: Path) -> None:
    model = folder / "any.safetensors"
    expected = read_all(archive, model)
    offset = int.from_bytes(archive[-16:-8], "little")
    index = zlib.decompress(archive[offset:-16])
    for position in range(0, len(index), 2):
        changed = bytearray(index)
        changed[position] ^= 0x80 >> position // 2 % 8
        packed = zlib.compress(bytes(changed))
        crc = zlib.crc32(packed).to_bytes(4, "little")
        data = archive[:offset] + packed + archive[-16:-8] + crc + archive[-4:]
        try:
            found = read_all(data, model)
        except lmzip.LmzipError:
            continue
        # Which number an image has only the index knows; its pixels have a checksum.
        for picture in found:
            assert any(np.array_equal(picture.samples, right.samples) for right in expected)


def test_archives_of_other_versions_and_models(archive: bytes, folder: Path) -> None:
    data = archive[:4] + b"\7" + archive[5:]
    with pytest.raises(lmzip.VersionError, match="version 7"):
        lmzip.open_archive(data)
    with lmzip.open_archive(archive, model=folder / "raster.safetensors") as opened:
        with pytest.raises(lmzip.FingerprintError, match="'any'"):
            opened[0]
        assert opened[4].dtype == np.bool_  # no network, so no model is needed
