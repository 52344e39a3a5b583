"""How a file names its network: a model, and perhaps a tuning of it (FORMAT.md, "Models").

Describing a file needs no network: `lmzip.container.tuned_models` finds the one that is meant.
"""

from __future__ import annotations

from dataclasses import dataclass

from lmzip.container.binary import Reader, Writer
from lmzip.errors import FormatError
from lmzip.network.released import RELEASED

FINGERPRINT_BYTES = 8  # how much of a model's fingerprint is stored in a file
SHORT_BYTES = 2  # likewise if the model has a number
CHECK_BYTES = 4  # of the fingerprint of a tuned network
_NAMED = 0  # in place of a released model's number
_OWN, _OF_ARCHIVE = 0, 255  # where a tuning is; 1 to 250 are for tunings that come with a model


@dataclass(frozen=True)
class StoredTuning:
    """A tuning: its bytes, or which model of the archive around the file has them; and a check."""

    content: bytes | int
    check: bytes  # the first bytes of the tuned network's fingerprint

    @property
    def size(self) -> int:
        """How many bytes of the file are the tuning's own."""
        return len(self.content) if isinstance(self.content, bytes) else 0


@dataclass(frozen=True)
class ModelReference:
    """How a file names its network; `number` is that of a released model, or 0."""

    name: str
    fingerprint: bytes  # the first bytes of it
    number: int = _NAMED
    tuning: StoredTuning | None = None


def write_model(writer: Writer, model: ModelReference) -> None:
    """Write which model it is; a tuning is up to the caller."""
    writer.byte(model.number)
    if model.number == _NAMED:
        writer.block(model.name.encode())
    writer.raw(model.fingerprint)


def read_model(reader: Reader) -> ModelReference:
    number = reader.byte()
    if number == _NAMED:
        return read_named_model(reader)
    name = RELEASED.get(number, f"number {number}")
    return ModelReference(name, bytes(reader.raw(SHORT_BYTES)), number)


def read_named_model(reader: Reader) -> ModelReference:
    """Read a name and the first bytes of a fingerprint, as all files of version 1 have them."""
    try:
        name = str(reader.block(), "utf-8")
    except UnicodeDecodeError as error:
        raise FormatError("the model's name is not UTF-8") from error
    return ModelReference(name, bytes(reader.raw(FINGERPRINT_BYTES)))


def write_tuning_field(writer: Writer, tuning: StoredTuning) -> None:
    if isinstance(tuning.content, bytes):
        writer.byte(_OWN)
        writer.block(tuning.content)
    else:
        writer.byte(_OF_ARCHIVE)
        writer.varint(tuning.content)
    writer.raw(tuning.check)


def read_tuning_field(reader: Reader) -> StoredTuning:
    place = reader.byte()
    if place not in (_OWN, _OF_ARCHIVE):
        raise FormatError(f"the file needs tuning {place} of its model, which has none")
    content = bytes(reader.block()) if place == _OWN else reader.varint()
    return StoredTuning(content, bytes(reader.raw(CHECK_BYTES)))
