"""Banks: tunings that come with a model, one file for each model (FORMAT.md, "Banks").

A picture that looks like those that one of them was learnt from is coded with it. Its file has the
tuning's number in the bank in place of the tuning, so it costs next to nothing.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from lmzip.container.binary import Reader, Writer
from lmzip.container.model_reference import CHECK_BYTES, FINGERPRINT_BYTES
from lmzip.container.tuning_block import read_tuning
from lmzip.errors import LmzipError, ModelError
from lmzip.network.registry import Model
from lmzip.network.tuning import apply_tuning

SUFFIX = ".tunings"  # beside the model's file, and of the same name
LARGEST_NUMBER = 250
MAX_BANK_BYTES = 1 << 24
_MAGIC = b"LMZT\1"


@dataclass(frozen=True)
class BankEntry:
    """A tuning of a bank: its number in files, its name, its bytes, and what it must result in."""

    number: int
    name: str
    tuning: bytes
    check: bytes  # the first bytes of the tuned network's fingerprint


@lru_cache(maxsize=64)
def tune_model(model: Model, tuning: bytes) -> Model:
    """Return a model as the bytes of a tuning change it; raises FormatError or ModelError."""
    network = apply_tuning(model.network, read_tuning(tuning, model.network))
    return replace(
        model, network=network, fingerprint=network.fingerprint(), tuning=tuning, base=model
    )


@lru_cache(maxsize=64)
def tune_by_bank(model: Model, number: int) -> Model:
    """Return a model as the tuning of that number in its bank changes it; raises ModelError."""
    entry = next((entry for entry in read_bank(model) if entry.number == number), None)
    if entry is None:
        raise ModelError(f"model {model.name!r} has no tuning number {number}")
    tuned = tune_model(model, entry.tuning)
    if bytes.fromhex(tuned.fingerprint)[:CHECK_BYTES] != entry.check:
        raise ModelError(f"{_path_of(model)}: tuning {number} does not give the network it should")
    return replace(tuned, bank_number=number)


@lru_cache(maxsize=8)
def read_bank(model: Model) -> tuple[BankEntry, ...]:
    """Return the bank of a model, empty if it has none; raises ModelError if it is unusable."""
    path = _path_of(model)
    if not path.is_file():
        return ()
    try:
        if (size := path.stat().st_size) > MAX_BANK_BYTES:
            raise ModelError(f"{size} bytes, and a bank has up to {MAX_BANK_BYTES}")
        return unpack_bank(path.read_bytes(), model)
    except (LmzipError, OSError) as error:
        raise ModelError(f"{path}: {error}") from error


def pack_bank(entries: Sequence[BankEntry], model: Model) -> bytes:
    """Return the bytes of a bank for a model."""
    writer = Writer()
    writer.raw(_MAGIC)
    writer.raw(bytes.fromhex(model.fingerprint)[:FINGERPRINT_BYTES])
    writer.byte(len(entries))
    for entry in entries:
        writer.byte(entry.number)
        writer.block(entry.name.encode())
        writer.block(entry.tuning)
        writer.raw(entry.check)
    writer.raw(zlib.crc32(writer.data).to_bytes(4, "little"))
    return bytes(writer.data)


def unpack_bank(data: bytes, model: Model) -> tuple[BankEntry, ...]:
    """Return the entries of a bank; raises ModelError unless it is whole and the model's own."""
    reader = Reader(data)
    if bytes(reader.raw(len(_MAGIC))) != _MAGIC:
        raise ModelError("not a bank of tunings, or of a later release")
    if data[-4:] != zlib.crc32(data[:-4]).to_bytes(4, "little"):
        raise ModelError("the checksum of the bank does not match")
    if bytes(reader.raw(FINGERPRINT_BYTES)) != bytes.fromhex(model.fingerprint)[:FINGERPRINT_BYTES]:
        raise ModelError(f"a bank of another model than {model.name!r}")
    entries: list[BankEntry] = []
    for _ in range(reader.byte()):
        number, name = reader.byte(), str(reader.block(), "utf-8", "replace")
        entry = BankEntry(number, name, bytes(reader.block()), bytes(reader.raw(CHECK_BYTES)))
        if not (entries[-1].number if entries else 0) < number <= LARGEST_NUMBER:
            raise ModelError(f"tuning number {number}: numbers rise, from 1 to {LARGEST_NUMBER}")
        entries.append(entry)
    if reader.position != len(data) - 4:
        raise ModelError(f"{len(data) - 4 - reader.position} bytes follow the last tuning")
    return tuple(entries)


def _path_of(model: Model) -> Path:
    return model.path.with_suffix(SUFFIX)
