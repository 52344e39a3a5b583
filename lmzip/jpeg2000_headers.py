"""The headers of JPEG 2000 codestreams, which follow from the size and the mode of a picture.

They are not stored (FORMAT.md, "Chunks"): a file of ours brings packets alone, and so nothing in
it can ask a decoder for more than the picture needs. One tile, one layer, code-blocks of 64x64, the
reversible wavelet: what OpenJPEG writes if it is not told otherwise.
"""

from __future__ import annotations

import struct

_START, _END, _DATA = b"\xff\x4f", b"\xff\xd9", b"\xff\x93"
_SIZE, _STYLE, _STEPS, _COMMENT, _TILE = (
    b"\xff\x51",
    b"\xff\x52",
    b"\xff\x5c",
    b"\xff\x64",
    b"\xff\x90",
)
_MOST_LEVELS = 5  # of the wavelet, where the sides are long enough for them
_GUARD_BITS = 2
_REVERSIBLE = 1


def join_codestream(packets: bytes, height: int, width: int, channels: int, bits: int) -> bytes:
    """Return the codestream of packets."""
    head = _make_head(height, width, channels, bits)
    # The length of the tile counts its own header and the mark before the packets.
    tile = _marker(_TILE, struct.pack(">HIBB", 0, 14 + len(packets), 0, 1))
    return head + tile + _DATA + packets + _END


def split_codestream(
    stream: bytes, height: int, width: int, channels: int, bits: int
) -> bytes | None:
    """Return the packets of a codestream, None if its headers are not those of `join_codestream`.

    Comments are left out.
    """
    packets = stream.partition(_DATA)[2].removesuffix(_END)
    expected = join_codestream(packets, height, width, channels, bits)
    return packets if _drop_comments(stream) == expected else None


def _make_head(height: int, width: int, channels: int, bits: int) -> bytes:
    levels = min(_MOST_LEVELS, min(height, width).bit_length() - 1)
    sides = struct.pack(">HIIIIIIIIH", 0, width, height, 0, 0, width, height, 0, 0, channels)
    colours = int(channels == 3)  # three channels become luma and differences
    style = struct.pack(">BBHBBBBBB", 0, 0, 1, colours, levels, 4, 4, 0, _REVERSIBLE)
    gains = [0, *[1, 1, 2] * levels]  # of the bands, in bits
    steps = bytes([_GUARD_BITS << 5, *((bits + gain) << 3 for gain in gains)])
    return (
        _START
        + _marker(_SIZE, sides + bytes([bits - 1, 1, 1]) * channels)
        + _marker(_STYLE, style)
        + _marker(_STEPS, steps)
    )


def _marker(name: bytes, content: bytes) -> bytes:
    return name + struct.pack(">H", 2 + len(content)) + content


def _drop_comments(stream: bytes) -> bytes:
    """Return a codestream without the comments of its main header."""
    position, kept = len(_START), [stream[: len(_START)]]
    while stream[position : position + 2] not in (_TILE, b""):
        end = position + 2 + int.from_bytes(stream[position + 2 : position + 4], "big")
        if stream[position : position + 2] != _COMMENT:
            kept.append(stream[position:end])
        position = end
    return b"".join([*kept, stream[position:]])
