"""One codec over one data set: real bytes, seconds, peak memory, and whether all came back.

Every codec runs in processes of its own, so that none profits from what another has loaded, its
memory can be measured, and a crash affects no other codec. With several threads, as many processes
share the images; an archive is one process with as many workers. Each process first codes a small
crop, untimed, so that loading libraries and models does not count.

An image that a codec cannot code is a failure of the codec. Failures are listed in the result, and
a set with failures has no size, because it could not be compared with those of other codecs.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

import numpy as np

from lmzip import Picture, Progress, Samples
from lmzip.cli.bench.codecs import Codec, LmzipArchive, LmzipFiles, count_model_bits
from lmzip.cli.bench.data_sets import DataSet
from lmzip.cli.bench.memory import MemoryMeter
from lmzip.cli.bench.peers import CommandPeer, Peer

FILES, ARCHIVE = "files", "archive"
_WARM_UP = 32  # pixels of a side


@dataclass(frozen=True)
class Problem:
    """An image on which a codec failed or which it changed, and how."""

    image: str
    reason: str


@dataclass(frozen=True)
class Measurement:
    """What a codec did to a data set. Rates are raw bytes a second; sizes are per image.

    size: all bytes, None if the codec failed on an image; model_bits: those under lmzip's model;
    sizes: each image's bytes (None where it failed), or None for an archive; image_samples: how
    many samples each has.
    """

    codec: str
    form: str
    library: str
    threads: int
    images: int
    samples: int
    raw_size: int
    size: int | None
    model_bits: float | None
    encode_rate: float | None
    decode_rate: float | None
    peak_memory: int | None
    failures: tuple[Problem, ...] = ()
    mismatches: tuple[Problem, ...] = ()
    sizes: tuple[int | None, ...] | None = None
    image_samples: tuple[int, ...] = ()
    is_lmzip: bool = False

    @property
    def exact(self) -> bool:
        """Whether every image came back, and as it was."""
        return not self.failures and not self.mismatches

    @property
    def bpd(self) -> float | None:
        return None if self.size is None else 8 * self.size / self.samples

    @property
    def model_bpd(self) -> float | None:
        return None if self.model_bits is None else self.model_bits / self.samples

    @property
    def overhead(self) -> float | None:
        """What the file takes beyond the model's code length, as a share of the latter."""
        if self.bpd is None or not self.model_bpd:
            return None
        return self.bpd / self.model_bpd - 1


@dataclass(frozen=True)
class Coded:
    """One image, or all images of an archive, coded and restored."""

    numbers: tuple[int, ...]
    raw_size: int
    samples: int
    size: int | None = None
    model_bits: float | None = None
    encode_seconds: float = 0.0
    decode_seconds: float = 0.0
    failures: tuple[Problem, ...] = ()
    mismatches: tuple[Problem, ...] = ()


@dataclass(frozen=True)
class _Peak:
    """The last message of a process."""

    memory: int | None


def measure_codec(
    codec: Codec, data: DataSet, *, threads: int = 1, progress: Progress | None = None
) -> Measurement:
    """Code and restore all images of a data set."""
    processes = 1 if isinstance(codec, LmzipArchive) else min(threads, len(data))
    shares = [range(first, len(data), processes) for first in range(processes)]
    workers = 1 if processes > 1 else threads
    by_process, peaks = _run_processes(codec, data, shares, workers, progress)
    return summarise(codec, data, by_process, peaks, threads)


