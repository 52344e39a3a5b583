"""From image files to .lmz files: what each becomes, the proof that it comes back, totals."""

from __future__ import annotations

import time
from pathlib import Path

from lmzip import (
    Archive,
    DamagedError,
    FormatError,
    Info,
    Limits,
    Options,
    Picture,
    Progress,
    VersionError,
    compress_picture,
    decompress_picture,
    is_archive,
    pack_archive,
    read_info,
)
from lmzip.cli.console import Report, VerificationError, fit_name, format_size
from lmzip.cli.files import STANDARD, OutputError, Source, Targets
from lmzip.cli.originals import Original, OriginalReader
from lmzip.formats import file_times
from lmzip.storage import to_path

SUFFIX = ".lmz"
_NAME_WIDTH = 18


class Compression:
    """The settings that all files of a command share, and their totals."""

    def __init__(
        self,
        options: Options,
        verify: bool,
        strip: bool,
        keep: bool,
        skip_existing: bool,
        limits: Limits,
        report: Report,
    ) -> None:
        self.options, self.verify, self.keep = options, verify, keep
        self.skip_existing, self.limits, self.report = skip_existing, limits, report
        self.originals = OriginalReader(keep, strip, limits, report)
        self.began = time.monotonic()
        self.raw = self.size = self.samples = self.count = 0
        self.model_bits = 0.0

    def compress(self, source: Source, targets: Targets) -> None:
        """Compress one file to its target."""
        began = time.monotonic()
        target = targets.of(source, SUFFIX)
        exists = self.skip_existing and not targets.to_stdout and target.is_file()
        if not exists:
            targets.check(target, source)
        read = self.originals.read(source, remember_format=True)
        if exists:
            self._skip(source, target, read, targets)
            return
        self.report.note(f"{source.name}: {read.describe()}")
        with self.report.progress(source.name) as progress:
            data = self._encode(read, progress)
        if self.verify:
            with self.report.progress(f"verify {source.name}") as progress:
                self._verify(data, read.pictures, progress)
        targets.write(target, source, data, file_times(read.pictures[0].metadata))
        info = read_info(data, limits=self.limits)
        self._describe(source.name, target, read.samples, info, time.monotonic() - began)
        larger = len(data) > read.size
        if larger:
            self.report.warn(
                source.name, f"{target} has {len(data)} bytes, the input only {read.size}"
            )
        if not self.keep:
            self._remove(source, target, read, targets, larger)

    def _encode(self, read: Original, progress: Progress | None) -> bytes:
        """Return the image file of a picture, or the archive of several frames."""
        if not read.has_frames:
            return compress_picture(read.pictures[0], self.options, progress)
        frames = ((None, picture) for picture in read.pictures)
        return pack_archive(frames, self.options, progress, gather_metadata=True)

    def _verify(
        self,
        data: bytes,
        pictures: list[Picture],
        progress: Progress | None = None,
        compare_times: bool = True,
    ) -> None:
        """Raise VerificationError unless a file holds these pictures."""
        if is_archive(data):
            self._verify_archive(data, pictures, compare_times)
            return
        decoded = decompress_picture(
            data,
            model=self._own_model(),
            threads=self.options.threads,
            progress=progress,
            limits=self.limits,
        )
        for picture in pictures:
            _compare(decoded, picture, compare_times)

    def _skip(self, source: Source, target: Path, read: Original, targets: Targets) -> None:
        """Pass over a file whose output is there; raises OutputError if that is another's.

        What cannot be read for want of memory, of a model or of a newer lmzip may be this image.
        """
        targets.check_input(target, source)
        existing = Source(target, Path(target.name)).read(self.limits)
        try:
            self._verify(existing, read.pictures, compare_times=False)
        except VersionError:
            raise
        except FormatError:
            raise OutputError(
                f"{target} exists and is not this image", "-f overwrites it"
            ) from None
        self.report.note(f"{source.name}: {target} is there already")
        targets.written[target] = source.name
        if not self.keep:
            self._remove(source, target, read, targets, len(existing) > read.size)

    def pack(self, sources: list[Source], targets: Targets) -> None:
        """Pack all files that can be read into one archive."""
        assert targets.output is not None or targets.to_stdout
        target = to_path(targets.output or STANDARD)
        name = str(target)
        pictures: list[tuple[str, Picture]] = []
        has_frames = False
        used: dict[str, Source] = {}
        done: list[tuple[Source, Original]] = []
        if not targets.to_stdout:
            targets.check_target(target)
        for source in sources:
            with self.report.file(source.name):
                inside = "stdin" if source.is_stdin else source.relative.as_posix()
                if not targets.to_stdout:
                    targets.check_input(target, source)
                _check_names([inside], used)
                if not _is_utf8(inside):
                    raise OutputError("names in an archive must be UTF-8, and this one is not")
                read = self.originals.read(source)
                names = _name_frames(inside, len(read.pictures))
                _check_names(names, used)
                pictures += zip(names, read.pictures, strict=True)
                has_frames |= read.has_frames
                used.update(dict.fromkeys(names, source))
                done.append((source, read))
        if not pictures:
            return
        with self.report.progress(name) as progress:
            data = pack_archive(pictures, self.options, progress, gather_metadata=has_frames)
        if self.verify:
            self._verify_archive(data, [picture for _, picture in pictures])
        targets.write(target, Source.named(STANDARD), data)
        total = sum(picture.samples.nbytes for _, picture in pictures)
        self._describe(
            name, target, total, read_info(data, limits=self.limits), time.monotonic() - self.began
        )
        inputs = sum(read.size for _, read in done)
        larger = len(data) > inputs
        if larger:
            self.report.warn(name, f"it has {len(data)} bytes, the inputs only {inputs}")
        if larger and not self.keep:
            self.report.warn(name, "no input deleted: together they are smaller than the output")
        elif not self.keep:
            for source, read in done:
                self._remove(source, target, read, targets, larger)

    def _remove(
        self, source: Source, target: Path, read: Original, targets: Targets, larger: bool
    ) -> None:
        """Delete an input, if all of it is in the output, and that is not larger."""
        if read.losses:
            self.report.warn(source.name, "not deleted: not all of it is in the output")
        elif larger:
            self.report.warn(source.name, "not deleted: it is smaller than the output")
        else:
            targets.remove_input(source, target, read.version)

    def _verify_archive(
        self, data: bytes, pictures: list[Picture], compare_times: bool = True
    ) -> None:
        with Archive(
            data, model=self._own_model(), threads=self.options.threads, limits=self.limits
        ) as archive:
            if len(archive) != len(pictures):
                raise VerificationError(
                    f"verification failed: {len(archive)} images of {len(pictures)}"
                )
            for number, decoded in archive.restore(range(len(archive))):
                if isinstance(decoded, DamagedError):
                    raise decoded
                _compare(decoded, pictures[number], compare_times)

    def print_total(self) -> dict[str, float | int | None]:
        """Print the totals of a batch; return them for `--json`."""
        seconds = time.monotonic() - self.began
        bpd = 8 * self.size / self.samples if self.samples else None
        model_bpd = self.model_bits / self.samples if self.samples else None
        if self.count > 1 and bpd is not None:
            name = fit_name(f"total of {self.count}", _NAME_WIDTH)
            numbers = _format_numbers(self.raw, self.size, bpd, f"model {model_bpd:.3f}", seconds)
            self.report.line(f"{name} {numbers}")
        return {
            "count": self.count,
            "raw_bytes": self.raw,
            "bytes": self.size,
            "bpd": bpd,
            "model_bpd": model_bpd,
            "seconds": round(seconds, 3),
        }

    def _own_model(self) -> str | None:
        return None if self.options.model == Options.model else self.options.model

    def _describe(self, name: str, target: Path, raw: int, info: Info, seconds: float) -> None:
        """Print the line of a file, and add it to the totals."""
        self.count += 1
        self.raw += raw
        self.size += info.size
        self.samples += info.samples
        bpd = info.bpd if info.model_bpd is None else info.model_bpd
        self.model_bits += bpd * info.samples
        how = info.method if info.model_bpd is None else f"model {info.model_bpd:.3f}"
        numbers = _format_numbers(raw, info.size, info.bpd, how, seconds)
        self.report.result(
            f"{fit_name(name, _NAME_WIDTH)} {numbers}",
            input=name,
            output=str(target),
            raw_bytes=raw,
            bytes=info.size,
            ratio=raw / info.size,
            bpd=info.bpd,
            model_bpd=info.model_bpd,
            method=info.method,
            model=info.model,
            order=info.order,
            seconds=round(seconds, 3),
        )


