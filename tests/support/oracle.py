"""The files of a second .lmz codec, written from FORMAT.md alone; oracle_streams.py does the maths.

Image files and archives become nested lists of samples. Nothing of lmzip is imported; only WebP
chunks need help from outside (Pillow). Bad files fail an assertion: a test that meets one failed.
"""

from __future__ import annotations

import io
import struct
import sys
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from PIL import Image

from support.oracle_fields import Reader
from support.oracle_streams import Network, Planes, Scaling, decode_stream, order_ranks
from support.oracle_tunings import tune

Samples = list[list[list[int]]]  # [row][column][channel]

MODES = {
    1: (1, 1, ()),
    2: (1, 8, ((0,),)),
    3: (2, 8, ((0,), (1,))),
    4: (3, 8, ((0, 1, 2),)),
    5: (4, 8, ((0, 1, 2), (3,))),
    6: (1, 8, ()),
    7: (4, 8, ((0, 1, 2), (3,))),
    8: (1, 16, ((0,),)),
    9: (2, 16, ((0,), (1,))),
    10: (3, 16, ((0, 1, 2),)),
    11: (4, 16, ((0, 1, 2), (3,))),
}  # mode: channels, bits of a sample, groups of channels


# ---- Orders --------------------------------------------------------------------------------------


def plain_raster(height: int, width: int) -> list[int]:
    """Give the ranks of the order of files that do not name one."""
    return list(range(height * width))


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


# ---- Deep samples --------------------------------------------------------------------------------


def read_scalings(reader: Reader, mode: int) -> list[Scaling | None]:
    """Read the scaling of each group of channels: none, unless the mode has 16 bits."""
    _, bits, groups = MODES[mode]
    return [read_scaling(reader) if bits == 16 else None for _ in groups]


def read_scaling(reader: Reader) -> Scaling:
    """Read the scaling of a group."""
    flags, values = reader.number(1), ()
    depth, low, step, sharpness, flatness = 8 + flags % 16, 0, 1, 16, 0
    assert depth <= 16
    assert flags & 48 != 48
    if flags & 16:
        low, step = reader.varint(), reader.varint()
    if flags & 32:
        data = zlib.decompress(reader.block())
        values = tuple(accumulate(struct.unpack(f"<{len(data) // 2}H", data)))
        assert 0 < len(values) <= 1 << depth
        assert sorted(set(values)) == list(values)
    if flags & 128:
        sharpness, flatness = reader.number(1), reader.number(2)
    return Scaling(depth, low, step, values, bool(flags & 64), sharpness, flatness)


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
    """Inflate the bytes, as planes or as in raw, and undo the predictor."""
    predictor, content = data[0], zlib.decompress(data[1:])
    if bits == 1:
        assert predictor == 0
        return decode_raw(content, height, width, 1, 1)
    size, width_in_bytes = height * width, bits // 8
    assert len(content) == size * channels * width_in_bytes
    assert predictor in (0, 1, 2, 3, 16, 17, 18, 19)
    if predictor >= 16:
        step = channels * width_in_bytes
        parts = [list(content[i::step]) for i in range(step)]
    else:
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


def decode_jpeg2000(data: bytes, height: int, width: int, channels: int, bits: int) -> Planes:
    """Put the headers of FORMAT.md before the packets and let Pillow read the codestream."""
    levels = 0
    while levels < 5 and 2 << levels <= min(height, width):
        levels += 1
    sizes = (0, width, height, 0, 0, width, height, 0, 0)
    size = struct.pack(">HIIIIIIIIH", *sizes, channels) + bytes([bits - 1, 1, 1]) * channels
    style = bytes([0, 0, 0, 1, 1 if channels == 3 else 0, levels, 4, 4, 0, 1])
    bands = [bits] + [bits + 1, bits + 1, bits + 2] * levels
    steps = bytes([64] + [8 * band for band in bands])
    tile = struct.pack(">HIBB", 0, len(data) + 14, 0, 1)
    file = b"\xff\x4f"
    for marker, content in ((0x51, size), (0x52, style), (0x5C, steps), (0x90, tile)):
        file += struct.pack(">BBH", 255, marker, len(content) + 2) + content
    file += b"\xff\x93" + data + b"\xff\xd9"
    with Image.open(io.BytesIO(file)) as image:
        assert image.size == (width, height)
        pixels = image.tobytes()  # samples of 16 bits in the byte order of this machine
    assert bits == 8 or sys.byteorder == "little"
    return decode_raw(pixels, height, width, channels, bits)


