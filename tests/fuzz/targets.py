"""What is fuzzed: each target takes bytes, and may raise nothing but an LmzipError.

Targets make checksums right again where a mutation would only ever test those: so inputs reach what
lies behind. `python tests/fuzz/run.py` runs them under atheris; `test_fuzz.py` feeds each one its
seeds, what was found before, and a few mutations.
"""

from __future__ import annotations

import functools
import io
import json
import random
import tempfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from support.animations import make_animations

import lmzip
from lmzip.container.archive_file import read_index
from lmzip.container.binary import Reader
from lmzip.container.image_file import read_image_header
from lmzip.container.image_header import ImageHeader
from lmzip.container.shared_fields import read_metadata
from lmzip.errors import DamagedError, LmzipError
from lmzip.formats import (
    describe_frames,
    read_frames,
    read_picture,
    strip_frames,
    write_frames,
    write_picture,
)
from lmzip.formats.writing import WRITABLE_SUFFIXES
from lmzip.network.integer_network import load_integer_network
from lmzip.picture import MODES, Picture, Samples

HERE = Path(__file__).parent
GOLDEN = HERE.parent / "golden"
MODEL = GOLDEN / "golden.safetensors"
# Small, so that a target is quick and anything that gets past them shows.
LIMITS = lmzip.Limits(pixels=1 << 12, images=64, metadata=1 << 20, density=64, memory=1 << 28)


def reseal_image(data: bytes) -> bytes:
    """Make the checksums of header and chunks of an image file right, as far as it goes."""
    sealed = bytearray(data)
    reader = Reader(bytes(data))
    try:
        if data[4:5] == b"\1":
            reader.raw(6)
            reader.block()
        else:  # a header says itself where it ends, and a sealed file has no such checksums
            header = _skip_header(reader)
            if header.sealed:
                return bytes(data)
        starts = [(0, reader.position)]
        reader.raw(4)
        while reader.position + 6 < len(data):
            start = reader.position
            reader.byte()
            reader.block()
            starts.append((start, reader.position))
            reader.raw(4)
    except LmzipError:
        return bytes(data)
    for start, end in starts:
        sealed[end : end + 4] = zlib.crc32(sealed[start:end]).to_bytes(4, "little")
    return bytes(sealed)


def _skip_header(reader: Reader) -> ImageHeader:
    """Read a header of version 2 whose checksum may be wrong; ends before that."""
    whole = reader.data
    for _ in range(2):
        try:
            header = read_image_header(reader)
        except DamagedError as error:
            if "checksum" not in str(error):
                raise
            end = reader.position - 4
            right = zlib.crc32(whole[:end]).to_bytes(4, "little")
            reader.data, reader.position = memoryview(whole[:end].tobytes() + right), 0
    reader.data = whole
    if not header.sealed:
        reader.position -= 4
    return header


def fuzz_container(data: bytes) -> None:
    """Headers, chunks and indexes; the first byte chooses what the rest is."""
    kind, rest = data[:1], data[1:]
    if kind and kind[0] & 1:
        version = 1 + (kind[0] >> 1 & 1)
        body = bytes([*b"\x89LMZ", version, 2]) + (packed := zlib.compress(rest, 1))
        archive = body + (6).to_bytes(8, "little") + zlib.crc32(packed).to_bytes(4, "little")
        read_index(memoryview(archive + b"LMZ\x1a"), LIMITS)
        return
    sealed = reseal_image(rest)
    try:
        read_image_header(Reader(sealed, limits=LIMITS))
    finally:
        lmzip.read_info(sealed, limits=LIMITS)


def fuzz_decoder(data: bytes) -> None:
    """Whole files, resealed: right pixels, or an error."""
    sealed = reseal_image(data)
    lmzip.decompress_picture(sealed, model=MODEL, threads=1, limits=LIMITS)


def fuzz_metadata(data: bytes) -> None:
    """Blocks of metadata, and every writer that makes use of them."""
    if len(data) < 2:
        return
    packed = zlib.compress(data[2:], 1)
    block = bytes(_varint(len(packed))) + packed
    metadata = read_metadata(Reader(block, limits=LIMITS))
    mode = list(MODES.values())[data[0] % len(MODES)]
    samples: Samples = np.zeros((3, 4, mode.channels), mode.dtype)
    suffix = WRITABLE_SUFFIXES[data[1] % len(WRITABLE_SUFFIXES)]
    write_picture(Picture(samples, mode, metadata), suffix)


def fuzz_pictures(data: bytes) -> None:
    """Image files of every kind; what is read can be compressed and comes back."""
    picture = read_picture(data, LIMITS).picture
    again = lmzip.decompress_picture(lmzip.compress_picture(picture, _CLASSICAL), limits=_ROOMY)
    assert (again.samples == picture.samples).all()
    assert dict(again.metadata) == dict(picture.metadata)


def fuzz_frames(data: bytes) -> None:
    """Animations and documents, which come back as they were; or the skeleton of one by itself."""
    if data[:1] == b"s":
        first, *others = read_frames(_animations()[data[1] % len(_animations()) if data[1:] else 0])
        block = first.metadata["FRMS"][:8] + data[2:]
        first = Picture(first.samples, first.mode, {**first.metadata, "FRMS": block})
        describe_frames({"FRMS": block[:4] + b"\1\0\0\0" + block[8:]})
        write_frames([first, *others])
        strip_frames([first, *others])
        return
    frames = read_frames(data, LIMITS)
    again = read_frames(write_frames(frames), _ROOMY)
    assert len(again) == len(frames)
    for frame, back in zip(frames, again, strict=True):
        assert frame.mode == back.mode
        assert (frame.samples == back.samples).all()
        if frames[0].metadata["FRMS"][:4] != b"TIFF":  # Pillow may write tags in another way
            assert dict(frame.metadata) == dict(back.metadata)


