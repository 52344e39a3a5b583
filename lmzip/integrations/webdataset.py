"""WebDataset: tar files of samples whose pictures are .lmz members.

`decode_lmz` is a decoder for `webdataset.WebDataset(...).decode(decode_lmz)`. `compress_tar` and
`restore_tar` turn pictures of a tar file into .lmz members and back; everything else in it, and the
sequence of members, stays as it is. Neither needs the library webdataset.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from lmzip.api import decompress
from lmzip.container.image_reader import decompress_picture
from lmzip.container.image_writer import compress_picture
from lmzip.errors import DamagedError, InputError
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
from lmzip.storage import name_errors, to_path, write_whole

SUFFIX = ".lmz"

Change = Callable[[str, bytes], tuple[str, bytes]]  # of the name and content of a member


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

    Returns the number of pictures. JPEG files are kept: their pixels would take more space. Raises
    InputError, with the member's name, for a picture that could not come back; nothing is written.
    """
    options = options or Options()

    def compress(name: str, data: bytes) -> tuple[str, bytes]:
        path = PurePosixPath(name)
        if path.suffix.lower() not in READABLE_SUFFIXES:
            return name, data
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
        return str(path.with_suffix(SUFFIX)), packed

    return _change_members(source, target, compress)


def restore_tar(
    source: str | Path,
    target: str | Path,
    *,
    model: str | Path | None = None,
    limits: Limits | None = None,
) -> int:
    """Copy a tar file with its .lmz members as pictures of their original formats, or PNG."""

    def restore(name: str, data: bytes) -> tuple[str, bytes]:
        path = PurePosixPath(name)
        if path.suffix != SUFFIX:
            return name, data
        picture = decompress_picture(data, model=model, limits=limits)
        suffix = default_suffix(picture)
        return str(path.with_suffix(suffix)), write_picture(picture, suffix)[0]

    return _change_members(source, target, restore)


def _change_members(source: str | Path, target: str | Path, change: Change) -> int:
    """Copy a tar file while members change their names and contents; return how many did."""
    changed, names, output = 0, set[str](), io.BytesIO()
    origin = to_path(source)
    with (
        name_errors(origin),
        origin.open("rb") as file,
        tarfile.open(fileobj=file, mode="r|*") as reader,
        tarfile.open(fileobj=output, mode="w", format=tarfile.PAX_FORMAT) as writer,
    ):
        for member in reader:
            content = reader.extractfile(member)
            if content is None:  # a folder or a link
                writer.addfile(member)
                continue
            data = content.read()
            try:
                name, new = change(member.name, data)
            except (InputError, DamagedError) as error:
                raise type(error)(f"{source}: {member.name}: {error}") from None
            if name in names:
                raise InputError(f"{source}: two members would be called {name}")
            names.add(name)
            changed += name != member.name
            writer.addfile(_renamed(member, name, len(new)), io.BytesIO(new))
    write_whole(to_path(target), output.getvalue())
    return changed


def _renamed(member: tarfile.TarInfo, name: str, size: int) -> tarfile.TarInfo:
    """Return a member's description under another name and with another size."""
    renamed = member.replace(name=name, deep=True)
    renamed.size = size
    renamed.pax_headers = {k: v for k, v in member.pax_headers.items() if k not in ("path", "size")}
    return renamed