CLASSICAL = {
    **{0: decode_raw, 2: decode_webp, 3: decode_png, 4: decode_deflate},
    5: decode_jpeg2000,
}


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


def find_model(models: Sequence[Network], fingerprint: bytes, what: str) -> Network:
    """Find the model that a file names."""
    for model in models:
        if model.fingerprint.startswith(fingerprint):
            return model
    raise AssertionError(f"model {what} with fingerprint {fingerprint.hex()} is not at hand")


def read_named_model(reader: Reader, models: Sequence[Network]) -> Network:
    """Read a name and eight bytes of a fingerprint."""
    name = reader.block().decode("utf-8")
    return find_model(models, reader.take(8), name)


def read_model(reader: Reader, models: Sequence[Network]) -> Network:
    """Read a released model's number and two bytes of its fingerprint, or the name of another."""
    number = reader.number(1)
    return (
        find_model(models, reader.take(2), str(number))
        if number
        else read_named_model(reader, models)
    )


def read_tuned(reader: Reader, model: Network, tunings: Sequence[bytes | None]) -> Network:
    """Read a tuning, or where it is in the archive or the model's bank, and apply it."""
    place = reader.number(1)
    assert place not in range(252, 255)
    _plain_size = reader.varint() if place == 251 else 0
    data = tunings[reader.varint()] if place == 255 else model.bank.get(place)
    data = reader.block() if place in (0, 251) else data
    assert data is not None
    tuned = tune(model, data)
    assert tuned.fingerprint[:4] == reader.take(4)
    return tuned


def trim(words: bytes) -> bytes:
    """Bring a stream of version 1, whole words, into the form of version 2."""
    assert len(words) % 4 == 0
    assert not words or any(words[-4:])
    return words.rstrip(b"\0")


@dataclass
class Header:
    """What the header of an image file says."""

    mode: int
    height: int
    width: int
    rows: int = 1
    columns: int = 1
    network: Network | None = None  # None: classical
    ranks_of: Callable[[int, int], list[int]] = plain_raster
    scalings: Sequence[Scaling | None] = ()


def read_header_1(reader: Reader, models: Sequence[Network]) -> Header:
    """Read the header of version 1, and its checksum."""
    header = Reader(reader.block())
    assert zlib.crc32(reader.data[: reader.place]) == reader.number(4)
    image = Header(header.number(1), header.varint(), header.varint())
    flags = header.number(1)
    assert flags in (0, 1)
    if flags == 0:
        image.rows, image.columns = header.varint(), header.varint()
        image.network = read_named_model(header, models)
        image.ranks_of = read_order(header)
        image.scalings = [None] * len(MODES[image.mode][2])
        header.varint()
    header.block()
    assert header.at_end()
    return image


