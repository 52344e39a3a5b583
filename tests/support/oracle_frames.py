"""Files of several frames, put together a second time, from FORMAT.md ("Frames") alone.

Pixels go into skeletons as simply as each format allows: GIF codes that never grow, PNG rows
without a filter, TIFF pages in one strip. Only WebP needs help from outside (Pillow). Bad files
fail an assertion: a test that meets one failed.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence

from PIL import Image

Samples = list[list[list[int]]]  # [row][column][channel]
Metadata = Mapping[str, bytes]
Frame = tuple[Samples, Metadata]


def restore_files(frames: Sequence[Frame]) -> list[bytes]:
    """Return the files whose frames are in an archive; pictures by themselves are passed over."""
    files, number = [], 0
    while number < len(frames):
        block = frames[number][1].get("FRMS")
        count = int.from_bytes(block[4:8], "little") if block else 1
        assert 0 < count <= len(frames) - number
        if block:
            together = frames[number : number + count]
            images = iter([samples for samples, _ in together])
            kind, skeleton = block[:4], block[8:]
            if kind == b"TIFF":
                assert not skeleton
                files.append(write_tiff(together))
            else:
                fill = {b"GIF_": fill_gif, b"PNG_": fill_png, b"WEBP": fill_webp}[kind]
                files.append(fill(skeleton, images))
            assert kind == b"TIFF" or next(images, None) is None
        number += count
    return files


def check_size(image: Samples, width: int, height: int) -> Samples:
    assert (len(image[0]), len(image)) == (width, height)
    return image


# ---- GIF -----------------------------------------------------------------------------------------


def fill_gif(skeleton: bytes, images: Iterator[Samples]) -> bytes:
    """Put images after their descriptors and palettes."""

    def palette_at(flags: int) -> int:
        return 6 << (skeleton[flags] & 7) if skeleton[flags] & 128 else 0

    assert skeleton[:6] in (b"GIF87a", b"GIF89a")
    place = 13 + palette_at(10)
    whole = bytearray(skeleton[:place])
    while skeleton[place] != 0x3B:
        start = place
        if skeleton[place] == 0x2C:
            assert not skeleton[place + 9] & 64  # not interlaced
            size = struct.unpack_from("<HH", skeleton, place + 5)
            place += 10 + palette_at(place + 9)
            whole += skeleton[start:place] + write_codes(check_size(next(images), *size))
        elif skeleton[place] == 0x21:
            place += 2
            while skeleton[place]:
                place += 1 + skeleton[place]
            place += 1
            whole += skeleton[start:place]
        else:
            assert skeleton[place] == 0
            place += 1
            whole.append(0)
    return bytes(whole) + skeleton[place:]


def write_codes(image: Samples) -> bytes:
    """Write indices as codes of nine bits; the table is cleared before they would need ten."""
    indices = [pixel[0] for row in image for pixel in row]
    codes = []
    for first in range(0, len(indices), 200):
        codes += [256, *indices[first : first + 200]]
    bits = sum(code << 9 * place for place, code in enumerate([*codes, 257]))
    data = bits.to_bytes(-(-9 * (len(codes) + 1) // 8), "little")
    blocks = [data[first : first + 255] for first in range(0, len(data), 255)]
    return b"\x08" + b"".join(bytes([len(block)]) + block for block in blocks) + b"\0"


# ---- PNG -----------------------------------------------------------------------------------------


def fill_png(skeleton: bytes, images: Iterator[Samples]) -> bytes:
    """Put images into the chunks that are empty but for a number."""
    assert skeleton[:8] == b"\x89PNG\r\n\x1a\n"
    whole, place, kind, size, number = bytearray(skeleton[:8]), 8, b"", (0, 0), 0
    while kind != b"IEND":
        (length,) = struct.unpack_from(">I", skeleton, place)
        kind, content = skeleton[place + 4 : place + 8], skeleton[place + 8 : place + 8 + length]
        place += 12 + length
        if kind in (b"fcTL", b"fdAT"):
            assert int.from_bytes(content[:4], "big") == number
            number += 1
        if kind == b"IHDR":
            assert content[8] == 8  # what this writer can do
            assert content[12] == 0  # not interlaced
            size = screen = struct.unpack_from(">II", content)
        elif kind == b"fcTL":
            size = struct.unpack_from(">II", content, 4)
        elif kind in (b"IDAT", b"fdAT"):
            assert length == (4 if kind == b"fdAT" else 0)
            image = check_size(next(images), *(size if kind == b"fdAT" else screen))
            rows = (bytes([0, *(v for pixel in row for v in pixel)]) for row in image)
            content += zlib.compress(b"".join(rows))
        whole += struct.pack(">I", len(content)) + kind + content
        whole += struct.pack(">I", zlib.crc32(kind + content))
    return bytes(whole) + skeleton[place:]


# ---- WebP ----------------------------------------------------------------------------------------


def split_riff(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Give the chunks of a sequence: type and content."""
    place = 0
    while place < len(data):
        size = int.from_bytes(data[place + 4 : place + 8], "little")
        yield data[place : place + 4], data[place + 8 : place + 8 + size]
        place += 8 + size + size % 2


