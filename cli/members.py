"""What is in an archive: images, and files whose frames are several of its images."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from lmzip import Archive, DamagedError, InputError
from lmzip.cli.files import OutputError
from lmzip.formats import WRITABLE_SUFFIXES, FrameSet, describe_frames


@dataclass(frozen=True)
class Member:
    """One file to restore: its name, and the numbers of its images; frames if it has several."""

    name: str
    numbers: range
    frames: FrameSet | None = None


class Members:
    """The files that an archive can be restored to."""

    def __init__(self, archive: Archive) -> None:
        self._names = archive.names or [f"{number:06d}" for number in range(len(archive))]
        self.all = list(_list_members(archive, self._names))
        self._stems = Counter(_without_ending(member.name) for member in self.all)
        # The frames of one file and nothing else, without a name: the archive's own is as good.
        self.is_single_file = (
            archive.names is None and len(self.all) == 1 and bool(self.all[0].frames)
        )

    def choose(self, only: tuple[str, ...]) -> list[Member]:
        """Return members by their names, and single images by name or number."""
        by_name = {member.name: member for member in self.all}
        chosen = []
        for wanted in only:
            if wanted in by_name:
                chosen.append(by_name[wanted])
            elif wanted in self._names:
                chosen += self._images([self._names.index(wanted)])
            elif wanted.isascii() and wanted.isdigit() and int(wanted) < len(self._names):
                chosen += self._images([int(wanted)])
            else:
                count = len(self._names)
                raise InputError(f"no image {wanted!r} among the {count} of the archive")
        return chosen

    def split(self, member: Member) -> list[Member]:
        """Return the frames of a member as images of their own."""
        return list(self._images(member.numbers))

    def place(self, member: Member, suffix: str) -> Path:
        """Return the path of an image below a folder, if it gets this ending.

        Others of the archive may differ by their endings alone: a.gif beside a.png is a.gif.png.
        """
        inside = safe_path(member.name)
        known = inside.suffix.lower() in WRITABLE_SUFFIXES
        if (not known or suffix != inside.suffix.lower()) and (
            self._stems[_without_ending(member.name)] > 1
        ):
            return inside.with_name(inside.name + suffix)
        return inside.with_suffix(suffix)

    def _images(self, numbers: Iterable[int]) -> Iterator[Member]:
        for number in numbers:
            yield Member(self._names[number], range(number, number + 1))


def safe_path(name: str) -> Path:
    """Return a name inside an archive as a path that stays below a folder."""
    parts = PurePosixPath(name.replace("\\", "/"))
    if parts.is_absolute() or ".." in parts.parts or not parts.name or "\0" in name:
        raise OutputError(f"the name {name!r} would leave the folder")
    return Path(*parts.parts)


def _list_members(archive: Archive, names: list[str]) -> Iterator[Member]:
    first = 0
    while first < len(archive):
        frames = describe_frames(archive.metadata(first))
        frames = None if frames is None or frames.is_one_picture else frames
        count = frames.count if frames else 1
        if first + count > len(archive):
            raise DamagedError(f"{count} frames from image {first} on, and the archive ends before")
        yield Member(names[first], range(first, first + count), frames)
        first += count


def _without_ending(name: str) -> tuple[PurePosixPath, str]:
    path = PurePosixPath(name)
    return path.parent, path.stem
