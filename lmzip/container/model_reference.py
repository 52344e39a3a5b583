"""How a file names its network: a model, and perhaps a tuning of it (FORMAT.md, "Models").

Describing a file needs no network: `lmzip.container.tuned_models` finds the one that is meant.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from lmzip.container.binary import Reader, Writer
from lmzip.errors import FormatError
from lmzip.network.released import RELEASED

FINGERPRINT_BYTES = 8  # how much of a model's fingerprint is stored in a file
SHORT_BYTES = 2  # likewise if the model has a number
CHECK_BYTES = 4  # of the fingerprint of a tuned network
_NAMED = 0  # in place of a released model's number
_OWN, _LEARNT, _OF_ARCHIVE = 0, 251, 255  # where a tuning is; 1 to 250: in the model's bank
_LARGEST_NUMBER = 250


class OfBank(NamedTuple):
    """The number of a tuning in the bank that comes with the model."""

    number: int


@dataclass(frozen=True)
class StoredTuning:
    """A tuning and a check of it.

    content: its bytes, or where they are: in the model's bank, or at which model of the archive
    around the file
    plain_size: what the file would take without it, or 0 if that is not known
    """

    content: bytes | int | OfBank
    check: bytes  # the first bytes of the tuned network's fingerprint
    plain_size: int = 0


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
        writer.byte(_LEARNT if tuning.plain_size else _OWN)
        if tuning.plain_size:
            writer.varint(tuning.plain_size)
        writer.block(tuning.content)
    elif isinstance(tuning.content, OfBank):
        writer.byte(tuning.content.number)
    else:
        writer.byte(_OF_ARCHIVE)
        writer.varint(tuning.content)
    writer.raw(tuning.check)


def read_tuning_field(reader: Reader) -> StoredTuning:
    place = reader.byte()
    content: bytes | int | OfBank
    plain_size = reader.varint() if place == _LEARNT else 0
    if place in (_OWN, _LEARNT):
        content = bytes(reader.block())
    elif place == _OF_ARCHIVE:
        content = reader.varint()
    elif place <= _LARGEST_NUMBER:
        content = OfBank(place)
    else:
        raise FormatError(f"an unknown kind of tuning, {place}")
    return StoredTuning(content, bytes(reader.raw(CHECK_BYTES)), plain_size)