def read_header_2(
    reader: Reader, flags: int, models: Sequence[Network], tunings: Sequence[bytes | None]
) -> Header:
    """Read the header of version 2."""
    classical, metadata, order, grid, tuned, unknown = (flags >> bit & 1 for bit in range(2, 8))
    assert not unknown
    image = Header(reader.number(1), reader.varint(), reader.varint())
    if classical:
        assert (order, grid, tuned) == (0, 0, 0)
    else:
        image.rows, image.columns = -(-image.height // 256), -(-image.width // 512)
        if grid:
            image.rows, image.columns = reader.varint(), reader.varint()
        image.network = read_model(reader, models)
        if tuned:
            image.network = read_tuned(reader, image.network, tunings)
        if order:
            image.ranks_of = read_order(reader)
        image.scalings = read_scalings(reader, image.mode)
    if metadata:
        reader.block()
    if not classical:
        reader.zigzag()
    return image


def decode_image(
    data: bytes, models: Sequence[Network] = (), tunings: Sequence[bytes | None] = ()
) -> Samples:
    """Decode an image file; `tunings` are those of the models of the archive around it."""
    reader = Reader(data)
    assert reader.take(4) == b"\x89LMZ"
    version, kind = reader.number(1), reader.number(1)
    assert version in (1, 2)
    if version == 1:
        assert kind == 1
        header = read_header_1(reader, models)
    else:
        assert kind & 3 == 1
        header = read_header_2(reader, kind, models, tunings)
    channels, bits, groups = MODES[header.mode]
    height, width, rows, columns = header.height, header.width, header.rows, header.columns
    chunk_groups = groups if header.network else (tuple(range(channels)),)
    sealed = version == 2 and rows * columns * len(chunk_groups) == 1
    if version == 2 and not sealed:
        assert zlib.crc32(data[: reader.place]) == reader.number(4)
    image: Samples = [[[0] * channels for _ in range(width)] for _ in range(height)]
    for i in range(rows):
        for j in range(columns):
            top, left = i * height // rows, j * width // columns
            tall, wide = (i + 1) * height // rows - top, (j + 1) * width // columns - left
            for number, group in enumerate(chunk_groups):
                place = reader.place
                method = reader.number(1)
                if sealed:
                    content = reader.take(len(data) - 4 - reader.place)
                else:
                    content = reader.block()
                    assert zlib.crc32(data[place : reader.place]) == reader.number(4)
                if method in (1, 6, 7):
                    assert header.network is not None
                    assert method == 1 or (version == 2 and bits == 8)
                    ranks = header.ranks_of(tall, wide)
                    stream = trim(content) if version == 1 else content
                    (planes,) = decode_stream(
                        stream,
                        header.network,
                        ranks,
                        tall,
                        wide,
                        len(group),
                        scaling=header.scalings[number],
                        method=method,
                    )
                else:
                    planes = CLASSICAL[method](content, tall, wide, len(group), bits)
                for channel, plane in zip(group, planes, strict=True):
                    for place, value in enumerate(plane):
                        image[top + place // wide][left + place % wide][channel] = value
    covered = pack_samples(image, bits) + (data[:-4] if sealed else b"")
    assert zlib.crc32(covered) == reader.number(4)
    assert reader.at_end()
    return image


def read_models(
    index: Reader, version: int, models: Sequence[Network]
) -> tuple[list[Network], list[bytes | None]]:
    """Read the list of models of an archive, and the bytes of their tunings."""
    known: list[Network] = []
    tunings: list[bytes | None] = []
    for _ in range(index.varint()):
        if version == 1:
            known.append(read_named_model(index, models))
            tunings.append(None)
            continue
        model, tuning = read_model(index, models), None
        tuned = index.number(1)
        assert tuned in (0, 1)
        if tuned:
            place = index.number(1)
            assert place <= 251
            _plain_size = index.varint() if place == 251 else 0
            tuning = index.block() if place in (0, 251) else model.bank[place]
            model = tune(model, tuning)
            assert model.fingerprint[:4] == index.take(4)
        known.append(model)
        tunings.append(tuning)
    return known, tunings


def read_metadata(block: bytes) -> dict[str, bytes]:
    """Read the tagged blocks of an image."""
    reader, found = Reader(zlib.decompress(block)), {}
    while not reader.at_end():
        tag = reader.take(4).decode("ascii")
        assert tag not in found
        found[tag] = reader.block()
    return found


def decode_archive(data: bytes, models: Sequence[Network] = ()) -> list[Samples]:
    """Decode all images of an archive."""
    return [samples for samples, _ in read_archive(data, models)]


def read_archive(
    data: bytes, models: Sequence[Network] = ()
) -> list[tuple[Samples, dict[str, bytes]]]:
    """Decode all images of an archive; give each with the metadata that the index has of it."""
    version = data[4]
    assert version in (1, 2)
    assert data[:6] == bytes([*b"\x89LMZ", version, 2])
    assert data[-4:] == b"LMZ\x1a"
    offset, checksum = struct.unpack("<QI", data[-16:-4])
    assert zlib.crc32(data[offset:-16]) == checksum
    index = Reader(zlib.decompress(data[offset:-16]))
    known, tunings = read_models(index, version, models)
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
            images[number] = decode_image(chunk, models, tunings)
            continue
        assert kind == 0
        mode = index.number(1)
        channels, bits, groups = MODES[mode]
        height, width, network = index.varint(), index.varint(), known[index.varint()]
        ranks = read_order(index)(height, width)
        scalings = read_scalings(index, mode)
        index.varint()
        content = Reader(chunk)
        found: list[Planes] = [[[] for _ in range(channels)] for _ in numbers]
        for group, scaling in zip(groups, scalings, strict=True):
            if version == 1:
                stream = trim(content.block())
            elif group is groups[-1]:
                stream = content.take(size - content.place)
            else:
                stream = content.block()
            decoded = decode_stream(
                stream, network, ranks, height, width, len(group), len(numbers), scaling
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
    metadata: dict[int, dict[str, bytes]] = {}
    for _ in range(index.varint()):
        number = index.varint()
        assert number not in metadata
        metadata[number] = read_metadata(index.block())
    assert index.at_end()
    assert metadata.keys() <= images.keys()
    return [(images[number], metadata.get(number, {})) for number in range(len(images))]
