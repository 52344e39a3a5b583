"""The file of many images: chunks, then an index, then the position of the index.

FORMAT.md, "Archives", describes every byte. A *batch* is a chunk of images of one shape, coded
together in one stream for each group of channels; every other chunk is a complete image file.
The index says which images a chunk holds, so an image is found and decoded without the others.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from lmzip.container import version_1
from lmzip.container.binary import Reader, Writer
from lmzip.container.model_reference import (
    ModelReference,
    read_model,
    read_named_model,
    read_tuning_field,
    write_model,
    write_tuning_field,
)
from lmzip.container.scaling import Scaling, read_scalings, write_scalings
from lmzip.container.shared_fields import (
    ARCHIVE,
    VERSION,
    read_metadata,
    read_order,
    read_prelude,
    read_size,
    write_metadata,
    write_order,
    write_prelude,
)
from lmzip.container.tiles import MAX_TILE_PIXELS
from lmzip.cost import from_excess, to_excess
from lmzip.errors import DamagedError, FormatError
from lmzip.limits import Limits, inflate, resolve_limits
from lmzip.order.orders import Order
from lmzip.picture import MODE_NUMBERS, Mode
from lmzip.storage.ranges import Ranges

END_MAGIC = b"LMZ\x1a"
FOOTER_BYTES = 16  # index offset (8), CRC-32 of the index (4), end magic (4)
PRELUDE_BYTES = 6  # magic, version, kind
_BATCH, _FILE = 0, 1


@dataclass(frozen=True)
class Batch:
    """How the images of a batch are coded; cost is in units of 2^-16 bit.

    scalings: one for each group of channels, if samples are deep
    """

    mode: Mode
    height: int
    width: int
    model: ModelReference
    order: Order
    cost: int
    pixel_checksum: int
    scalings: tuple[Scaling, ...] = ()


@dataclass(frozen=True, eq=False)
class ArchiveChunk:
    """The place of a chunk in the file, the numbers of its images, and for a batch its coding.

    A chunk equals itself alone: as a key it must not cost the time of looking at all its images.
    """

    offset: int
    size: int
    checksum: int
    images: tuple[int, ...]
    batch: Batch | None


@dataclass(frozen=True)
class Index:
    """What an archive holds. Names and metadata are per image; either may be absent.

    models: those whose tunings its image files share, and those of its batches
    """

    chunks: tuple[ArchiveChunk, ...]
    names: tuple[str, ...] | None
    metadata: Mapping[int, Mapping[str, bytes]]
    models: tuple[ModelReference, ...] = ()
    version: int = VERSION

    @cached_property
    def count(self) -> int:
        return sum(len(chunk.images) for chunk in self.chunks)


def start_archive() -> Writer:
    """Return a writer to which chunks can be appended."""
    writer = Writer()
    write_prelude(writer, ARCHIVE)
    return writer


def append_chunk(
    writer: Writer, data: bytes, images: Sequence[int], batch: Batch | None
) -> ArchiveChunk:
    """Append a chunk's bytes and return its entry for the index."""
    offset = len(writer.data)
    writer.raw(data)
    return ArchiveChunk(offset, len(data), zlib.crc32(data), tuple(images), batch)


def finish_archive(writer: Writer, index: Index) -> bytes:
    """Append index and footer, and return the file."""
    offset = len(writer.data)
    packed = zlib.compress(_pack_index(index), 9)
    writer.raw(packed)
    writer.raw(offset.to_bytes(8, "little"))
    writer.raw(zlib.crc32(packed).to_bytes(4, "little"))
    writer.raw(END_MAGIC)
    return bytes(writer.data)


