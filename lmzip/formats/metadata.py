"""Metadata blocks: what travels with a picture, and what each four-letter tag contains.

The container stores the blocks verbatim. This is the only place that says what is in them; "BE" and
"LE" are big- and little-endian, "u4" an unsigned integer of four bytes.

Part of the picture (they say what the samples mean, and are never stripped):

    PLTE  mode P: the palette, 1 to 256 triples of R, G, B bytes
    TRNS  the content of PNG's tRNS: alpha bytes of the first palette entries (mode P), or one
          sample (grey) or three (RGB), each u2 BE, that mark transparent pixels; at the depth BITS
    BITS  u1: bits per sample of the original file if fewer than the mode's. Samples of mode L are
          scaled to 0..255 (2 bits by 85, 4 bits by 17), palette indices are not
    MAXV  u2 LE: the sample that means white in a PNM file, if not the mode's largest; the samples
          are those of the file, not scaled

Beside the picture (`strip` drops them):

    ICCP  an ICC profile
    EXIF  EXIF data: a TIFF structure that starts with II or MM, without the "Exif" mark of JPEG
    XMP_  an XMP packet
    GAMA, CHRM, SRGB, PHYS   the content of PNG's gAMA, cHRM, sRGB, pHYs (u4 BE pixels per unit
          across and down, then u1: 1 if the unit is the metre)
    TEXT  PNG's tEXt, zTXt and iTXt chunks in sequence: type (4 bytes), length (u4 LE), content
    PNGC  all other chunks of a PNG file that are not about animation, in the form of TEXT
    FORM  the ending of the original file's format, such as "bmp", if it is not the one that the
          picture would be restored to without it
    FRMS  this picture and those that follow are the frames of one file (`lmzip.formats.frames`)
    TIME  the file's modification and access time: two signed 8-byte LE integers, nanoseconds since
          1970-01-01 UTC
"""

from __future__ import annotations

import math
import os
import struct
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from fractions import Fraction

from lmzip.errors import DamagedError
from lmzip.limits import inflate
from lmzip.picture import Picture

ESSENTIAL = frozenset({"PLTE", "TRNS", "BITS", "MAXV"})
DESCRIPTIONS = {  # what users call the blocks
    "ICCP": "the colour profile",
    "EXIF": "EXIF data",
    "XMP_": "XMP data",
    "GAMA": "gamma",
    "CHRM": "chromaticities",
    "SRGB": "the sRGB intent",
    "PHYS": "the resolution",
    "TEXT": "texts",
    "PNGC": "further PNG chunks",
}

_CHUNK_OF_TAG = {
    "GAMA": b"gAMA",
    "CHRM": b"cHRM",
    "SRGB": b"sRGB",
    "PLTE": b"PLTE",
    "TRNS": b"tRNS",
    "PHYS": b"pHYs",
    "EXIF": b"eXIf",
}
_TAG_OF_CHUNK = {chunk: tag for tag, chunk in _CHUNK_OF_TAG.items()}
_TEXTS = (b"tEXt", b"zTXt", b"iTXt")
_ANIMATION = (b"acTL", b"fcTL", b"fdAT")
_XMP_KEYWORD = b"XML:com.adobe.xmp\0"
_EXIF_MARK = b"Exif\0\0"
_BEFORE_PALETTE = (b"sBIT", b"cICP", b"mDCV", b"cLLI")
_METRES_PER_INCH = 0.0254
_PROFILE_NAME = b"ICC profile\0\0"  # the second zero is the method: deflate
_LARGEST_BLOCK = 1 << 26  # what a compressed chunk may expand to


