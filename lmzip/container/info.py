"""What a file says about itself, read without decoding pixels or loading a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from lmzip.classical import ADAPTING, METHOD_NAMES
from lmzip.container.archive_file import PRELUDE_BYTES, Index, read_chunk, read_index
from lmzip.container.binary import Reader
from lmzip.container.image_file import read_chunks, read_closing_checksum, read_image_header
from lmzip.container.model_reference import ModelReference, OfBank
from lmzip.container.shared_fields import ARCHIVE, read_prelude
from lmzip.cost import cost_of_bytes, to_bits
from lmzip.limits import Limits, resolve_limits
from lmzip.storage.ranges import Ranges, open_ranges

_T = TypeVar("_T")


@dataclass(frozen=True)
class Info:
    """The description of an image file or an archive.

    `bpd` is the bits per sample of the whole file, metadata included; `model_bpd` is that of its
    pixels under the mixture itself, or None if no network was used. Where the images of an archive
    differ, height, width, mode, model or order is None, and method is "mixed".
    """

    is_archive: bool
    count: int
    height: int | None
    width: int | None
    mode: str | None
    method: str
    model: str | None
    fingerprint: str | None
    order: str | None
    bpd: float
    model_bpd: float | None
    tiles: tuple[int, int]
    metadata: Mapping[str, int]  # the length of each block
    size: int  # bytes of the file
    samples: int
    version: int
    tuning: int | None = None  # bytes of what the network learnt from the images
    plain_size: int | None = None  # bytes that the file would have without that, if it says so
    bank_tuning: int | None = None  # the number of the tuning of the model's bank that is used
    adaptive: bool = False  # whether a network learns from the image while it codes it


@dataclass(frozen=True)
class ImageInfo:
    """One image of an archive."""

    number: int
    name: str | None
    height: int
    width: int
    mode: str
    method: str
    metadata: Mapping[str, int]  # the length of each block


@dataclass(frozen=True)
class _Part:
    """The share of one image or one batch."""

    count: int
    height: int
    width: int
    mode: str
    method: str
    model: ModelReference | None
    order: str | None
    cost: int | None
    samples: int
    size: int
    metadata: Mapping[str, int]
    adaptive: bool = False


def is_archive(source: bytes | str | Path) -> bool:
    """Whether a file is an archive; raises FormatError if it is not an .lmz file at all."""
    with open_ranges(source, resolve_limits(None)) as data:
        return read_prelude(Reader(data[:PRELUDE_BYTES])).kind == ARCHIVE


def read_info(source: bytes | str | Path, *, limits: Limits | None = None) -> Info:
    """Describe a file given by its bytes, its path or its address."""
    limits = resolve_limits(limits)
    with open_ranges(source, limits) as data:
        return _describe(data, limits)


def _describe(data: Ranges, limits: Limits) -> Info:
    version, kind, _ = read_prelude(Reader(data[:PRELUDE_BYTES], limits=limits))
    if kind == ARCHIVE:
        index = read_index(data, limits)
        parts, models = _describe_chunks(data, index, limits), list(index.models)
        tiles, metadata = (1, 1), _count_metadata(index)
    else:
        part, tiles, metadata = _describe_image(data[:], limits)
        parts, models = [part], [part.model] if part.model else []
    samples, cost = sum(part.samples for part in parts), _total_cost(parts)
    model = _common([(p.model.name, p.model.fingerprint) for p in parts if p.model])
    return Info(
        is_archive=kind == ARCHIVE,
        count=sum(part.count for part in parts),
        height=_common([part.height for part in parts]),
        width=_common([part.width for part in parts]),
        mode=_common([part.mode for part in parts]),
        method=_common([part.method for part in parts]) or "mixed",
        model=model[0] if model else None,
        fingerprint=model[1].hex() if model else None,
        order=_common([part.order for part in parts if part.order]),
        bpd=8 * len(data) / max(1, samples),
        model_bpd=None if cost is None else to_bits(cost) / samples,
        tiles=tiles,
        metadata=metadata,
        size=len(data),
        samples=samples,
        version=version,
        tuning=_count_tuning(models),
        plain_size=max((m.tuning.plain_size for m in models if m.tuning), default=0) or None,
        bank_tuning=_find_bank_tuning(parts),
        adaptive=any(part.adaptive for part in parts),
    )


def list_images(source: bytes | str | Path, *, limits: Limits | None = None) -> list[ImageInfo]:
    """Describe each image of an archive, in sequence, without decoding any."""
    limits = resolve_limits(limits)
    with open_ranges(source, limits) as data:
        index = read_index(data, limits)
        parts = _describe_chunks(data, index, limits)
    entries: dict[int, ImageInfo] = {}
    for chunk, part in zip(index.chunks, parts, strict=True):
        for number in chunk.images:
            blocks = index.metadata.get(number, {})
            lengths = {tag: len(block) for tag, block in blocks.items()} or part.metadata
            name = index.names[number] if index.names else None
            entries[number] = ImageInfo(
                number, name, part.height, part.width, part.mode, part.method, lengths
            )
    return [entries[number] for number in sorted(entries)]


def _describe_image(
    data: memoryview, limits: Limits
) -> tuple[_Part, tuple[int, int], dict[str, int]]:
    reader = Reader(data, limits=limits)
    header = read_image_header(reader)
    numbers = {chunk.method for chunk in read_chunks(reader, header)}
    methods = {METHOD_NAMES.get(number, "unknown") for number in numbers}
    read_closing_checksum(reader)
    coding = header.coding if "network" in methods else None
    part = _Part(
        count=1,
        height=header.height,
        width=header.width,
        mode=header.mode.name,
        method=methods.pop() if len(methods) == 1 else "mixed",
        model=coding.model if coding else None,
        order=str(coding.order) if coding else None,
        cost=coding.cost if coding else None,
        samples=header.samples,
        size=len(data),
        metadata={tag: len(block) for tag, block in header.metadata.items()},
        adaptive=not numbers.isdisjoint(ADAPTING),
    )
    return part, header.grid, dict(part.metadata)


def _describe_chunks(data: Ranges, index: Index, limits: Limits) -> list[_Part]:
    parts = []
    blocks = 0
    for chunk in index.chunks:
        batch, count = chunk.batch, len(chunk.images)
        if batch is None:
            part = _describe_image(read_chunk(data, chunk), limits)[0]
            blocks += len(part.metadata)  # of which the lengths are kept
            limits.check_blocks(blocks)
            parts.append(part)
            continue
        parts.append(
            _Part(
                count=count,
                height=batch.height,
                width=batch.width,
                mode=batch.mode.name,
                method="network",
                model=batch.model,
                order=str(batch.order),
                cost=batch.cost,
                samples=count * batch.height * batch.width * batch.mode.channels,
                size=chunk.size,
                metadata={},
            )
        )
    return parts


def _count_metadata(index: Index) -> dict[str, int]:
    lengths: dict[str, int] = {}
    for blocks in index.metadata.values():
        for tag, block in blocks.items():
            lengths[tag] = lengths.get(tag, 0) + len(block)
    return lengths


def _count_tuning(models: list[ModelReference]) -> int | None:
    """Return how many bytes the tunings of some models take, or None if there are none."""
    tunings = [model.tuning.content for model in models if model.tuning]
    own = [content for content in tunings if isinstance(content, bytes)]
    return sum(map(len, own)) if own else None


def _find_bank_tuning(parts: list[_Part]) -> int | None:
    """Return the number of the tuning of a bank that all parts share, if they do."""
    tunings = [part.model.tuning for part in parts if part.model]
    contents = [tuning.content if tuning else None for tuning in tunings]
    common = _common(contents)
    return common.number if isinstance(common, OfBank) else None


def _total_cost(parts: list[_Part]) -> int | None:
    """Add up the costs; parts that no network coded count with their bytes."""
    if all(part.cost is None for part in parts):
        return None
    return sum(cost_of_bytes(p.size) if p.cost is None else p.cost for p in parts)


def _common(values: list[_T]) -> _T | None:
    return values[0] if values and all(value == values[0] for value in values) else None
