"""Reading archives: random access to single images, or to many at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import overload

import numpy as np

from lmzip.container.archive_file import ArchiveChunk, Index, read_chunk, read_index, split_streams
from lmzip.container.binary import Reader
from lmzip.container.checksums import checksum_of_samples
from lmzip.container.image_file import read_image_header
from lmzip.container.image_reader import decompress_picture, salvage_picture
from lmzip.container.tuned_models import find_network
from lmzip.errors import DamagedError
from lmzip.limits import NETWORK_PIXEL, Limits, resolve_limits
from lmzip.native.backends import AUTO
from lmzip.parallel.decode_job import DecodeJob
from lmzip.parallel.workers import JOB_PIXELS, run_jobs
from lmzip.picture import Mode, Picture, Samples
from lmzip.storage.ranges import open_ranges

GROUP_SAMPLES = 1 << 25  # of the images that `Archive.restore` decodes together


class Archive(Sequence[Samples]):
    """The images of an archive, decoded when asked for: `archive[3]`, `archive[10:20]`.

    An index gives the samples (H, W, C) of one image, a slice a list of them. A file stays open
    until `close`, or until the end of a `with` statement. Of an archive that is given by an address
    (s3://...), only the index and the chunks of images that are asked for are fetched.
    """

    def __init__(
        self,
        source: str | Path | bytes,
        *,
        model: str | Path | None = None,
        threads: int = 0,
        limits: Limits | None = None,
    ) -> None:
        self._model, self._threads = model, threads
        self._limits = resolve_limits(limits)
        self._open = ExitStack()
        self._data = self._open.enter_context(open_ranges(source, self._limits))
        try:
            self._index: Index = read_index(self._data, self._limits)
        except BaseException:
            self.close()
            raise
        self._places = {
            number: (chunk, place)
            for chunk in self._index.chunks
            for place, number in enumerate(chunk.images)
        }

    @property
    def names(self) -> list[str] | None:
        """The images' names, if the archive has them."""
        return None if self._index.names is None else list(self._index.names)

    def __len__(self) -> int:
        return self._index.count

    @overload
    def __getitem__(self, key: int) -> Samples: ...

    @overload
    def __getitem__(self, key: slice) -> list[Samples]: ...

    def __getitem__(self, key: int | slice) -> Samples | list[Samples]:
        numbers = range(len(self))[key]  # raises IndexError where a list would
        if isinstance(numbers, int):
            return self.picture(numbers).samples
        return [picture.samples for picture in self.pictures(numbers)]

    def __iter__(self) -> Iterator[Samples]:
        """Decode small images many at a time, and large ones one by one."""
        run: list[int] = []
        for number in range(len(self)):
            small = self._places[number][0].batch is not None
            if run and (not small or len(run) == 1024):
                yield from (picture.samples for picture in self.pictures(run))
                run = []
            run.append(number)
            if not small:
                yield self[run.pop()]
        yield from (picture.samples for picture in self.pictures(run))

    def metadata(self, number: int) -> Mapping[str, bytes]:
        """Return what the index has of an image's metadata, without decoding the image."""
        return self._index.metadata.get(range(len(self))[number], {})

    def size(self, number: int) -> tuple[int, int]:
        """Return the height and width of an image, without decoding it."""
        chunk, _ = self._places[range(len(self))[number]]
        if chunk.batch is not None:
            return chunk.batch.height, chunk.batch.width
        data = read_chunk(self._data, chunk)
        header = read_image_header(Reader(data, limits=self._limits))
        return header.height, header.width

    def picture(self, number: int) -> Picture:
        """Return one image with its mode and metadata."""
        return self.pictures([range(len(self))[number]])[0]

    def pictures(self, numbers: Sequence[int]) -> list[Picture]:
        """Return several images; each chunk that holds any of them is decoded once."""
        wanted = dict.fromkeys(self._places[number][0] for number in numbers)
        decoded = self._decode_chunks(list(wanted))
        pictures = []
        for number in numbers:
            chunk, place = self._places[number]
            picture = decoded[chunk.offset][place]
            metadata = self._index.metadata.get(number, picture.metadata)
            pictures.append(Picture(picture.samples, picture.mode, metadata))
        return pictures

    def salvage(self, number: int) -> tuple[Picture, list[str]]:
        """Return what is whole of a damaged image, with zeros elsewhere, and what is lost.

        Raises DamagedError if nothing is: images of a batch share a stream, and their fate.
        """
        chunk, _ = self._places[range(len(self))[number]]
        if chunk.batch is not None:
            return self.picture(number), []
        data = bytes(self._data[chunk.offset : chunk.offset + chunk.size])
        picture, losses = salvage_picture(
            data,
            model=self._model,
            threads=self._threads,
            limits=self._limits,
            shared=self._index.models,
        )
        metadata = self._index.metadata.get(number, picture.metadata)
        return Picture(picture.samples, picture.mode, metadata), losses

    def restore(self, numbers: Sequence[int]) -> Iterator[tuple[int, Picture | DamagedError]]:
        """Decode images chunk by chunk, and give each with its number; damaged ones as errors.

        As many are decoded together as fit into memory. Each chunk is read once, and one that is
        damaged takes no other with it.
        """
        wanted: dict[ArchiveChunk, list[int]] = {}
        for number in numbers:
            wanted.setdefault(self._places[number][0], []).append(number)
        for chunks in _group_chunks(list(wanted)):
            try:
                yield from self._restore_chunks(chunks, wanted)
            except DamagedError as error:
                if len(chunks) == 1:
                    yield from ((number, error) for number in wanted[chunks[0]])
                    continue
                for chunk in chunks:
                    yield from self.restore(wanted[chunk])

    def _restore_chunks(
        self, chunks: list[ArchiveChunk], wanted: dict[ArchiveChunk, list[int]]
    ) -> list[tuple[int, Picture]]:
        numbers = [number for chunk in chunks for number in wanted[chunk]]
        return list(zip(numbers, self.pictures(numbers), strict=True))

    def _decode_chunks(self, chunks: list[ArchiveChunk]) -> dict[int, list[Picture]]:
        """Return the pictures of chunks by the chunk's offset."""
        decoded: dict[int, list[Picture]] = {}
        jobs, owners = [], []
        size = blocks = 0  # of the metadata of image files, each of which has its own limit
        for chunk in chunks:
            if chunk.batch is None:
                data = bytes(read_chunk(self._data, chunk))
                picture = decompress_picture(
                    data,
                    model=self._model,
                    threads=self._threads,
                    limits=self._limits,
                    shared=self._index.models,
                )
                blocks += len(picture.metadata)
                size += sum(map(len, picture.metadata.values()))
                self._limits.check_blocks(blocks, size)
                decoded[chunk.offset] = [picture] * len(chunk.images)
        for together in _share_jobs([chunk for chunk in chunks if chunk.batch]):
            for group, job in enumerate(self._make_jobs(together)):
                jobs.append(job)
                owners.append((group, together))
        planes: dict[int, list[Samples]] = {}
        for (group, together), images in zip(owners, run_jobs(jobs, self._threads), strict=True):
            batch, first = together[0].batch, 0
            if batch and batch.scalings:
                images = batch.scalings[group].restore(images)
            for chunk in together:
                last = first + len(chunk.images)
                planes.setdefault(chunk.offset, []).append(images[first:last])
                first = last
        for chunk in chunks:
            if chunk.batch:
                samples = np.concatenate(planes[chunk.offset], axis=3)
                if checksum_of_samples(samples) != chunk.batch.pixel_checksum:
                    raise DamagedError("checksum mismatch of the pixels (file is damaged)")
                decoded[chunk.offset] = _to_pictures(samples, chunk.batch.mode)
        return decoded

    def _make_jobs(self, chunks: list[ArchiveChunk]) -> list[DecodeJob]:
        """Return one job for each group of channels, for chunks with the same coding."""
        batch = chunks[0].batch
        assert batch is not None
        for chunk in chunks:
            pixels = batch.height * batch.width * len(chunk.images)
            self._limits.check_density(pixels * batch.mode.channels, chunk.size)
            self._limits.check_memory(pixels * NETWORK_PIXEL)
        model = find_network(batch.model, self._model)
        groups, version = batch.mode.groups, self._index.version
        parts = [
            split_streams(read_chunk(self._data, chunk), len(groups), version) for chunk in chunks
        ]
        sizes = tuple(len(chunk.images) for chunk in chunks)
        jobs = []
        for group, streams in enumerate(zip(*parts, strict=True)):
            shape = batch.height, batch.width, len(groups[group])
            precision = batch.scalings[group].precision if batch.scalings else None
            jobs.append(DecodeJob(model, AUTO, batch.order, shape, streams, sizes, precision))
        return jobs

    def close(self) -> None:
        self._open.close()

    def __enter__(self) -> Archive:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _to_pictures(samples: Samples, mode: Mode) -> list[Picture]:
    return [Picture(image, mode) for image in samples]


def _group_chunks(chunks: list[ArchiveChunk]) -> Iterator[list[ArchiveChunk]]:
    """Put batches together that fit into memory; images of their own files stay alone."""
    together: list[ArchiveChunk] = []
    samples = 0
    for chunk in chunks:
        batch = chunk.batch
        size = 0
        if batch is not None:
            size = len(chunk.images) * batch.height * batch.width * batch.mode.channels
        if together and (batch is None or samples + size > GROUP_SAMPLES):
            yield together
            together, samples = [], 0
        if batch is None:
            yield [chunk]
        else:
            together.append(chunk)
            samples += size
    if together:
        yield together


def _share_jobs(chunks: list[ArchiveChunk]) -> Iterator[list[ArchiveChunk]]:
    """Put chunks with the same coding together, as many as are worth computing at once."""
    alike: dict[object, list[ArchiveChunk]] = {}
    for chunk in chunks:
        batch = chunk.batch
        assert batch is not None
        key = (batch.mode, batch.height, batch.width, batch.model, batch.order, batch.scalings)
        alike.setdefault(key, []).append(chunk)
    for group in alike.values():
        together: list[ArchiveChunk] = []
        pixels = 0
        for chunk in group:
            assert chunk.batch is not None
            size = len(chunk.images) * chunk.batch.height * chunk.batch.width
            if together and pixels + size > JOB_PIXELS:
                yield together
                together, pixels = [], 0
            together.append(chunk)
            pixels += size
        yield together