def summarise(
    codec: Codec,
    data: DataSet,
    by_process: Sequence[Sequence[Coded]],
    peaks: Sequence[int | None],
    threads: int,
) -> Measurement:
    """Put together what processes did to their shares of a data set, with up to `threads` cores."""
    coded = [part for parts in by_process for part in parts]
    failures = tuple(problem for part in coded for problem in part.failures)
    bits = [part.model_bits for part in coded]
    is_archive = isinstance(codec, LmzipArchive)
    by_image = [] if is_archive else sorted(coded, key=lambda part: part.numbers)
    return Measurement(
        codec=codec.name,
        form=ARCHIVE if is_archive else FILES,
        library=codec.library,
        threads=threads if is_archive else len(by_process),
        images=len(data),
        samples=sum(part.samples for part in coded),
        raw_size=sum(part.raw_size for part in coded),
        size=None if failures else sum(part.size or 0 for part in coded),
        model_bits=_add_model_bits(coded) if any(b is not None for b in bits) else None,
        encode_rate=None if failures else _add_rates(by_process, "encode_seconds"),
        decode_rate=None if failures else _add_rates(by_process, "decode_seconds"),
        peak_memory=sum(peak or 0 for peak in peaks) if any(peaks) else None,
        failures=failures,
        mismatches=tuple(problem for part in coded for problem in part.mismatches),
        sizes=None if is_archive else tuple(part.size for part in by_image),
        image_samples=tuple(part.samples for part in by_image),
        is_lmzip=isinstance(codec, LmzipArchive | LmzipFiles),
    )


def _add_model_bits(coded: Sequence[Coded]) -> float | None:
    """Add up bits under the model; what no network coded counts with its bytes."""
    if any(part.size is None for part in coded):
        return None
    return sum(
        8.0 * (part.size or 0) if part.model_bits is None else part.model_bits for part in coded
    )


def _add_rates(by_process: Sequence[Sequence[Coded]], field: str) -> float:
    """Return raw bytes a second: the sum of what each process reached while it was coding."""
    rate = 0.0
    for parts in by_process:
        seconds = sum(getattr(part, field) for part in parts)
        rate += sum(part.raw_size for part in parts) / max(seconds, 1e-9)
    return rate


def _run_processes(
    codec: Codec,
    data: DataSet,
    shares: Sequence[range],
    workers: int,
    progress: Progress | None,
) -> tuple[list[list[Coded]], list[int | None]]:
    """Let each process code its share; return what they did, and their peaks of memory."""
    context = multiprocessing.get_context("spawn")
    coded: list[list[Coded]] = [[] for _ in shares]
    peaks: list[int | None] = [None] * len(shares)
    processes: list[BaseProcess] = []
    waiting: dict[Connection, int] = {}
    done = 0.0
    try:
        for number, share in enumerate(shares):
            ours, theirs = context.Pipe(duplex=False)
            process: BaseProcess = context.Process(
                target=_code_share, args=(theirs, codec, data, share, workers), daemon=True
            )
            process.start()
            theirs.close()
            processes.append(process)
            waiting[ours] = number
        while waiting:
            for connection in wait(list(waiting)):
                assert isinstance(connection, Connection)
                number = waiting[connection]
                try:
                    message = connection.recv()
                except EOFError:
                    del waiting[connection]
                    processes[number].join()
                    missing = _find_missing(shares[number], coded[number])
                    if missing:
                        reason = _describe_end(processes[number].exitcode)
                        coded[number] += [_fail(data, image, reason) for image in missing]
                    continue
                if isinstance(message, _Peak):
                    peaks[number] = message.memory
                elif isinstance(message, Coded):
                    coded[number].append(message)
                    done = sum(len(part.numbers) for parts in coded for part in parts)
                else:  # how much of its share a process has done
                    done = message * len(shares[number])
                if progress:
                    progress(int(1000 * done), 1000 * len(data))
    finally:
        for process in processes:
            process.terminate()
            process.join()
    return coded, peaks


def _find_missing(share: range, coded: Sequence[Coded]) -> list[int]:
    known = {number for part in coded for number in part.numbers}
    return [number for number in share if number not in known]


def _describe_end(code: int | None) -> str:
    if code is not None and code < 0:
        with contextlib.suppress(ValueError):
            return f"its process was ended by {signal.Signals(-code).name}"
    return f"its process ended with code {code}"


def _fail(data: DataSet, number: int, reason: str) -> Coded:
    """Make the result of an image that a codec could not code."""
    samples = data.picture(number).samples
    problem = Problem(data.names[number], reason)
    return Coded((number,), samples.nbytes, samples.size, failures=(problem,))


