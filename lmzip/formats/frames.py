"""Files of several pictures, kept whole: animations (GIF, APNG, WebP) and documents (TIFF pages).

Such a file becomes its *frames*, each of which is a picture by itself, and the block FRMS of the
first one, which says that they belong together:

    4 bytes    GIF_, PNG_, WEBP or TIFF
    u4 LE      how many frames there are: this one and those that follow it
    the rest   the skeleton: the file without its pixels (empty for TIFF, whose pages say all)

Invariant: `read_frames(write_frames(frames))` are the same frames with the same metadata. Timing,
disposal, loops and texts are in the skeleton, which nobody interprets; so they come back as they
were. A GIF file of one picture is kept in the same way.
"""

from __future__ import annotations

import math
import struct
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

import numpy as np

from lmzip.errors import DamagedError, InputError
from lmzip.formats import apng, gif, tiff, webp
from lmzip.formats.frame_files import FrameFile, FrameSupply
from lmzip.formats.metadata import strip_metadata
from lmzip.formats.pillow_images import PILLOW_ERRORS, open_image
from lmzip.formats.reading import Reading, describe_failure, means_damage, read_picture
from lmzip.formats.writing import write_pages, write_picture
from lmzip.limits import PILLOW_PIXEL, Limits, resolve_limits
from lmzip.picture import MODES, Picture

FRAMES = "FRMS"
_TIFF = b"TIFF"
_ENDINGS = ((".tiff", ".tif"), (".png", ".apng"))  # those of one format
_START = struct.Struct("<4sI")


@dataclass(frozen=True)
class _Format:
    """How files of a format are taken apart and put together."""

    suffix: str
    split: Callable[[bytes], tuple[bytes, list[FrameFile]]]
    join: Callable[[bytes, FrameSupply], bytes]
    strip: Callable[[bytes], bytes]


_FORMATS = {
    b"GIF_": _Format(".gif", gif.split_gif, gif.join_gif, gif.strip_gif),
    b"PNG_": _Format(".png", apng.split_apng, apng.join_apng, apng.strip_apng),
    b"WEBP": _Format(".webp", webp.split_webp, webp.join_webp, webp.strip_webp),
}


@dataclass(frozen=True)
class FrameSet:
    """What the block FRMS says: the ending of the file, and how many frames it has.

    If the block FORM has another ending of the same format, the file had that one. A file of one
    frame may show nothing else: such a picture can go to other formats as well.
    """

    suffix: str
    count: int
    is_one_picture: bool

    @property
    def endings(self) -> tuple[str, ...]:
        """The endings that such files have."""
        return next((same for same in _ENDINGS if self.suffix in same), (self.suffix,))


def describe_frames(metadata: Mapping[str, bytes]) -> FrameSet | None:
    """Return what the first picture of a file says of its frames; None if it is a single one.

    Raises DamagedError if that makes no sense.
    """
    if FRAMES not in metadata:
        return None
    kind, count, skeleton = _read_block(metadata[FRAMES])
    try:
        is_one_picture = count == 1 and (kind != b"GIF_" or gif.fills_screen(skeleton))
    except InputError as error:
        raise DamagedError(f"the metadata block {FRAMES}: {error}") from error
    frames = FrameSet(".tiff" if kind == _TIFF else _FORMATS[kind].suffix, count, is_one_picture)
    own = "." + metadata.get("FORM", b"").decode("ascii", "replace")
    return replace(frames, suffix=own) if own in frames.endings else frames


def read_frames(data: bytes, limits: Limits | None = None) -> list[Picture]:
    """Return the frames of a file; raises InputError if they cannot all be kept.

    Raises LimitError if they are more than the limits allow, before any is decoded.
    """
    limits = resolve_limits(limits)
    kind = _kind_of(data)
    if kind == _TIFF:
        frames, skeleton = _read_pages(data, limits), b""
    else:
        skeleton, files = _FORMATS[kind].split(data)
        limits.check_metadata(len(skeleton))
        limits.check_frames([(file.height, file.width) for file in files])
        frames = [_read_frame(file, limits) for file in files]
    if not frames:
        raise InputError("the file has no pictures")
    block = _START.pack(kind, len(frames)) + skeleton
    first = replace(frames[0], metadata={**frames[0].metadata, FRAMES: block})
    return [first, *frames[1:]]


def write_frames(frames: Sequence[Picture]) -> bytes:
    """Return the file that frames were read from; raises DamagedError if they do not fit."""
    kind, count, skeleton = _read_block(frames[0].metadata.get(FRAMES, b""))
    if count != len(frames):
        raise DamagedError(f"{len(frames)} frames of a file of {count}")
    try:
        if kind == _TIFF:
            return write_pages(frames)
        form = _FORMATS[kind]
        files = (FrameFile(f.height, f.width, write_picture(f, form.suffix)[0]) for f in frames)
        supply = FrameSupply(files)
        data = form.join(skeleton, supply)
        supply.finish()
    except InputError as error:
        raise DamagedError(f"the frames cannot be put together: {error}") from error
    return data