def _format_numbers(raw: int, size: int, bpd: float, how: str, seconds: float) -> str:
    return (
        f"{format_size(raw):>8} -> {format_size(size):>8} {raw / size:5.2f}x "
        f"{bpd:6.3f} bpd ({how}) {seconds:4.1f} s"
    )


def _compare(decoded: Picture, picture: Picture, compare_times: bool) -> None:
    """Raise VerificationError unless a picture came back as it was."""
    ignored = set() if compare_times else {"TIME"}
    same = decoded.mode == picture.mode and decoded.samples.shape == picture.samples.shape
    if not same or (decoded.samples != picture.samples).any():
        raise VerificationError("verification failed: the decoded pixels differ (nothing written)")
    found, wanted = (
        {tag: block for tag, block in image.metadata.items() if tag not in ignored}
        for image in (decoded, picture)
    )
    if found != wanted:
        raise VerificationError(
            "verification failed: the decoded metadata differs (nothing written)"
        )


def _name_frames(name: str, count: int) -> list[str]:
    """Return the names of a file's frames in an archive: a.gif, a.gif#2, a.gif#3, ..."""
    return [name, *(f"{name}#{number}" for number in range(2, count + 1))]


def _check_names(names: list[str], used: dict[str, Source]) -> None:
    """Raise OutputError if a name in an archive is taken."""
    for name in names:
        if name in used:
            raise OutputError(f"{used[name].name} already has the name {name} in the archive")


def _is_utf8(name: str) -> bool:
    try:
        return bool(name.encode())
    except UnicodeEncodeError:
        return False
