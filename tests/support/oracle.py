"""The files of a second .lmz codec, written from FORMAT.md alone; oracle_streams.py does the maths.

Image files and archives become nested lists of samples. Nothing of lmzip is imported; only WebP
chunks need help from outside (Pillow). Bad files fail an assertion: a test that meets one failed.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable, Sequence
from itertools import accumulate

from PIL import Image

from support.oracle_streams import Network, Planes, decode_stream, order_ranks

Samples = list[list[list[int]]]  # [row][column][channel]

MODES = {
    1: (1, 1, ()),
    2: (1, 8, ((0,),)),
    3: (2, 8, ((0,), (1,))),
    4: (3, 8, ((0, 1, 2),)),
    5: (4, 8, ((0, 1, 2), (3,))),
    6: (1, 8, ()),
    7: (4, 8, ((0, 1, 2), (3,))),
    8: (1, 16, ()),
    9: (2, 16, ()),
    10: (3, 16, ()),
    11: (4, 16, ()),
}  # mode: channels, bits of a sample, groups of channels


# ---- Fields --------------------------------------------------------------------------------------


class Reader:
    """A place in some bytes."""

    def __init__(self, data: bytes) -> None:
        self.data, self.place = data, 0

    def take(self, count: int) -> bytes:
        assert self.place + count <= len(self.data), "the data ends too early"
        self.place += count
        return self.data[self.place - count : self.place]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "little")

    def varint(self) -> int:
        value = 0
        for position in range(9):
            byte = self.number(1)
            value |= (byte & 127) << (7 * position)
            if byte < 128:
                return value
        raise AssertionError("a varint has more than nine bytes")

    def block(self) -> bytes:
        return self.take(self.varint())

    def at_end(self) -> bool:
        return self.place == len(self.data)


def read_order(reader: Reader) -> Callable[[int, int], list[int]]:
    """Read an order; gives a function from height and width to ranks."""
    family, variant = reader.number(1), reader.number(1)
    if family != 255:
        assert family <= 2
        assert variant <= 7
        return lambda height, width: order_ranks(family, variant, height, width)
    data = zlib.decompress(reader.block())
    indices = list(accumulate(struct.unpack(f"<{len(data) // 4}i", data)))

    def ranks_of(height: int, width: int) -> list[int]:
        assert sorted(indices) == list(range(height * width))
        ranks = [0] * len(indices)
        for rank, index in enumerate(indices):
            ranks[index] = rank
        return ranks

    return ranks_of


# ---- Classical chunks ----------------------------------------------------------------------------


def decode_raw(data: bytes, height: int, width: int, channels: int, bits: int) -> Planes:
    """Read samples row by row."""
    if bits == 1:
        stride = (width + 7) // 8
        assert len(data) == stride * height
        return [
            [
                data[r * stride + c // 8] >> (7 - c % 8) & 1
                for r in range(height)
                for c in range(width)
            ]
        ]
    count = height * width * channels
    samples = struct.unpack(f"<{count}{'B' if bits == 8 else 'H'}", data)
    return [list(samples[c::channels]) for c in range(channels)]


def decode_webp(data: bytes, height: int, width: int, channels: int, bits: int) -> Planes:
    """Rebuild the WebP file around a VP8L chunk and let Pillow read it."""
    chunk = b"VP8L" + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2)
    file = b"RIFF" + struct.pack("<I", 4 + len(chunk)) + b"WEBP" + chunk
    with Image.open(io.BytesIO(file)) as image:
        assert image.size == (width, height)
        pixels = list(image.convert("RGBA").tobytes())
    taken = {1: (0,), 2: (0, 3), 3: (0, 1, 2), 4: (0, 1, 2, 3)}[channels]
    return [[v // 255 if bits == 1 else v for v in pixels[c::4]] for c in taken]


def decode_png(data: bytes, height: int, width: int, channels: int, bits: int) -> Planes:
    """Inflate IDAT data and undo PNG's filters."""
    lines = zlib.decompress(data)
    stride, distance = (width * channels * bits + 7) // 8, max(1, channels * bits // 8)
    assert len(lines) == height * (stride + 1)
    above, rows = bytes(stride), []
    for start in range(0, len(lines), stride + 1):
        kind, line = lines[start], bytearray(lines[start + 1 : start + 1 + stride])
        for i in range(stride):
            a = line[i - distance] if i >= distance else 0
            b, c = above[i], above[i - distance] if i >= distance else 0
            nearest = min((a, b, c), key=lambda v, p=a + b - c: abs(p - v))  # type: ignore[misc]
            line[i] = line[i] + (0, a, b, (a + b) // 2, nearest)[kind] & 255
        above = bytes(line)
        rows.append(above)
    if bits == 16:  # PNG is big-endian
        rows = [bytes(row[i ^ 1] for i in range(stride)) for row in rows]
    return decode_raw(b"".join(rows), height, width, channels, bits)


def decode_deflate(data: bytes, height: int, width: int, channels: int, bits: int) -> Planes:
    """Inflate byte planes and undo the predictor."""
    predictor, content = data[0], zlib.decompress(data[1:])
    if bits == 1:
        assert predictor == 0
        return decode_raw(content, height, width, 1, 1)
    size, width_in_bytes = height * width, bits // 8
    assert len(content) == size * channels * width_in_bytes
    parts = [list(content[i : i + size]) for i in range(0, len(content), size)]
    planes = []
    for c in range(channels):
        plane = parts[c * width_in_bytes]
        if bits == 16:
            plane = [low | high << 8 for low, high in zip(plane, parts[2 * c + 1], strict=True)]
        for i in range(size):
            if predictor & 1 and i % width:
                plane[i] += plane[i - 1]
        for i in range(width, size):
            if predictor & 2:
                plane[i] += plane[i - width]
        planes.append([v & ((1 << bits) - 1) for v in plane])
    return planes


CLASSICAL = {0: decode_raw, 2: decode_webp, 3: decode_png, 4: decode_deflate}


# ---- Files ---------------------------------------------------------------------------------------


def to_samples(planes: Planes, height: int, width: int) -> Samples:
    """Arrange planes as rows of pixels."""
    pixels = [list(values) for values in zip(*planes, strict=True)]
    return [pixels[r * width : (r + 1) * width] for r in range(height)]


def pack_samples(image: Samples, bits: int) -> bytes:
    """Write samples as the checksum reads them."""
    return b"".join(
        v.to_bytes(2 if bits == 16 else 1, "little")
        for row in image
        for pixel in row
        for v in pixel
    )


def read_model_reference(reader: Reader, models: Sequence[Network]) -> Network:
    """Find the model that a file names."""
    name, fingerprint = reader.block().decode("utf-8"), reader.take(8)
    for model in models:
        if model.fingerprint[:8] == fingerprint:
            return model
    raise AssertionError(f"model {name} with fingerprint {fingerprint.hex()} is not at hand")


def decode_image(data: bytes, models: Sequence[Network] = ()) -> Samples:
    """Decode an image file."""
    reader = Reader(data)
    assert reader.take(4) == b"\x89LMZ"
    assert reader.number(1) == 1
    assert reader.number(1) == 1
    header = Reader(reader.block())
    assert zlib.crc32(data[: reader.place]) == reader.number(4)
    channels, bits, groups = MODES[header.number(1)]
    height, width, flags = header.varint(), header.varint(), header.number(1)
    assert flags in (0, 1)
    rows = columns = 1
    network, ranks_of = None, None
    if flags == 0:
        rows, columns = header.varint(), header.varint()
        network = read_model_reference(header, models)
        ranks_of = read_order(header)
        header.varint()
    header.block()
    assert header.at_end()
    chunk_groups = groups if flags == 0 else (tuple(range(channels)),)
    image: Samples = [[[0] * channels for _ in range(width)] for _ in range(height)]
    for i in range(rows):
        for j in range(columns):
            top, left = i * height // rows, j * width // columns
            tall, wide = (i + 1) * height // rows - top, (j + 1) * width // columns - left
            for group in chunk_groups:
                start = reader.place
                method, content = reader.number(1), reader.block()
                assert zlib.crc32(data[start : reader.place]) == reader.number(4)
                if method == 1:
                    assert network is not None
                    assert ranks_of is not None
                    ranks = ranks_of(tall, wide)
                    planes = decode_stream(content, network, ranks, tall, wide, len(group))[0]
                else:
                    planes = CLASSICAL[method](content, tall, wide, len(group), bits)
                for channel, plane in zip(group, planes, strict=True):
                    for place, value in enumerate(plane):
                        image[top + place // wide][left + place % wide][channel] = value
    assert zlib.crc32(pack_samples(image, bits)) == reader.number(4)
    assert reader.at_end()
    return image


def decode_archive(data: bytes, models: Sequence[Network] = ()) -> list[Samples]:
    """Decode all images of an archive."""
    assert data[:6] == b"\x89LMZ\x01\x02"
    assert data[-4:] == b"LMZ\x1a"
    offset, checksum = struct.unpack("<QI", data[-16:-4])
    assert zlib.crc32(data[offset:-16]) == checksum
    index = Reader(zlib.decompress(data[offset:-16]))
    known = [read_model_reference(index, models) for _ in range(index.varint())]
    place, images = 6, {}
    for _ in range(index.varint()):
        kind, size, crc = index.number(1), index.varint(), index.number(4)
        numbers = list(accumulate((index.varint() + 1 for _ in range(index.varint())), initial=-1))[
            1:
        ]
        chunk = data[place : place + size]
        assert zlib.crc32(chunk) == crc
        place += size
        if kind == 1:
            (number,) = numbers
            images[number] = decode_image(chunk, models)
            continue
        assert kind == 0
        channels, bits, groups = MODES[index.number(1)]
        height, width, network = index.varint(), index.varint(), known[index.varint()]
        ranks = read_order(index)(height, width)
        index.varint()
        content = Reader(chunk)
        found: list[Planes] = [[[] for _ in range(channels)] for _ in numbers]
        for group in groups:
            decoded = decode_stream(
                content.block(), network, ranks, height, width, len(group), len(numbers)
            )
            for planes, part in zip(found, decoded, strict=True):
                for channel, plane in zip(group, part, strict=True):
                    planes[channel] = plane
        assert content.at_end()
        batch = [to_samples(planes, height, width) for planes in found]
        assert zlib.crc32(b"".join(pack_samples(image, bits) for image in batch)) == index.number(4)
        images.update(zip(numbers, batch, strict=True))
    assert place == offset
    assert sorted(images) == list(range(len(images)))
    if index.number(1):
        for _ in images:
            index.block().decode("utf-8")
    for _ in range(index.varint()):
        index.varint()
        index.block()
    assert index.at_end()
    return [images[number] for number in range(len(images))]
