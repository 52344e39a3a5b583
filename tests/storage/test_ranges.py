"""Reading by ranges: an image of a remote archive costs the index and its own chunk."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.networks import compact_network, smooth_images, write_model
from support.object_store import CUT, REFUSE, ObjectStore

import lmzip
from lmzip.container.archive_file import FOOTER_BYTES, PRELUDE_BYTES, read_index
from lmzip.storage import open_ranges, to_path, write_whole

IMAGES = smooth_images(40, 6, 7)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(compact_network(), tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def archive(model: Path) -> bytes:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lmzip.container.archive_writer.BATCH_PIXELS", 4 * 42)
        return lmzip.compress_batch(IMAGES, model=model)


def test_one_image_fetches_the_index_and_one_chunk(
    store: ObjectStore, archive: bytes, model: Path
) -> None:
    write_whole(to_path("s3://bucket/images.lmz"), archive)
    index = read_index(memoryview(archive))
    end = sum(chunk.size for chunk in index.chunks) + PRELUDE_BYTES
    store.fetched()
    with lmzip.open_archive("s3://bucket/images.lmz", model=model) as images:
        assert len(images) == 40
        assert store.fetched() == PRELUDE_BYTES + len(archive) - end  # the footer is at the end
        chunk = next(chunk for chunk in index.chunks if 17 in chunk.images)
        assert np.array_equal(images[17], IMAGES[17])
        assert store.fetched() == chunk.size
        for number, picture in images.restore([17, 16, 3]):
            assert isinstance(picture, lmzip.Picture)
            assert np.array_equal(picture.samples, IMAGES[number])
        two = {c.offset: c.size for c in index.chunks if {3, 16, 17} & set(c.images)}
        assert store.fetched() == sum(two.values())
    info = lmzip.read_info("s3://bucket/images.lmz")
    assert info == lmzip.read_info(archive)
    assert store.fetched() < FOOTER_BYTES + 2 * PRELUDE_BYTES + len(archive) - end


def test_all_kinds_of_sources_read_alike(archive: bytes, model: Path, tmp_path: Path) -> None:
    local, remote = tmp_path / "images.lmz", to_path("memory://ranges/images.lmz")
    for path in (local, remote):
        write_whole(path, archive)
        assert lmzip.is_archive(str(path))
        assert lmzip.list_images(str(path)) == lmzip.list_images(archive)
        with lmzip.open_archive(str(path), model=model) as images:
            assert np.array_equal(np.stack(images[:]), IMAGES)


def test_slices_are_those_of_bytes(archive: bytes) -> None:
    write_whole(to_path("memory://ranges/slices"), archive)
    with open_ranges("memory://ranges/slices", lmzip.Limits()) as data:
        assert len(data) == len(archive)
        for part in (slice(3, 9), slice(-4, None), slice(None), slice(9, 3), slice(10**9, None)):
            assert bytes(data[part]) == archive[part]


def test_limits_hold_before_anything_is_fetched(store: ObjectStore) -> None:
    write_whole(to_path("s3://bucket/large"), bytes(5000))
    store.fetched()
    with open_ranges("s3://bucket/large", lmzip.Limits(memory=4000)) as data:
        with pytest.raises(lmzip.LimitError):
            data[:]
        assert store.fetched() == 0
        assert len(data[:4000]) == 4000


def test_a_damaged_remote_archive_gives_what_is_whole(archive: bytes, model: Path) -> None:
    index = read_index(memoryview(archive))
    damaged = bytearray(archive)
    damaged[index.chunks[2].offset] ^= 1
    write_whole(to_path("memory://ranges/damaged.lmz"), bytes(damaged))
    with lmzip.open_archive("memory://ranges/damaged.lmz", model=model) as images:
        restored = dict(images.restore(range(40)))
    lost = {n for n, picture in restored.items() if isinstance(picture, lmzip.DamagedError)}
    assert lost == set(index.chunks[2].images)
    assert set(restored) == set(range(40))


def test_a_cut_connection_is_tried_again(store: ObjectStore) -> None:
    write_whole(to_path("s3://bucket/file"), bytes(range(256)))
    store.faults += [("GET", CUT)]
    with open_ranges("s3://bucket/file", lmzip.Limits()) as data:
        assert bytes(data[:]) == bytes(range(256))
    assert not store.faults


def test_a_connection_that_is_always_cut_is_an_error(store: ObjectStore) -> None:
    write_whole(to_path("s3://bucket/file"), bytes(256))
    with open_ranges("s3://bucket/file", lmzip.Limits()) as data:
        store.faults += [("GET", CUT)] * 50
        with pytest.raises(OSError, match="s3://bucket/file"):
            data[:]


def test_a_refused_request_is_an_error(store: ObjectStore) -> None:
    write_whole(to_path("s3://bucket/file"), bytes(256))
    with open_ranges("s3://bucket/file", lmzip.Limits()) as data:
        store.faults += [("GET", REFUSE)]
        with pytest.raises(PermissionError, match="s3://bucket/file"):
            data[:]
