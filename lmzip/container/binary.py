"""Reading and writing the integers and checksums of the format (FORMAT.md, "Conventions").

All integers are little-endian. A varint holds seven bits a byte, least significant first; the top
bit of a byte says that more follow.
"""

from __future__ import annotations

import zlib

from lmzip.errors import DamagedError
from lmzip.limits import Limits, inflate, resolve_limits

MAX_VARINT_BYTES = 9  # 63 bits


class Writer:
    """Collects bytes."""

    def __init__(self) -> None:
        self.data = bytearray()

    def byte(self, value: int) -> None:
        self.data.append(value)

    def varint(self, value: int) -> None:
        while value >= 0x80:
            self.data.append(value & 0x7F | 0x80)
            value >>= 7
        self.data.append(value)

    def signed(self, value: int) -> None:
        """Write a varint of 0, -1, 1, -2, 2, ..."""
        self.varint(2 * value if value >= 0 else -2 * value - 1)

    def raw(self, value: bytes) -> None:
        self.data += value

    def block(self, value: bytes) -> None:
        """Write a varint length and the bytes."""
        self.varint(len(value))
        self.raw(value)

    def checksum(self, start: int = 0) -> None:
        """Write the CRC-32 of everything since `start`."""
        self.data += zlib.crc32(memoryview(self.data)[start:]).to_bytes(4, "little")


class Reader:
    """Reads bytes in sequence; raises DamagedError where they end too early.

    `limits` bound what the parts of a file may ask for.
    """

    def __init__(
        self, data: bytes | memoryview, position: int = 0, *, limits: Limits | None = None
    ) -> None:
        self.data = memoryview(data)
        self.position = position
        self.limits = resolve_limits(limits)

    def byte(self) -> int:
        return self.raw(1)[0]

    def varint(self) -> int:
        value = 0
        for index in range(MAX_VARINT_BYTES):
            byte = self.byte()
            value |= (byte & 0x7F) << (7 * index)
            if byte < 0x80:
                return value
        raise DamagedError(f"a number at byte {self.position} does not end")

    def signed(self) -> int:
        """Read a varint of 0, -1, 1, -2, 2, ..."""
        value = self.varint()
        return -(value + 1 >> 1) if value & 1 else value >> 1

    def raw(self, size: int) -> memoryview:
        end = self.position + size
        if end > len(self.data):
            raise DamagedError(f"the file ends at byte {len(self.data)}, {end} are needed")
        part = self.data[self.position : end]
        self.position = end
        return part

    def block(self) -> memoryview:
        """Read a varint length and the bytes."""
        return self.raw(self.varint())

    def deflated(self, most: int, what: str) -> bytes:
        """Read a block and inflate it unless it is empty, to no more than `most` + 1 bytes."""
        packed = self.block()
        try:
            return inflate(packed, most) if packed else b""
        except zlib.error as error:
            raise DamagedError(f"{what} cannot be inflated ({error})") from error

    def checksum(self, start: int, what: str) -> None:
        """Compare the CRC-32 of everything since `start` with the one that follows."""
        actual = zlib.crc32(self.data[start : self.position])
        if int.from_bytes(self.raw(4), "little") != actual:
            raise DamagedError(f"checksum mismatch in {what} (file is damaged)")