def read_index(data: Ranges, limits: Limits | None = None) -> Index:
    """Read the index of an archive, and nothing else of it.

    Raises FormatError, DamagedError or LimitError.
    """
    limits = resolve_limits(limits)
    prelude = read_prelude(Reader(data[:PRELUDE_BYTES], limits=limits))
    if prelude.kind != ARCHIVE:
        raise FormatError("this is a single image, not an archive")
    footer = data[-FOOTER_BYTES:]
    if len(data) < FOOTER_BYTES + 6 or bytes(footer[12:]) != END_MAGIC:
        raise DamagedError("the end of the archive is missing (file is damaged)")
    offset = int.from_bytes(footer[:8], "little")
    packed = data[offset:-FOOTER_BYTES]
    if zlib.crc32(packed) != int.from_bytes(footer[8:12], "little"):
        raise DamagedError("checksum mismatch in the index (file is damaged)")
    try:
        unpacked = inflate(packed, limits.metadata)
    except zlib.error as error:
        raise DamagedError(f"the index cannot be inflated ({error})") from error
    limits.check_metadata(len(unpacked))
    index = _unpack_index(Reader(unpacked, limits=limits), prelude.version)
    if (end := PRELUDE_BYTES + sum(chunk.size for chunk in index.chunks)) != offset:
        raise DamagedError(f"the chunks end at byte {end}, the index starts at {offset}")
    return index


def read_chunk(data: Ranges, chunk: ArchiveChunk) -> memoryview:
    """Return the bytes of a chunk, checked."""
    part = data[chunk.offset : chunk.offset + chunk.size]
    if zlib.crc32(part) != chunk.checksum:
        raise DamagedError(f"checksum mismatch at byte {chunk.offset} (file is damaged)")
    return part


def join_streams(streams: Sequence[bytes]) -> bytes:
    """Return the bytes of a batch: a stream for each group of channels, the last without length."""
    writer = Writer()
    for stream in streams[:-1]:
        writer.block(stream)
    writer.raw(streams[-1])
    return bytes(writer.data)


def split_streams(data: memoryview, count: int, version: int) -> list[bytes]:
    """Return the streams of a batch with so many groups of channels; raises DamagedError."""
    reader = Reader(data)
    if version > 1:
        streams = [bytes(reader.block()) for _ in range(count - 1)]
        return [*streams, bytes(data[reader.position :])]
    streams = [version_1.read_stream(bytes(reader.block())) for _ in range(count)]
    if reader.position != len(data):
        raise DamagedError(f"{len(data) - reader.position} bytes follow the streams of a batch")
    return streams


def _pack_index(index: Index) -> bytes:
    writer = Writer()
    batches = [chunk.batch for chunk in index.chunks if chunk.batch]
    models = list(dict.fromkeys([*index.models, *(batch.model for batch in batches)]))
    writer.varint(len(models))
    for model in models:
        _pack_model(writer, model)
    writer.varint(len(index.chunks))
    for chunk in index.chunks:
        _pack_chunk(writer, chunk, models)
    writer.byte(index.names is not None)
    for name in index.names or ():
        writer.block(name.encode())
    writer.varint(len(index.metadata))
    for number in sorted(index.metadata):
        writer.varint(number)
        # Not compressed here: the whole index is, and images often share a profile.
        write_metadata(writer, index.metadata[number], level=0)
    return bytes(writer.data)


def _unpack_index(reader: Reader, version: int) -> Index:
    unpack_model = read_named_model if version == 1 else _unpack_model
    models = [unpack_model(reader) for _ in range(_read_count(reader))]
    chunks, offset, count, listed = [], PRELUDE_BYTES, 0, 0
    for _ in range(_read_count(reader)):
        chunks.append(_unpack_chunk(reader, offset, models, version))
        offset += chunks[-1].size
        count += len(chunks[-1].images)
        reader.limits.check_images(count)
        # Lists of values are deflated within what is deflated.
        listed += sum(scaling.memory for scaling in _scalings(chunks[-1]))
        reader.limits.check_memory(listed)
    images = sorted(number for chunk in chunks for number in chunk.images)
    if images != list(range(len(images))):
        raise DamagedError("the index does not list every image once")
    names = None
    if reader.byte():
        try:
            names = tuple(str(reader.block(), "utf-8") for _ in images)
        except UnicodeDecodeError as error:
            raise DamagedError("a name in the index is not UTF-8") from error
    metadata = {}
    size = blocks = 0  # of all images together; what is deflated is deflated once more
    for _ in range(_read_count(reader)):
        number = reader.varint()
        if number >= count or number in metadata:
            raise DamagedError(f"metadata of image {number}, and there are {count} images")
        metadata[number] = read_metadata(reader)
        size += sum(map(len, metadata[number].values()))
        blocks += 1 + len(metadata[number])  # an image takes about as much as a block
        reader.limits.check_metadata(size)
        reader.limits.check_blocks(blocks, size)
    if reader.position != len(reader.data):
        raise DamagedError(f"{len(reader.data) - reader.position} bytes follow the index")
    return Index(tuple(chunks), names, metadata, tuple(models), version)