def _code_share(
    connection: Connection, codec: Codec, data: DataSet, share: range, workers: int
) -> None:
    """Code some images and send the results; the body of a process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent gets it too, and ends this process
    has_children = isinstance(codec, CommandPeer) or workers > 1
    with MemoryMeter(children=has_children) as memory:
        if isinstance(codec, LmzipArchive):
            connection.send(code_archive(codec, data, workers, connection.send))
        else:
            for coded in code_pictures(codec, data, share):
                connection.send(coded)
    connection.send(_Peak(memory.peak))
    connection.close()


def code_pictures(codec: Peer, data: DataSet, numbers: Sequence[int]) -> Iterator[Coded]:
    """Code and restore some images, one by one, after a crop that does not count."""
    _warm_up(codec, data.picture(numbers[0]))
    for number in numbers:
        yield _code_picture(codec, data, number)


def _warm_up(codec: Peer, picture: Picture) -> None:
    """Code a crop, so that libraries and models are loaded."""
    crop = np.ascontiguousarray(picture.samples[:_WARM_UP, :_WARM_UP])
    with contextlib.suppress(Exception):  # it will fail again where it is noted
        codec.decode(codec.encode(Picture(crop, picture.mode)), picture.mode)


def _code_picture(codec: Peer, data: DataSet, number: int) -> Coded:
    picture = data.picture(number)
    samples = picture.samples
    try:
        began = time.perf_counter()
        coded = codec.encode(picture)
        encoded = time.perf_counter()
        restored = codec.decode(coded, picture.mode)
        decoded = time.perf_counter()
    except Exception as error:  # whatever a codec raises is its failure
        return _fail(data, number, describe_error(error))
    difference = describe_difference(samples, restored)
    mismatches = (Problem(data.names[number], difference),) if difference else ()
    return Coded(
        (number,),
        samples.nbytes,
        samples.size,
        len(coded),
        count_model_bits(coded) if isinstance(codec, LmzipFiles) else None,
        encoded - began,
        decoded - encoded,
        mismatches=mismatches,
    )


def code_archive(
    codec: LmzipArchive, data: DataSet, workers: int, tell: Callable[[float], None]
) -> Coded:
    pictures = list(data.pictures())
    numbers = tuple(range(len(pictures)))
    raw = sum(picture.samples.nbytes for picture in pictures)
    samples = sum(picture.samples.size for picture in pictures)
    try:
        list(codec.decode(codec.encode(pictures[:1], 1), 1))  # loads the model
        began = time.perf_counter()
        coded = codec.encode(pictures, workers, lambda done, total: tell(done / total / 2))
        encoded = time.perf_counter()
        restored = list(codec.decode(coded, workers))
        decoded = time.perf_counter()
    except Exception as error:  # whatever a codec raises is its failure
        reason = describe_error(error)
        failures = tuple(Problem(name, reason) for name in data.names)
        return Coded(numbers, raw, samples, failures=failures)
    differences = [
        describe_difference(picture.samples, image)
        for picture, image in zip(pictures, restored, strict=True)
    ]
    mismatches = [Problem(n, d) for n, d in zip(data.names, differences, strict=True) if d]
    bits = count_model_bits(coded)
    seconds = encoded - began, decoded - encoded
    return Coded(numbers, raw, samples, len(coded), bits, *seconds, mismatches=tuple(mismatches))


def describe_error(error: Exception) -> str:
    """Return one line about an exception."""
    return " ".join(str(error).split()) or type(error).__name__


def describe_difference(expected: Samples, restored: Samples) -> str:
    """Return how restored samples differ from the expected ones; nothing if they do not."""
    if restored.shape != expected.shape or restored.dtype != expected.dtype:
        return (
            f"came back as {restored.dtype} {restored.shape}, not {expected.dtype} {expected.shape}"
        )
    different = (restored != expected).any(axis=2)
    count = int(different.sum())
    if not count:
        return ""
    row, column = np.argwhere(different)[0].tolist()
    return f"{count} pixel{'s' if count > 1 else ''} changed, the first at {row},{column}"