@functools.cache
def _animations() -> list[bytes]:
    return list(make_animations().values())


def fuzz_model(data: bytes) -> None:
    """Model files: the description is fuzzed by itself as well, since its length is a checksum."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.safetensors")
        path.write_bytes(_with_description(data[1:]) if data[:1] == b"d" else data)
        load_integer_network(path)


def _with_description(text: bytes) -> bytes:
    """Put a fuzzed header before the golden model's tensors."""
    whole = MODEL.read_bytes()
    length = int.from_bytes(whole[:8], "little")
    header = json.loads(whole[8 : 8 + length])
    header["__metadata__"]["network"] = text.decode("utf-8", "replace")
    packed = json.dumps(header).encode()
    packed += b" " * (-len(packed) % 8)
    return len(packed).to_bytes(8, "little") + packed + whole[8 + length :]


def _varint(value: int) -> Iterator[int]:
    while value >= 0x80:
        yield value & 0x7F | 0x80
        value >>= 7
    yield value


_CLASSICAL = lmzip.Options(effort="fast", threads=1)
_ROOMY = lmzip.Limits()

TARGETS: dict[str, Callable[[bytes], None]] = {
    "container": fuzz_container,
    "decoder": fuzz_decoder,
    "metadata": fuzz_metadata,
    "pictures": fuzz_pictures,
    "frames": fuzz_frames,
    "model": fuzz_model,
}


def run_target(name: str, data: bytes) -> None:
    """Run a target; what lmzip refuses by name is as good as what it takes."""
    try:
        TARGETS[name](data)
    except LmzipError as error:
        message = str(error)
    else:
        return
    assert message.count("\n") == 0 < len(message), "an error is one line"


def mutate(data: bytes, choose: random.Random) -> bytes:
    """Return data with a few bytes changed, cut, repeated or put in."""
    changed = bytearray(data)
    for _ in range(choose.choice((1, 1, 2, 4, 8))):
        place = choose.randrange(len(changed) + 1)
        kind = choose.randrange(5)
        if kind == 0:
            changed[place : place + 1] = bytes([choose.randrange(256)])
        elif kind == 1 and place < len(changed):
            changed[place] ^= 1 << choose.randrange(8)
        elif kind == 2:
            del changed[place : place + choose.choice((1, 2, 4, 16, 1000))]
        elif kind == 3:
            changed[place:place] = changed[place : place + choose.randrange(1, 40)]
        else:
            patch = choose.choice((b"\0", b"\xff" * 4, b"\x80" * 4 + b"\4", b"\0\0\0\x80"))
            changed[place : place + len(patch)] = patch
    return bytes(changed)


def mutate_index(data: bytes, choose: random.Random) -> bytes:
    """Return an archive with a mutated index, whose checksum is right."""
    offset = int.from_bytes(data[-16:-8], "little")
    packed = zlib.compress(mutate(zlib.decompress(data[offset:-16]), choose), 1)
    checksum = zlib.crc32(packed).to_bytes(4, "little")
    return data[:offset] + packed + data[-16:-8] + checksum + data[-4:]


def seeds(name: str) -> list[bytes]:
    """Return valid inputs of a target, to start from."""
    golden = [path.read_bytes() for path in sorted(GOLDEN.rglob("*.lmz"))]
    images = [data for data in golden if data[5] & 3 == 1]
    if name == "decoder":
        return images
    if name == "container":
        indexes = []
        for data in golden:
            if data[5] == 2:
                offset = int.from_bytes(data[-16:-8], "little")
                kind = b"\1" if data[4] == 1 else b"\3"
                indexes.append(kind + zlib.decompress(data[offset:-16]))
        return [*(b"\0" + data for data in images), *indexes]
    if name == "metadata":
        phys = b"\0\0\x0e\xc3\0\0\x0e\xc3\1"
        blocks = b"PHYS\x09" + phys + b"PLTE\x06abcdefTRNS\x02\0\1BITS\1\4TEXT\x0ctEXt\4\0\0\0a\0bc"
        return [bytes([m, s]) + blocks for m in range(11) for s in range(len(WRITABLE_SUFFIXES))]
    if name == "model":
        model = MODEL.read_bytes()
        length = int.from_bytes(model[:8], "little")
        header = json.loads(model[8 : 8 + length])
        return [model, b"d" + header["__metadata__"]["network"].encode()]
    if name == "frames":
        skeletons = [
            b"s" + bytes([number]) + read_frames(data)[0].metadata["FRMS"][8:]
            for number, data in enumerate(_animations())
        ]
        return [*_animations(), *skeletons]
    return list(_make_pictures())


def _make_pictures() -> Iterator[bytes]:
    from PIL import Image

    state = np.random.default_rng(0)
    for mode in MODES.values():
        top = 1 << mode.bits
        samples: Samples = state.integers(0, top, (6, 7, mode.channels)).astype(mode.dtype)
        metadata = {"PLTE": bytes(768)} if mode.name == "P" else {}
        for suffix in WRITABLE_SUFFIXES:
            try:
                yield write_picture(Picture(samples, mode, metadata), suffix)[0]
            except LmzipError:
                continue
    file = io.BytesIO()
    frames = [Image.new("P", (6, 7), number) for number in range(3)]
    frames[0].save(file, "GIF", save_all=True, append_images=frames[1:])
    yield file.getvalue()
    file = io.BytesIO()
    Image.new("RGB", (8, 8), "red").save(file, "JPEG", comment=b"hello")
    yield file.getvalue()
