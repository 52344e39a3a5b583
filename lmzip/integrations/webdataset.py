"""WebDataset: tar files of samples whose pictures are .lmz members.

`decode_lmz` is a decoder for `webdataset.WebDataset(...).decode(decode_lmz)`. `compress_tar` and
`restore_tar` turn pictures of a tar file into .lmz members and back; everything else in it, and the
sequence of members, stays as it is. Neither needs the library webdataset.
"""

from __future__ import annotations

import io
import tarfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

from lmzip.api import decompress
from lmzip.container.image_reader import decompress_picture
from lmzip.container.image_writer import compress_picture
from lmzip.errors import DamagedError, InputError, LmzipError
from lmzip.formats import (
    READABLE_SUFFIXES,
    default_suffix,
    read_picture,
    with_format,
    write_picture,
)
from lmzip.limits import Limits
from lmzip.options import AUTO, Options
from lmzip.picture import Samples
from lmzip.storage import name_errors, open_whole, to_path

SUFFIX = ".lmz"

# From the name and content of a member to new ones, and what the user should know about it.
Change = Callable[[str, bytes], tuple[str, bytes, tuple[str, ...]]]


def decode_lmz(key: str, data: bytes) -> Samples | None:
    """Return the samples (H, W, C) of an .lmz member; None for others, as webdataset wants it."""
    return decompress(data, threads=1) if key.endswith(SUFFIX) else None


def compress_tar(
    source: str | Path,
    target: str | Path,
    options: Options | None = None,
    limits: Limits | None = None,
) -> int:
    """Copy a tar file with its pictures as .lmz members, each decoded and compared.

    Returns the number of pictures. JPEG files are kept: their pixels would take more space. Warns,
    with the member's name, of what is in a picture's file and cannot be kept. Raises InputError,
    likewise, for a picture that could not come back; nothing is written then. One member is in
    memory at a time. Of a GIF file, pixels, colours and comments are kept, and nothing else.
    """
    options = options or Options()

    def compress(name: str, data: bytes) -> tuple[str, bytes, tuple[str, ...]]:
        path = PurePosixPath(name)
        if path.suffix.lower() not in READABLE_SUFFIXES:
            return name, data, ()
        reading = read_picture(data, limits)
        if not reading.complete:
            raise InputError(f"{reading.frames} frames, of which only the first could be kept")
        picture = with_format(reading.picture, reading.format)
        packed = compress_picture(picture, options)
        model = None if options.model == AUTO else options.model
        restored = decompress_picture(packed, model=model, threads=options.threads, limits=limits)
        same = restored.mode == picture.mode and restored.metadata == dict(picture.metadata)
        if not same or restored.samples.tobytes() != picture.samples.tobytes():
            raise DamagedError("verification failed: the decoded picture differs")
        remarks = (*reading.warnings, *(f"not kept: {loss}" for loss in reading.losses))
        return str(path.with_suffix(SUFFIX)), packed, remarks

    return _change_members(source, target, compress)


def restore_tar(
    source: str | Path,
    target: str | Path,
    *,
    model: str | Path | None = None,
    limits: Limits | None = None,
) -> int:
    """Copy a tar file with its .lmz members as pictures of their original formats, or PNG.

    Returns the number of pictures. Warns of metadata that a format has no place for.
    """

    def restore(name: str, data: bytes) -> tuple[str, bytes, tuple[str, ...]]:
        path = PurePosixPath(name)
        if path.suffix != SUFFIX:
            return name, data, ()
        picture = decompress_picture(data, model=model, limits=limits)
        suffix = default_suffix(picture)
        return str(path.with_suffix(suffix)), *write_picture(picture, suffix)

    return _change_members(source, target, restore)


def _change_members(source: str | Path, target: str | Path, change: Change) -> int:
    """Copy a tar file while members change their names and contents; return how many did."""
    changed, names = 0, set[str]()
    with (
        open_whole(to_path(target)) as output,
        tarfile.open(fileobj=output, mode="w", format=tarfile.PAX_FORMAT) as writer,
    ):
        for member, data in _read_members(source):
            if data is None:  # a folder
                writer.addfile(member)
                continue
            try:
                name, new, remarks = change(member.name, data)
            except LmzipError as error:
                raise type(error)(f"{source}: {member.name}: {error}") from None
            if name in names:
                raise InputError(f"{source}: two members would be called {name}")
            for remark in remarks:
                warnings.warn(f"{source}: {member.name}: {remark}", stacklevel=3)
            names.add(name)
            changed += name != member.name
            writer.addfile(_renamed(member, name, len(new)), io.BytesIO(new))
            writer.members.clear()  # type: ignore[attr-defined]  # it would keep them all
    return changed


def _read_members(source: str | Path) -> Iterator[tuple[tarfile.TarInfo, bytes | None]]:
    """Yield the members of a tar file, each with its content unless it is a folder."""
    origin = to_path(source)
    with (
        name_errors(origin),
        origin.open("rb") as file,
        tarfile.open(fileobj=file, mode="r|*") as reader,
    ):
        for member in reader:
            content = reader.extractfile(member)
            yield member, None if content is None else content.read()
            reader.members.clear()  # type: ignore[attr-defined]


def _renamed(member: tarfile.TarInfo, name: str, size: int) -> tarfile.TarInfo:
    """Return a member's description under another name and with another size."""
    renamed = member.replace(name=name, deep=True)
    renamed.size = size
    renamed.pax_headers = {k: v for k, v in member.pax_headers.items() if k not in ("path", "size")}
    return renamed