def keep_frames(data: bytes, reading: Reading, limits: Limits | None = None) -> list[Picture]:
    """Return all pictures of a file of which the first was read, ready to be kept.

    They are a single one if nothing else is shown; then other formats can hold it as well. Raises
    InputError if the file would not come back as it was.
    """
    frames = read_frames(data, limits)
    try:
        restored = read_frames(write_frames(frames), limits)
    except DamagedError as error:
        raise InputError(str(error)) from None
    for number, (frame, back) in enumerate(zip_longest(frames, restored)):
        if frame is None or back is None or not _is_same(frame, back):
            raise InputError(f"frame {number} would not come back as it is")
    described = describe_frames(frames[0].metadata)
    if described is not None and described.is_one_picture:
        metadata = {**reading.picture.metadata, **frames[0].metadata}
        return [replace(frames[0], metadata=metadata)]
    return frames


def strip_frames(frames: Sequence[Picture]) -> list[Picture]:
    """Return frames with only the metadata that they need to be understood and shown in time."""
    stripped = [strip_metadata(frame) for frame in frames]
    if FRAMES in frames[0].metadata:
        kind, count, skeleton = _read_block(frames[0].metadata[FRAMES])
        if kind != _TIFF:
            skeleton = _FORMATS[kind].strip(skeleton)
        block = _START.pack(kind, count) + skeleton
        stripped[0] = replace(stripped[0], metadata={**stripped[0].metadata, FRAMES: block})
    return stripped


def without_frames(picture: Picture) -> Picture:
    """Return a picture that does not remember the file that it was a frame of."""
    kept = {tag: block for tag, block in picture.metadata.items() if tag != FRAMES}
    return replace(picture, metadata=kept)


def _is_same(one: Picture, other: Picture) -> bool:
    return (
        one.mode == other.mode
        and np.array_equal(one.samples, other.samples)
        and dict(one.metadata) == dict(other.metadata)
    )


def _kind_of(data: bytes) -> bytes:
    if data[:6] in gif.MAGICS:
        return b"GIF_"
    if data[1:4] == b"PNG":
        return b"PNG_"
    if webp.is_webp(data):
        return b"WEBP"
    if data[:4] in tiff.MAGICS:
        return _TIFF
    raise InputError("further pictures of such files are not supported")


def _read_block(block: bytes) -> tuple[bytes, int, bytes]:
    """Return kind, count and skeleton; raises DamagedError if the block makes no sense."""
    if len(block) < _START.size:
        raise DamagedError(f"the metadata block {FRAMES} has only {len(block)} bytes")
    kind, count = _START.unpack_from(block)
    if count < 1 or (kind != _TIFF and kind not in _FORMATS):
        raise DamagedError(f"the metadata block {FRAMES} is of {count} frames of {kind!r}")
    return kind, count, block[_START.size :]


def _read_frame(file: FrameFile, limits: Limits) -> Picture:
    """Return one frame, with what says what its samples mean and nothing else."""
    reading = read_picture(file.data, limits)
    picture = reading.picture
    if not reading.complete or (picture.height, picture.width) != (file.height, file.width):
        raise InputError(f"a frame is not of {file.width}x{file.height} pixels, as the file says")
    samples, mode = picture.samples, picture.mode
    if mode.name == "RGBA" and reading.format == "WEBP" and (samples[..., 3] == 255).all():
        samples, mode = samples[..., :3].copy(), MODES["RGB"]  # as libwebp writes them
    return strip_metadata(Picture(samples, mode, picture.metadata))


def _read_pages(data: bytes, limits: Limits) -> list[Picture]:
    """Return the pages of a TIFF file, each with its own metadata."""
    pages: list[Picture] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            with open_image(data, ("TIFF",)) as image:
                limits.check_images(count := getattr(image, "n_frames", 1))
                sizes = []
                for number in range(count):
                    image.seek(number)
                    sizes.append((image.height, image.width))
                limits.check_frames(sizes)
                limits.check_memory(PILLOW_PIXEL * max(map(math.prod, sizes)))
                for number in range(count):
                    image.seek(number)
                    if tiff.count_sub_images(image):
                        raise InputError("pictures that are attached to a page cannot be kept")
                    pages.append(tiff.read_tiff(image, data, is_page=True))
        except InputError as error:
            raise InputError(f"page {len(pages) + 1}: {error}") from None
        except PILLOW_ERRORS as error:
            raise InputError(describe_failure("TIFF", error)) from None
    for warning in caught:
        if means_damage(remark := " ".join(str(warning.message).split())):
            raise InputError(f"damaged TIFF file ({remark})")
    return pages