def write_riff(kind: bytes, content: bytes) -> bytes:
    return kind + struct.pack("<I", len(content)) + content + bytes(len(content) % 2)


def fill_webp(skeleton: bytes, images: Iterator[Samples]) -> bytes:
    """Put images before what is left in the frames."""
    end = 8 + int.from_bytes(skeleton[4:8], "little")
    assert skeleton[:4] + skeleton[8:12] == b"RIFFWEBP"
    body = b"WEBP"
    for kind, content in split_riff(skeleton[12:end]):
        assert kind not in (b"ALPH", b"VP8 ", b"VP8L")
        if kind == b"ANMF":
            width, height = (1 + int.from_bytes(content[at : at + 3], "little") for at in (6, 9))
            pixels = write_vp8l(check_size(next(images), width, height))
            content = content[:16] + pixels + content[16:]
        body += write_riff(kind, content)
    return b"RIFF" + struct.pack("<I", len(body)) + body + skeleton[end:]


def write_vp8l(image: Samples) -> bytes:
    """Let Pillow code an image without loss, and take its chunk."""
    data = bytes(v for row in image for pixel in row for v in pixel)
    mode = {3: "RGB", 4: "RGBA"}[len(image[0][0])]
    file = io.BytesIO()
    Image.frombytes(mode, (len(image[0]), len(image)), data).save(
        file, "WEBP", lossless=True, exact=True
    )
    found = dict(split_riff(file.getvalue()[12:]))
    return write_riff(b"VP8L", found[b"VP8L"])


# ---- TIFF ----------------------------------------------------------------------------------------


def write_tiff(frames: Sequence[Frame]) -> bytes:
    """Write pages of grey or RGB samples of 8 bits, each with the tags of its EXIF data."""
    whole = bytearray(b"II*\0" + bytes(4))
    link = 4  # where the place of the next directory is written
    for image, metadata in frames:
        channels = len(image[0][0])
        tags = dict(read_exif(metadata["EXIF"]))
        depths = whole_place(whole, struct.pack(f"<{channels}H", *[8] * channels))
        strip = whole_place(whole, bytes(v for row in image for pixel in row for v in pixel))
        layout = {
            256: len(image[0]), 257: len(image), 259: 1, 262: {1: 1, 3: 2}[channels], 273: strip,
            277: channels, 278: len(image), 279: len(image) * len(image[0]) * channels,
        }  # fmt: skip
        tags |= {tag: (4, 1, struct.pack("<I", value)) for tag, value in layout.items()}
        tags[258] = (3, channels, struct.pack("<I", 8 if channels == 1 else depths))
        entries = b""
        for tag, (kind, count, value) in sorted(tags.items()):
            if len(value) > 4:
                value = struct.pack("<I", whole_place(whole, value))
            entries += struct.pack("<HHI", tag, kind, count) + value.ljust(4, b"\0")
        place = whole_place(whole, struct.pack("<H", len(tags)) + entries + bytes(4))
        whole[link : link + 4] = struct.pack("<I", place)
        link = len(whole) - 4
    return bytes(whole)


def whole_place(whole: bytearray, content: bytes) -> int:
    """Append content at an even place, and return the place."""
    whole += bytes(len(whole) % 2)
    place = len(whole)
    whole += content
    return place


def read_exif(data: bytes) -> Iterator[tuple[int, tuple[int, int, bytes]]]:
    """Give the tags of a little-endian TIFF structure: type, count and bytes of the value."""
    assert data[:4] == b"II*\0"
    (place,) = struct.unpack_from("<I", data, 4)
    (count,) = struct.unpack_from("<H", data, place)
    for at in range(place + 2, place + 2 + 12 * count, 12):
        tag, kind, values = struct.unpack_from("<HHI", data, at)
        size = values * {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 7: 1}[kind]
        start = at + 8 if size <= 4 else struct.unpack_from("<I", data, at + 8)[0]
        value = data[start : start + size]
        if tag in (34665, 34853):  # a directory by itself: this writer can do without empty ones
            assert data[int.from_bytes(value, "little") :][:2] == bytes(2)
            continue
        yield tag, (kind, values, value)
