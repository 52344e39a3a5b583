"""Limits: what a file may ask for is checked before it is given; bombs stay small."""

from __future__ import annotations

import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from support.networks import ANY_ORDER, compact_network, write_model

import lmzip
from lmzip.classical import DEFLATE, JPEG2000, NETWORK, PNG, RAW, WEBP, encode_classical
from lmzip.container.archive_file import Batch, Index, append_chunk, finish_archive, start_archive
from lmzip.container.binary import Writer
from lmzip.container.checksums import checksum_of_samples
from lmzip.container.image_file import Chunk, write_image
from lmzip.container.image_header import Coding, ImageHeader
from lmzip.container.model_reference import ModelReference
from lmzip.limits import METADATA_BLOCK, Limits, inflate, parse_size
from lmzip.network.registry import load_model
from lmzip.order.orders import Order
from lmzip.picture import MODES, Picture

RGB = MODES["RGB"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    network = compact_network(orders=ANY_ORDER, name="any")
    return write_model(network, tmp_path_factory.mktemp("model"))


def network_file(model: Path, height: int, width: int, data: bytes, grid=(1, 1), order=None):
    reference = ModelReference("any", bytes.fromhex(load_model(model).fingerprint)[:8])
    header = ImageHeader(
        RGB, height, width, grid, Coding(reference, order or Order("raster"), 0), {}
    )
    chunks = [Chunk(NETWORK, data)] * (grid[0] * grid[1])
    return write_image(header, chunks, zlib.crc32(bytes(3 * height * width)))


def classical_file(height: int, width: int, method: int, data: bytes, mode=RGB, metadata=None):
    header = ImageHeader(mode, height, width, (1, 1), None, metadata or {})
    return write_image(header, [Chunk(method, data)], 0)


def test_sizes_are_read_with_their_units() -> None:
    assert [parse_size(text) for text in ("1", "64k", "2M", " 3G ", "1T")] == [
        1, 1 << 16, 2 << 20, 3 << 30, 1 << 40
    ]  # fmt: skip
    for text in ("", "0", "-1", "1.5G", "many", "1X", "9" * 30):
        with pytest.raises(lmzip.InputError):
            parse_size(text)


def test_the_environment_sets_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Limits.from_environment({}) == Limits()
    some = {"LMZIP_MAX_PIXELS": "1M", "LMZIP_MEMORY": "2G", "LMZIP_MAX_IMAGES": "7"}
    assert Limits.from_environment(some) == Limits(pixels=1 << 20, memory=2 << 30, images=7)
    with pytest.raises(lmzip.InputError, match="LMZIP_MEMORY: 'much'"):
        Limits.from_environment({"LMZIP_MEMORY": "much"})
    data = lmzip.compress(np.zeros((20, 30, 3), np.uint8))
    monkeypatch.setenv("LMZIP_MAX_PIXELS", "599")
    with pytest.raises(lmzip.LimitError, match="30x20 pixels, the limit is 599: --max-pixels"):
        lmzip.decompress(data)
    assert lmzip.decompress(data, limits=Limits(pixels=600)).shape == (20, 30, 3)


@pytest.mark.parametrize("field", ["pixels", "images", "metadata", "density", "memory"])
def test_a_limit_is_at_least_one(field: str) -> None:
    with pytest.raises(lmzip.InputError, match=field):
        Limits(**{field: 0})


def test_inflation_ends_at_its_limit() -> None:
    packed = zlib.compress(bytes(1000))
    assert inflate(packed, 1000) == bytes(1000)
    assert len(inflate(packed, 999)) == 1000
    assert len(inflate(packed, 10)) == 11
    assert inflate(zlib.compress(b""), 0) == b""
    for damaged in (b"", packed[:-1], packed[:5], b"x" + packed, packed[:-1] + b"\0"):
        with pytest.raises(zlib.error):
            inflate(damaged, 1000)
    random = np.random.default_rng(0).bytes(3 << 20)  # longer than what is inflated at once
    assert inflate(zlib.compress(random), 3 << 20) == random


def test_only_one_place_inflates() -> None:
    """Every other call could be given a bomb; training trusts its sets of data."""
    root = Path(lmzip.__file__).parent
    calls = {"zlib.decompress(", "decompressobj(", "gzip.", "bz2.", "lzma."}
    found = {
        path.relative_to(root).as_posix()
        for path in root.rglob("*.py")
        if root / "models" not in path.parents  # where an installed copy has them
        for call in calls
        if call in path.read_text(encoding="utf-8")
    }
    assert found == {"limits.py"}


def measure(program: str, *args: object) -> tuple[float, float, str]:
    """Run a program by itself: CPU seconds and megabytes beyond the imports, and output."""
    prefix = (
        "import resource, sys, time, numpy, lmzip, PIL.Image, lmzip.api\n"
        "lmzip.decompress(lmzip.compress(numpy.zeros((4, 4, 3), numpy.uint8)))\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024\n"
        "memory, began = peak(), time.process_time()\n"
    )
    suffix = "\nprint(time.process_time() - began)\nprint(peak() - memory)"
    finished = subprocess.run(
        [sys.executable, "-P", "-c", prefix + program + suffix, *map(str, args)],
        capture_output=True, text=True, check=True, timeout=100,
    )  # fmt: skip
    *lines, seconds, memory = finished.stdout.splitlines()
    return float(seconds), float(memory), "\n".join(lines)


READ = """
unpack = lambda data: lmzip.open_archive(data)[0]
decode = lambda data: lmzip.decompress(data, model=MODEL)
for read in (lmzip.read_info, unpack, decode):
    try:
        read(open(sys.argv[1], 'rb').read())
        print('read')
    except lmzip.LmzipError as error:
        print(type(error).__name__, error)
"""


def bombs(model: Path) -> dict[str, bytes]:
    zeros = zlib.compress(bytes(1 << 29), 1)  # a few megabytes
    reference = ModelReference("any", bytes(8))
    packed_index = zlib.compress(b"\0\1\0\0\0\0\0\0\xff\xff\xff\x7f" + bytes(1 << 27), 1)
    archive = start_archive()
    archive.raw(packed_index + (6).to_bytes(8, "little"))
    archive.raw(zlib.crc32(packed_index).to_bytes(4, "little") + b"LMZ\x1a")
    nested = start_archive()
    entry = append_chunk(nested, lmzip.compress(np.zeros((2, 2, 3), np.uint8)), [0], None)
    inner = Writer()
    inner.raw(b"\0\1")
    inner.raw(b"\1")
    inner.varint(entry.size)
    inner.raw(entry.checksum.to_bytes(4, "little") + b"\1\0\0")
    inner.varint(200)
    text = zlib.compress(b"TEXT" + b"\x80\x80\x80\x20" + bytes(1 << 26), 1)
    for _ in range(200):
        inner.varint(0)
        inner.block(text)
    packed = zlib.compress(bytes(inner.data), 9)
    end = len(nested.data)
    nested.raw(packed + end.to_bytes(8, "little"))
    nested.raw(zlib.crc32(packed).to_bytes(4, "little") + b"LMZ\x1a")
    batch = start_archive()
    shape = Batch(RGB, 1 << 13, 1 << 13, reference, Order("raster"), 0, 0)
    chunks = append_chunk(batch, b"\1", [0], shape)
    webp = encode_classical(np.full((64, 64, 3), 9, np.uint8), RGB, thorough=True)[1]
    metadata, first_metadata = Writer(), Writer()
    metadata.raw(b"\x89LMZ\2\x0d\4\4\4")
    metadata.block(zeros)
    metadata.raw(bytes(5))
    header = Writer()
    header.raw(b"\4\4\4\1")
    header.block(zeros)
    first_metadata.raw(b"\x89LMZ\1\1")
    first_metadata.block(bytes(header.data))
    first_metadata.checksum()
    stored, first_stored = Writer(), Writer()
    stored.raw(b"\x89LMZ\2\x11\4\4\4\0\3any" + bytes(8) + b"\xff\0")
    stored.block(zeros)
    stored.raw(bytes(6))
    order = Writer()
    order.raw(b"\4\4\4\0\1\1\3any" + bytes(8) + b"\xff\0")
    order.block(zeros)
    order.raw(b"\0\0")
    first_stored.raw(b"\x89LMZ\1\1")
    first_stored.block(bytes(order.data))
    first_stored.checksum()
    big = 16383
    sides = (big - 1 | (big - 1) << 14).to_bytes(4, "little")
    return {
        "metadata": bytes(metadata.data),
        "metadata of version 1": bytes(first_metadata.data),
        "order": bytes(stored.data),
        "order of version 1": bytes(first_stored.data),
        "index": bytes(archive.data),
        "metadata in an index": bytes(nested.data),
        "batch": finish_archive(batch, Index((chunks,), None, {})),
        "one word": network_file(model, 8192, 8192, b"\1"),
        "tiles": network_file(model, 8192, 8192, b"\1", (16, 16)),
        "hilbert": network_file(model, 8192, 8192, b"\1", order=Order("hilbert")),
        "raw": classical_file(16000, 16000, RAW, b"1234"),
        "deflate": classical_file(8192, 8192, DEFLATE, b"\0" + zeros[:1000]),
        "png": classical_file(8192, 8192, PNG, zeros[:1000]),
        "webp": classical_file(big, big, WEBP, b"\x2f" + sides + webp[5:]),
        "jpeg2000": classical_file(8192, 8192, JPEG2000, bytes(20)),
        "sides": classical_file((1 << 31) - 1, (1 << 31) - 1, RAW, b""),
    }


NAMES = (
    "metadata", "metadata of version 1", "order", "order of version 1", "index",
    "metadata in an index", "batch", "one word", "tiles", "hilbert", "raw", "deflate", "png",
    "webp", "jpeg2000", "sides",
)  # fmt: skip


@pytest.fixture(scope="module")
def bomb_files(model: Path) -> dict[str, bytes]:
    found = bombs(model)
    assert tuple(found) == NAMES
    return found


@pytest.mark.parametrize("name", NAMES)
def test_bombs_do_not_go_off(
    name: str, bomb_files: dict[str, bytes], model: Path, tmp_path: Path
) -> None:
    data = bomb_files[name]
    assert len(data) < 4 << 20
    (tmp_path / "bomb.lmz").write_bytes(data)
    seconds, megabytes, said = measure(
        READ.replace("MODEL", repr(str(model))), tmp_path / "bomb.lmz"
    )
    errors = said.splitlines()
    assert "LimitError" in errors[-1] or "DamagedError" in errors[-1] or "FormatError" in errors[-1]
    assert "Error" in errors[1]
    assert seconds < 5, said
    assert megabytes < 500, said


@pytest.mark.parametrize(("chunks", "images"), [(1, 1 << 17), (1 << 14, 1)])
def test_archives_of_many_images_take_time_in_proportion(
    chunks: int, images: int, model: Path, tmp_path: Path
) -> None:
    """Tiny ones in one batch, and batches of one: nothing may look at all of them for each."""
    writer = start_archive()
    network = load_model(model)
    reference = ModelReference(network.name, bytes.fromhex(network.fingerprint)[:8])
    black = checksum_of_samples(np.zeros((images, 1, 1, 3), np.uint8))
    shape = Batch(RGB, 1, 1, reference, Order("raster"), 0, black)
    numbers = [range(first * images, (first + 1) * images) for first in range(chunks)]
    entries = tuple(append_chunk(writer, b"", each, shape) for each in numbers)
    (tmp_path / "many.lmz").write_bytes(finish_archive(writer, Index(entries, None, {})))
    program = (
        "from lmzip.cli.members import Members\n"
        f"archive = lmzip.open_archive(sys.argv[1], model={str(model)!r}, threads=1)\n"
        "members = len(Members(archive).all)\n"
        f"restored = sum(1 for _ in archive.restore(range({images})))\n"
        "print(members, restored)"
    )
    seconds, megabytes, said = measure(program, tmp_path / "many.lmz")
    assert said == f"{chunks * images} {images}"
    assert seconds < 5
    assert megabytes < 500


def test_a_dry_stream_is_black_and_takes_no_time(model: Path, tmp_path: Path) -> None:
    """From state zero the coder can only give first symbols: black, whatever the network says."""
    (tmp_path / "black.lmz").write_bytes(network_file(model, 6000, 6000, b""))
    program = (
        f"pixels = lmzip.decompress(open(sys.argv[1], 'rb').read(), model={str(model)!r})\n"
        "print(pixels.shape, pixels.any())"
    )
    seconds, megabytes, said = measure(program, tmp_path / "black.lmz")
    assert said == "(6000, 6000, 3) False"
    assert seconds < 5
    assert megabytes < 600


def test_a_stream_that_runs_dry_in_between(model: Path) -> None:
    """What is decoded before is right, and the rest is black: as if every step had been run."""
    pixels = np.zeros((40, 30, 3), np.uint8)
    pixels[:3] = np.random.default_rng(0).integers(0, 256, (3, 30, 3))
    for order in ("raster", "s-curve", "hilbert"):
        data = lmzip.compress(pixels, model=model, order=order)
        np.testing.assert_array_equal(lmzip.decompress(data, model=model), pixels)


def test_limits_of_an_archive() -> None:
    data = lmzip.compress_batch(np.zeros((5, 6, 7, 3), np.uint8))
    assert len(lmzip.open_archive(data, limits=Limits(images=5))) == 5
    for limits, flag in (
        (Limits(images=4), "--max-images"),
        (Limits(metadata=3), "--max-metadata"),
    ):
        for read in (lmzip.open_archive, lmzip.read_info):
            with pytest.raises(lmzip.LimitError, match=flag):
                read(data, limits=limits)


def test_limits_of_metadata() -> None:
    picture = Picture(np.zeros((2, 2, 3), np.uint8), RGB, {"TEXT": bytes(1000)})
    data = lmzip.compress_picture(picture)
    assert lmzip.decompress_picture(data, limits=Limits(metadata=1006)).metadata == picture.metadata
    with pytest.raises(lmzip.LimitError, match="1006 bytes of metadata, the limit is 1005"):
        lmzip.decompress_picture(data, limits=Limits(metadata=1005))
    many = {f"T{number:03d}": b"" for number in range(257)}
    with pytest.raises(lmzip.FormatError, match="more than 256 blocks"):
        lmzip.read_info(lmzip.compress_picture(Picture(picture.samples, RGB, many)))


def test_limits_of_all_metadata_in_an_index() -> None:
    """Blocks of no bytes take memory too, and a packed index can have millions of them."""
    count, tags = 50, {f"T{number:03d}": b"" for number in range(256)}
    image = lmzip.compress(np.zeros((2, 2, 3), np.uint8))
    writer = start_archive()
    chunks = tuple(append_chunk(writer, image, [number], None) for number in range(count))
    data = finish_archive(writer, Index(chunks, None, dict.fromkeys(range(count), tags)))
    needed = METADATA_BLOCK * count * 257
    assert lmzip.read_info(data, limits=Limits(memory=needed)).count == count
    for read in (lmzip.open_archive, lmzip.read_info):
        with pytest.raises(lmzip.LimitError, match="--memory or LMZIP_MEMORY"):
            read(data, limits=Limits(memory=needed - 1))


def test_limits_of_all_metadata_of_image_files() -> None:
    """Each has a limit of its own; frames of one file are kept together all the same."""
    count, size = 20, 100_000
    metadata = {f"T{number:03d}": bytes(size // 100) for number in range(100)}
    picture = Picture(np.zeros((2, 2, 3), np.uint8), RGB, metadata)
    image = lmzip.compress_picture(picture)
    writer = start_archive()
    chunks = tuple(append_chunk(writer, image, [number], None) for number in range(count))
    data = finish_archive(writer, Index(chunks, None, {}))
    assert len(data) < count * size / 20
    archive = lmzip.open_archive(data, limits=Limits(memory=count * size))
    with pytest.raises(lmzip.LimitError, match="--memory"):
        archive.pictures(range(count))
    assert sum(1 for _ in archive.restore(range(count))) == count
    for read in (lmzip.read_info, lmzip.list_images):
        with pytest.raises(lmzip.LimitError, match="--memory"):
            read(data, limits=Limits(memory=METADATA_BLOCK * 100 * count - 1))


def test_limits_of_memory(model: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (50, 60, 3)).astype(np.uint8)
    for data in (lmzip.compress(pixels), lmzip.compress(pixels, model=model)):
        lmzip.decompress(data, model=model)
        with pytest.raises(lmzip.LimitError, match="--memory or LMZIP_MEMORY"):
            lmzip.decompress(data, model=model, limits=Limits(memory=10_000))


def test_crafted_indexes_are_refused() -> None:
    image = lmzip.compress(np.zeros((2, 2, 3), np.uint8))
    for images in ([], [0, 1]):
        writer = start_archive()
        chunk = append_chunk(writer, image, images, None)
        data = finish_archive(writer, Index((chunk,), None, {}))
        with pytest.raises(lmzip.DamagedError, match=f"a chunk of {len(images)} images"):
            lmzip.read_info(data)
    writer = start_archive()
    chunk = append_chunk(writer, image, [0], None)
    writer.raw(b"hidden")
    with pytest.raises(lmzip.DamagedError, match="the chunks end at byte"):
        lmzip.read_info(finish_archive(writer, Index((chunk,), None, {})))
    writer = start_archive()
    chunk = append_chunk(writer, image, [0], None)
    with pytest.raises(lmzip.DamagedError, match="metadata of image 3"):
        lmzip.read_info(finish_archive(writer, Index((chunk,), None, {3: {"TEXT": b""}})))