def check_blocks(picture: Picture) -> None:
    """Raise DamagedError unless the blocks that say what samples mean can do so."""
    metadata, name = picture.metadata, picture.mode.name
    full = (1 << picture.mode.bits) - 1
    allowed: dict[str, bool] = {}
    if (block := metadata.get("BITS")) is not None:
        allowed["BITS"] = block == bytes([picture.mode.bits]) or _has_bits(picture, block)
    if (block := metadata.get("MAXV")) is not None:
        allowed["MAXV"] = len(block) == 2 and 0 < int.from_bytes(block, "little") <= full
    if (block := metadata.get("PLTE")) is not None:
        allowed["PLTE"] = len(block) in range(3, 769, 3)
    if (block := metadata.get("TRNS")) is not None:
        lengths = {"P": range(257), "1": (2,), "L": (2,), "RGB": (6,), "CMYK": ()}
        allowed["TRNS"] = len(block) in lengths.get(name.removesuffix("16"), range(len(block) + 1))
    for tag, fits in allowed.items():
        if not fits:
            raise DamagedError(
                f"the metadata block {tag} of {len(metadata[tag])} bytes does not fit mode {name}"
            )


def _has_bits(picture: Picture, block: bytes) -> bool:
    """Whether all samples are what a PNG file of 1, 2 or 4 bits holds."""
    if picture.mode.name not in ("L", "P") or block not in (b"\1", b"\2", b"\4"):
        return False
    largest = (1 << block[0]) - 1
    if picture.mode.name == "P":
        return bool((picture.samples <= largest).all())
    return not (picture.samples % (255 // largest)).any()


def name_rest(size: int) -> tuple[str, ...]:
    """Return the name of what follows the end of an image, if anything does."""
    return (f"{size} byte{'s' if size > 1 else ''} after the end of the image",) if size > 0 else ()


def strip_metadata(picture: Picture) -> Picture:
    """Return the picture with only the metadata that its samples need to be understood."""
    kept = {tag: block for tag, block in picture.metadata.items() if tag in ESSENTIAL}
    return replace(picture, metadata=kept)


def metadata_from_chunks(chunks: Iterable[tuple[bytes, bytes]]) -> dict[str, bytes]:
    """Sort the chunks of a PNG file (without IHDR, IDAT and IEND) into blocks."""
    metadata: dict[str, bytes] = {}
    texts: list[tuple[bytes, bytes]] = []
    others: list[tuple[bytes, bytes]] = []
    for kind, content in chunks:
        if kind in _TAG_OF_CHUNK:
            metadata[_TAG_OF_CHUNK[kind]] = content
        elif kind == b"iCCP" and (profile := _read_profile(content)):
            metadata["ICCP"] = profile
        elif kind == b"iTXt" and (packet := _read_xmp(content)):
            metadata["XMP_"] = packet
        elif kind in _TEXTS:
            texts.append((kind, content))
        elif kind not in _ANIMATION:
            others.append((kind, content))
    if "EXIF" in metadata:
        metadata["EXIF"] = metadata["EXIF"].removeprefix(_EXIF_MARK)
    if texts:
        metadata["TEXT"] = join_chunks(texts)
    if others:
        metadata["PNGC"] = join_chunks(others)
    return metadata


def chunks_from_metadata(metadata: Mapping[str, bytes]) -> list[tuple[bytes, bytes]]:
    """Return the chunks of a PNG file in a sequence that the specification allows."""
    others = split_chunks(metadata.get("PNGC", b""))
    chunks = [chunk for chunk in others if chunk[0] in _BEFORE_PALETTE]
    if "ICCP" in metadata:
        chunks.append((b"iCCP", _PROFILE_NAME + zlib.compress(metadata["ICCP"])))
    for tag, kind in _CHUNK_OF_TAG.items():
        if tag in metadata:
            chunks.append((kind, metadata[tag]))
    if "XMP_" in metadata:  # no compression, no language, no translated keyword
        chunks.append((b"iTXt", _XMP_KEYWORD + b"\0\0\0\0" + metadata["XMP_"]))
    chunks += split_chunks(metadata.get("TEXT", b""))
    return chunks + [chunk for chunk in others if chunk[0] not in _BEFORE_PALETTE]


def join_chunks(chunks: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Return the block of TEXT or PNGC."""
    return b"".join(kind + struct.pack("<I", len(content)) + content for kind, content in chunks)


def split_chunks(block: bytes) -> list[tuple[bytes, bytes]]:
    """Read a block of TEXT or PNGC; raises DamagedError if that cannot be done."""
    chunks, position = [], 0
    while position < len(block):
        if position + 8 > len(block):
            raise DamagedError("metadata: a list of chunks is cut short")
        kind, length = struct.unpack_from("<4sI", block, position)
        position += 8
        if position + length > len(block):
            raise DamagedError("metadata: a list of chunks is cut short")
        if not (kind.isalpha() and kind.isascii() and kind[0] & 0x20):
            raise DamagedError(f"metadata: a chunk called {kind!r}")  # or it could be pixels
        chunks.append((kind, block[position : position + length]))
        position += length
    return chunks


def exif_block(data: bytes) -> bytes:
    """Return EXIF data without the mark that JPEG and Pillow put before it."""
    return data.removeprefix(_EXIF_MARK)


def text_block(keyword: str, text: bytes) -> bytes:
    """Return the block TEXT with one text."""
    return join_chunks([(b"tEXt", keyword.encode("latin-1") + b"\0" + text)])


def phys_from_dpi(across: float, down: float) -> bytes:
    """Return the block PHYS for dots per inch."""
    return struct.pack(">IIB", round(across / _METRES_PER_INCH), round(down / _METRES_PER_INCH), 1)


def shape_of_pixels(across: float, down: float) -> dict[str, bytes]:
    """Return the block PHYS for pixels per something unknown; none if they are not numbers."""
    if not all(0 < float(side) < math.inf for side in (across, down)):
        return {}
    sides = [Fraction(float(side)).limit_denominator(1000) for side in (across, down)]
    scale = math.lcm(*(side.denominator for side in sides))
    return {"PHYS": struct.pack(">IIB", *(min(int(s * scale), 0xFFFFFFFF) for s in sides), 0)}


def dpi_from_phys(block: bytes) -> tuple[float, float] | None:
    """Return dots per inch, or None if the block only gives the shape of a pixel."""
    if len(block) != 9 or block[8] != 1:
        return None
    across, down = struct.unpack(">II", block[:8])
    return across * _METRES_PER_INCH, down * _METRES_PER_INCH


def time_block(status: os.stat_result) -> bytes:
    """Return the block TIME of a file.

    Its time of access is left out, since reading a file must not change what it is compressed to:
    the block has the time of modification twice.
    """
    return struct.pack("<qq", status.st_mtime_ns, status.st_mtime_ns)


def file_times(metadata: Mapping[str, bytes]) -> tuple[int, int] | None:
    """Return (access, modification) in nanoseconds, as os.utime wants them, or None."""
    block = metadata.get("TIME", b"")
    if len(block) != 16:
        return None
    modified, accessed = struct.unpack("<qq", block)
    return accessed, modified


def _read_profile(content: bytes) -> bytes:
    """Unpack an iCCP chunk; returns nothing if it is damaged."""
    _, _, packed = content.partition(b"\0")
    return _inflate(packed[1:])


def _read_xmp(content: bytes) -> bytes:
    """Return the packet of an iTXt chunk if it holds XMP, or nothing."""
    if not content.startswith(_XMP_KEYWORD):
        return b""
    flags, text = content[len(_XMP_KEYWORD) :][:2], content[len(_XMP_KEYWORD) + 2 :]
    packet = text.split(b"\0", 2)[-1]  # after the language and the translated keyword
    return _inflate(packet) if flags[:1] == b"\1" else packet


def _inflate(packed: bytes) -> bytes:
    try:
        data = inflate(packed, _LARGEST_BLOCK)
    except zlib.error:
        return b""
    return data if len(data) <= _LARGEST_BLOCK else b""