def _scalings(chunk: ArchiveChunk) -> tuple[Scaling, ...]:
    return chunk.batch.scalings if chunk.batch else ()


def _pack_model(writer: Writer, model: ModelReference) -> None:
    write_model(writer, model)
    writer.byte(model.tuning is not None)
    if model.tuning is not None:
        write_tuning_field(writer, model.tuning)


def _unpack_model(reader: Reader) -> ModelReference:
    model, tuned = read_model(reader), reader.byte()
    if tuned > 1:
        raise FormatError(f"unknown kind of model {tuned} in the index")
    if not tuned:
        return model
    tuning = read_tuning_field(reader)
    if isinstance(tuning.content, int):
        raise FormatError("an archive whose tuning is in another archive")
    return replace(model, tuning=tuning)


def _read_count(reader: Reader) -> int:
    """Read how many things of an index follow: no more than an archive may have images."""
    count = reader.varint()
    reader.limits.check_images(count)
    return count


def _pack_chunk(writer: Writer, chunk: ArchiveChunk, models: list[ModelReference]) -> None:
    writer.byte(_BATCH if chunk.batch else _FILE)
    writer.varint(chunk.size)
    writer.raw(chunk.checksum.to_bytes(4, "little"))
    writer.varint(len(chunk.images))
    previous = -1
    for number in chunk.images:  # ascending: the gaps are small
        writer.varint(number - previous - 1)
        previous = number
    if chunk.batch:
        batch = chunk.batch
        writer.byte(batch.mode.number)
        writer.varint(batch.height)
        writer.varint(batch.width)
        writer.varint(models.index(batch.model))
        write_order(writer, batch.order)
        write_scalings(writer, batch.scalings)
        writer.signed(to_excess(batch.cost, chunk.size))
        writer.raw(batch.pixel_checksum.to_bytes(4, "little"))


def _unpack_chunk(
    reader: Reader, offset: int, models: list[ModelReference], version: int
) -> ArchiveChunk:
    kind, size = reader.byte(), reader.varint()
    if kind not in (_BATCH, _FILE):
        raise FormatError(f"unknown kind of chunk {kind}")
    checksum = int.from_bytes(reader.raw(4), "little")
    images, previous = [], -1
    for _ in range(_read_count(reader)):
        previous += reader.varint() + 1
        images.append(previous)
    if not images or (kind == _FILE and len(images) > 1):
        raise DamagedError(f"a chunk of {len(images)} images at byte {offset}")
    if kind == _FILE:
        return ArchiveChunk(offset, size, checksum, tuple(images), None)
    mode, (height, width), model = reader.byte(), read_size(reader), reader.varint()
    if mode not in MODE_NUMBERS or not MODE_NUMBERS[mode].groups or model >= len(models):
        raise FormatError(f"unknown image mode {mode} or model {model} in the index")
    if version == 1 and MODE_NUMBERS[mode].deep:
        raise FormatError(f"a batch of mode {MODE_NUMBERS[mode].name} in version 1")
    if height * width > MAX_TILE_PIXELS:
        raise FormatError(f"a batch of images of {width}x{height} pixels")
    reader.limits.check_pixels(height, width, len(images))
    order = read_order(reader, height * width)
    scalings = read_scalings(reader, MODE_NUMBERS[mode])
    cost = reader.varint() if version == 1 else from_excess(reader.signed(), size)
    checksum_of_pixels = int.from_bytes(reader.raw(4), "little")
    batch = Batch(
        MODE_NUMBERS[mode], height, width, models[model], order, cost, checksum_of_pixels, scalings
    )
    return ArchiveChunk(offset, size, checksum, tuple(images), batch)
