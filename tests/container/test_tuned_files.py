"""Files with tunings: described, restored in part, salvaged, and refused if they are hostile."""

from __future__ import annotations

import os
import zlib
from pathlib import Path

import numpy as np
import pytest
from support.cli_runner import Cli
from support.networks import compact_network, draw_tuned, smooth_images, write_model

import lmzip
from lmzip.container.archive_file import read_index
from lmzip.container.binary import Reader
from lmzip.container.image_file import read_image_header
from lmzip.container.tuning_bank import tune_model
from lmzip.errors import DamagedError, FormatError, LmzipError
from lmzip.formats import read_picture
from lmzip.network.registry import Model

IMAGE = smooth_images(1, 40, 60)[0]
PICTURE = lmzip.Picture(IMAGE, lmzip.MODES["RGB"])


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(compact_network(), tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def tuned(model: Path) -> Model:
    return draw_tuned(lmzip.load_model(str(model)))


@pytest.fixture(scope="module")
def image(model: Path, tuned: Model) -> bytes:
    """A file of six tiles with a tuning of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lmzip.container.tiles.TILE", (20, 20))
        return lmzip.compress_picture(PICTURE, lmzip.Options(model=str(model)), tuned=[tuned])


@pytest.fixture(scope="module")
def archive(model: Path, tuned: Model) -> bytes:
    """Two image files of six tiles, and a batch of three; all share a tuning."""
    small = [lmzip.Picture(IMAGE[:6, 7 * n : 7 * n + 7], lmzip.MODES["RGB"]) for n in range(3)]
    named = [(f"{n}.png", picture) for n, picture in enumerate([PICTURE, PICTURE, *small])]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lmzip.container.tiles.TILE", (20, 20))
        patch.setattr("lmzip.container.archive_writer.BATCH_PIXELS", 150)
        return lmzip.pack_archive(named, lmzip.Options(model=str(model)), tuned=[tuned])


def flip(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :]


def count_whole_tiles(samples: np.ndarray) -> int:
    same = (samples == IMAGE).all(2)
    return sum(same[r : r + 20, c : c + 20].all() for r in (0, 20) for c in (0, 20, 40))


def test_tuned_files_are_described_without_their_model(image: bytes, archive: bytes) -> None:
    info, of_archive = lmzip.read_info(image), lmzip.read_info(archive)
    assert info.tuning is not None
    assert info.tuning == of_archive.tuning
    assert [entry.method for entry in lmzip.list_images(archive)] == ["network"] * 5


def test_a_region_of_a_tuned_file(image: bytes, model: Path) -> None:
    part = lmzip.decompress_region(image, 15, 25, 10, 30, model=model)
    np.testing.assert_array_equal(part, IMAGE[15:25, 25:55])


def test_a_tuned_file_is_salvaged(image: bytes, model: Path) -> None:
    damaged = flip(image, len(image) * 3 // 4)
    with pytest.raises(DamagedError):
        lmzip.decompress(damaged, model=model)
    picture, losses = lmzip.salvage_picture(damaged, model=model)
    assert len(losses) == 1
    assert count_whole_tiles(picture.samples) == 5


def test_a_tuned_image_in_an_archive_is_salvaged(archive: bytes, model: Path) -> None:
    """Its tuning is in the index of the archive, and must be handed on."""
    chunk = next(c for c in read_index(memoryview(archive)).chunks if c.images == (1,))
    damaged = flip(archive, chunk.offset + chunk.size * 3 // 4)
    with lmzip.open_archive(damaged, model=model) as opened:
        lost = [number for number, p in opened.restore(range(5)) if isinstance(p, DamagedError)]
        assert lost == [1]
        with pytest.raises(DamagedError):
            opened.picture(1)
        picture, losses = opened.salvage(1)
        assert len(losses) == 1
        assert count_whole_tiles(picture.samples) == 5
        np.testing.assert_array_equal(opened.picture(0).samples, IMAGE)


def test_an_archive_with_a_tuned_image_is_salvaged_by_the_command(
    archive: bytes, model: Path, cli: Cli
) -> None:
    chunk = next(c for c in read_index(memoryview(archive)).chunks if c.images == (1,))
    Path("x.lmz").write_bytes(flip(archive, chunk.offset + chunk.size * 3 // 4))
    result = cli("decompress", "--salvage", "--rm", "x.lmz", "--model", model)
    assert result.code == 3
    assert result.err.count("\n") == 1
    assert "lmzip: x.lmz: 1.png: lost: rows" in result.err
    assert Path("x.lmz").exists()
    assert sorted(os.listdir("x")) == [f"{number}.png" for number in range(5)]
    for number, whole in enumerate((6, 5)):
        samples = read_picture(Path(f"x/{number}.png").read_bytes()).picture.samples
        assert count_whole_tiles(samples) == whole


def test_a_damaged_batch_is_lost(archive: bytes, model: Path) -> None:
    chunk = next(c for c in read_index(memoryview(archive)).chunks if c.batch)
    with lmzip.open_archive(flip(archive, chunk.offset + 3), model=model) as opened:
        with pytest.raises(DamagedError):
            opened.salvage(2)
        np.testing.assert_array_equal(opened.picture(0).samples, IMAGE)


def test_an_image_without_its_archive_names_what_is_missing(archive: bytes, model: Path) -> None:
    chunk = next(c for c in read_index(memoryview(archive)).chunks if c.images == (0,))
    alone = archive[chunk.offset : chunk.offset + chunk.size]
    for restore in (lmzip.decompress, lmzip.salvage_picture):
        with pytest.raises(FormatError, match="in the archive that it was taken from"):
            restore(alone, model=model)
    assert lmzip.read_info(alone).method == "network"


def test_every_byte_of_a_tuning_matters(image: bytes, model: Path) -> None:
    """Even with the header's checksum made right: an error, or the same network and pixels.

    (How steeply numbers fall off says nothing if there are only -1, 0 and 1.)
    """
    reader = Reader(image)
    coding, end = read_image_header(reader).coding, reader.position - 4
    assert coding is not None
    assert coding.model.tuning is not None
    content = coding.model.tuning.content
    assert isinstance(content, bytes)
    outcomes = {"same": 0, "refused": 0}
    for place in range(start := image.index(content), start + len(content), 5):
        changed = bytearray(flip(image, place))
        changed[end : end + 4] = zlib.crc32(changed[:end]).to_bytes(4, "little")
        try:
            samples = lmzip.decompress(bytes(changed), model=model)
        except LmzipError:
            outcomes["refused"] += 1
        else:
            outcomes["same"] += 1
            np.testing.assert_array_equal(samples, IMAGE)
    assert outcomes["refused"] > 10 * outcomes["same"]


HOSTILE = {
    "numbers that are too large": b"\x81\x20\0\0\0" + bytes(15),
    "steps that are too large": b"\1\x11\0\0" + bytes(15),
    "a weight of 0 that is too large": b"\1\0\xc8\0" + bytes(15),
    "gains that are too large": b"\1\x0b\0\xff" + bytes(15) + b"\xff" * 400,
    "groups that are missing": bytes(15),
    "bytes that are left": bytes(16) + b"\1",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_tunings_are_refused(name: str, model: Path) -> None:
    with pytest.raises(LmzipError):
        tune_model(lmzip.load_model(str(model)), HOSTILE[name])
