"""What BMP and QOI files hold beside the pixels that Pillow reads, so that nothing is lost unnamed.

Some of it has no meaning by the letter of the format, such as the fourth byte of a BMP's pixels,
where some programs keep alpha all the same.
"""

from __future__ import annotations

import struct

from lmzip.formats.metadata import name_rest

_FILE_HEADER = 14  # bytes of a BMP file before the header that describes the picture
_V5 = 124  # bytes of the last version of that header, which may announce a profile
_PROFILES = (b"DEBM", b"KNIL")  # "MBED" and "LINK", little-endian: in the file, or in another
_PLAIN, _MASKED = 0, 3  # kinds of pixels; for the latter, masks say where the colours are
_COLOURS = 0xFFFFFF  # where they are otherwise
_QOI_END = bytes(7) + b"\1"


def name_bmp_losses(data: bytes) -> tuple[str, ...]:
    """Return what a BMP file that Pillow has read holds beside the picture."""
    header = data[: _FILE_HEADER + _V5].ljust(_FILE_HEADER + _V5, b"\0")
    start, size = struct.unpack_from("<II", header, 10)
    if size < 40:  # of OS/2: nothing but pixels and a palette
        return ()
    width, height, _, bits, compression, length = struct.unpack_from("<iiHHII", header, 18)
    losses: list[str] = []
    end = start + length if length else len(data)
    if compression in (_PLAIN, _MASKED):
        end = start + (width * bits + 31) // 32 * 4 * abs(height)
        if bits == 32 and any(any(data[start + i : end : 4]) for i in _find_unused(header, size)):
            losses.append("the fourth byte of its pixels (alpha, for some programs)")
    if size >= _V5 and header[_FILE_HEADER + 56 : _FILE_HEADER + 60] in _PROFILES:
        place, length = struct.unpack_from("<II", header, _FILE_HEADER + 112)
        losses.append("the colour profile")
        end = max(end, _FILE_HEADER + place + length)
    return (*losses, *name_rest(len(data) - end))


def _find_unused(header: bytes, size: int) -> list[int]:
    """Return which of the four bytes of a pixel no colour is in."""
    used = _COLOURS
    if header[30] == _MASKED:
        red, green, blue, alpha = struct.unpack_from("<4I", header, _FILE_HEADER + 40)
        used = red | green | blue | (alpha if size >= 56 else 0)
    return [place for place in range(4) if not used >> 8 * place & 0xFF]


def name_qoi_losses(data: bytes) -> tuple[str, ...]:
    """Return what a QOI file holds beside the picture."""
    losses = ("that its colours are linear",) if data[13:14] == b"\1" else ()
    end = data.find(_QOI_END)
    return (*losses, *name_rest(len(data) - end - len(_QOI_END) if end >= 0 else 0))
