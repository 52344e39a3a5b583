"""From .lmz files back to image files: what each is decoded to, and where it is written."""

from __future__ import annotations

import time
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from lmzip import (
    Archive,
    DamagedError,
    InputError,
    Limits,
    Picture,
    Progress,
    Region,
    decompress_picture,
    is_archive,
    salvage_picture,
)
from lmzip.cli.console import DAMAGED, Report, fit_name, format_size
from lmzip.cli.files import OutputError, Source, Targets, make_folder
from lmzip.cli.members import Member, Members, safe_path
from lmzip.formats import (
    LOSSY_SUFFIXES,
    READABLE_SUFFIXES,
    WRITABLE_SUFFIXES,
    FrameSet,
    check_suffix,
    default_suffix,
    describe_frames,
    file_times,
    without_frames,
    write_frames,
    write_picture,
)
from lmzip.storage import name_errors, to_path


@dataclass
class Restoration:
    """The settings that all files of a command share."""

    targets: Targets
    suffix: str | None
    model: str | None
    threads: int
    salvage: bool
    limits: Limits
    report: Report
    # inputs of which an output has not everything
    _partly: set[str] = field(default_factory=set, init=False)

    @property
    def to_image(self) -> bool:
        """Whether -o is the name of one image, as its ending says; else it may be a folder."""
        output = self.targets.output
        if output is None or self.targets.to_folder:
            return False
        return Path(output).suffix.lower() in {
            *WRITABLE_SUFFIXES,
            *READABLE_SUFFIXES,
            *LOSSY_SUFFIXES,
        }

    def restore(self, source: Source, region: Region | None, only: tuple[str, ...]) -> None:
        """Restore one image file, or the files that are in one archive."""
        data = source.content(self.limits)
        if isinstance(data, str) or is_archive(data):
            if region is not None:
                raise InputError("--region is for files of one image, not for archives")
            with Archive(
                data, model=self.model, threads=self.threads, limits=self.limits
            ) as archive:
                self._unpack(source, archive, only)
            return
        if only:
            raise InputError("--only is for archives, and this is one image")
        began = time.monotonic()
        suffix = self._early_suffix()
        if suffix:  # before the work if the name is known
            check_suffix(suffix)
            self.targets.check(self.targets.of(source, suffix), source)
        with self.report.progress(source.name) as progress:
            picture, losses = self._decode(data, region, progress)
        if region is not None:  # a part of a picture is not the file that it was
            picture = without_frames(picture)
        suffix = suffix or self._fitting_suffix(source, picture)
        self._write(source, self.targets.of(source, suffix), suffix, [picture], began)
        self._name_losses(source.name, losses)

    def remove(self, source: Source, read: Hashable) -> None:
        """Delete an input, if all of it has been written to files, metadata too.

        Raises InputError if it is not the file any more that was read.
        """
        if source.name in self._partly:
            self.report.warn(source.name, "not deleted: not all of it is in the output")
        elif source.name in self.targets.written.values() and not source.is_stdin:
            if source.version() != read:
                raise InputError("not deleted: it changed after it was read")
            with name_errors(source.path):
                source.path.unlink()

    def _decode(
        self, data: bytes, region: Region | None, progress: Progress | None
    ) -> tuple[Picture, list[str]]:
        """Return a picture, and with --salvage what of it is lost."""
        model, threads, limits = self.model, self.threads, self.limits
        try:
            picture = decompress_picture(
                data, region=region, model=model, threads=threads, progress=progress, limits=limits
            )
            return picture, []
        except DamagedError:
            if not self.salvage or region is not None:
                raise
        return salvage_picture(data, model=model, threads=threads, limits=limits)

    def _unpack(self, source: Source, archive: Archive, only: tuple[str, ...]) -> None:
        members = Members(archive)
        chosen = members.choose(only) if only else members.all
        if self.targets.to_stdout and len(chosen) > 1:
            raise InputError("an archive of several images cannot go to stdout: use -o FOLDER")
        if self.to_image and len(chosen) > 1:
            raise OutputError(
                f"{self.targets.output} is one file, and the archive has {len(chosen)} images",
                "-o FOLDER takes them all, --only NAME one of them",
            )
        images: list[Member] = []
        for member in chosen:
            if member.frames is None:
                images.append(member)
                continue
            label = source.name if members.is_single_file else f"{source.name}: {member.name}"
            with self.report.file(label):
                try:
                    self._restore_frames(source, archive, members, member, member.frames)
                except DamagedError as error:
                    if not self.salvage:
                        raise
                    self.report.fail(label, f"{error}: restored frame by frame", DAMAGED)
                    images += members.split(member)
        self._restore_images(source, archive, members, images)

    def _restore_frames(
        self,
        source: Source,
        archive: Archive,
        members: Members,
        member: Member,
        frames: FrameSet,
    ) -> None:
        """Restore a file of several frames as it was."""
        began = time.monotonic()
        wanted = self._early_suffix()
        if wanted is not None and wanted.lower() not in frames.endings:
            raise OutputError(
                f"{frames.count} frames of {frames.suffix[1:]} come back as nothing else",
                "--only NUMBER restores one of them, in any format",
            )
        suffix = wanted or frames.suffix
        if self.targets.to_stdout or self.to_image or members.is_single_file:
            target = self.targets.of(source, suffix)
        else:
            inside = safe_path(member.name)
            if inside.suffix.lower() not in frames.endings:
                inside = inside.with_name(inside.name + suffix)
            target = self._folder(source) / inside
            make_folder(target.parent)
        self.targets.check(target, source)
        self.limits.check_frames([archive.size(number) for number in member.numbers])
        pictures = archive.pictures(member.numbers)
        self._write(source, target, suffix, pictures, began)

    def _restore_images(
        self, source: Source, archive: Archive, members: Members, images: Sequence[Member]
    ) -> None:
        """Restore images, as many at a time as are decoded together."""
        by_number = {member.numbers[0]: member for member in images}
        began = time.monotonic()
        for number, picture in archive.restore(list(by_number)):
            member, losses = by_number[number], list[str]()
            label = f"{source.name}: {member.name}"
            with self.report.file(label):
                if isinstance(picture, DamagedError):
                    if not self.salvage:
                        raise picture
                    picture, losses = archive.salvage(number)
                self._write_member(source, member, members, picture, began)
                self._name_losses(label, losses)
            began = time.monotonic()

    def _write_member(
        self, source: Source, member: Member, members: Members, picture: Picture, began: float
    ) -> None:
        """Write one image of an archive, below a folder or to the one file that was asked for."""
        output, inside = self.targets.output, safe_path(member.name)
        if self.targets.to_stdout or self.to_image:
            suffix = self._early_suffix() or self._fitting_suffix(source, picture)
            self._write(source, to_path(output or member.name), suffix, [picture], began)
            return
        known = inside.suffix.lower() if inside.suffix.lower() in WRITABLE_SUFFIXES else None
        suffix = self.suffix or self._fitting_suffix(source, picture, known)
        target = self._folder(source) / members.place(member, suffix)
        make_folder(target.parent)
        self._write(source, target, suffix, [picture], began)

    def _folder(self, source: Source) -> Path:
        """Return the folder that an archive is unpacked to."""
        output = self.targets.output
        return source.path.with_suffix("") if output is None else to_path(output)

    def _fitting_suffix(self, source: Source, picture: Picture, ending: str | None = None) -> str:
        """Return the ending of the original format, or another if that cannot hold the picture."""
        metadata = {tag: block for tag, block in picture.metadata.items() if tag != "FORM"}
        other = default_suffix(replace(picture, metadata=metadata))
        frames = describe_frames(picture.metadata)
        is_page = frames is not None and frames.count > 1  # the ending is that of all pages
        wanted = ending or (other if is_page else default_suffix(picture))
        if wanted == other:
            return wanted
        try:
            write_picture(picture, wanted)
        except InputError as error:
            self.report.warn(source.name, f"restored as {other[1:]}: {error}")
            return other
        return wanted

    def _early_suffix(self) -> str | None:
        """Return the ending that the command line asks for, if it does."""
        output = self.targets.output
        if output is not None and not self.targets.to_folder and Path(output).suffix:
            return Path(output).suffix
        return self.suffix

    def _write(
        self, source: Source, target: Path, suffix: str, pictures: Sequence[Picture], began: float
    ) -> None:
        """Write one picture, or all frames of a file as they were."""
        name = source.name if self.targets.to_stdout else str(target)
        first, count = pictures[0], len(pictures)
        frames = describe_frames(first.metadata)
        remarks: tuple[str, ...] = ()
        if frames is not None and frames.count == count and suffix.lower() in frames.endings:
            data = write_frames(pictures)
        else:
            data, remarks = write_picture(first, suffix)
            # A remark names what the format cannot hold. Of FRMS, other formats hold the pixels.
            if remarks or frames is not None:
                self._partly.add(source.name)
        self.targets.check(target, source)
        self.targets.write(target, source, data, file_times(first.metadata))
        for remark in remarks:
            self.report.warn(name, remark)
        seconds = time.monotonic() - began
        what = f"{count} x " if count > 1 else ""
        self.report.result(
            f"{fit_name(name, 28)} {what}{first.width}x{first.height} {first.mode.name} "
            f"{format_size(len(data)):>8} {seconds:6.1f} s",
            input=source.name,
            output=None if self.targets.to_stdout else str(target),
            height=first.height,
            width=first.width,
            mode=first.mode.name,
            frames=count,
            bytes=len(data),
            seconds=round(seconds, 3),
        )

    def _name_losses(self, name: str, losses: Sequence[str]) -> None:
        for loss in losses:
            self.report.fail(name, f"lost: {loss}", DAMAGED)
