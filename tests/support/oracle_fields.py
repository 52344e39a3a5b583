"""The fields of a second .lmz codec (FORMAT.md, "Conventions")."""

from __future__ import annotations


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

    def zigzag(self) -> int:
        value = self.varint()
        return -(value + 1) // 2 if value % 2 else value // 2

    def block(self) -> bytes:
        return self.take(self.varint())

    def at_end(self) -> bool:
        return self.place == len(self.data)
