"""Picture files: PNG, TIFF, BMP, PNM, WebP, GIF and QOI to `Picture` and back, with metadata.

>>> import numpy
>>> from lmzip import MODES, Picture
>>> from lmzip.formats import read_picture, write_picture
>>> picture = Picture(numpy.zeros((2, 3, 1), numpy.uint8), MODES["L"])
>>> data, remarks = write_picture(picture, ".png")
>>> read_picture(data).picture.samples.shape
(2, 3, 1)
"""

from lmzip.formats.frames import (
    FrameSet,
    describe_frames,
    keep_frames,
    read_frames,
    strip_frames,
    without_frames,
    write_frames,
)
from lmzip.formats.metadata import file_times, strip_metadata, time_block
from lmzip.formats.pillow_images import image_from_picture, picture_from_image
from lmzip.formats.reading import LOSSY_SUFFIXES, READABLE_SUFFIXES, Reading, read_picture
from lmzip.formats.writing import (
    WRITABLE_SUFFIXES,
    check_suffix,
    default_suffix,
    to_true_colour,
    with_format,
    write_picture,
)

__all__ = [
    "LOSSY_SUFFIXES",
    "READABLE_SUFFIXES",
    "WRITABLE_SUFFIXES",
    "FrameSet",
    "Reading",
    "check_suffix",
    "default_suffix",
    "describe_frames",
    "file_times",
    "image_from_picture",
    "keep_frames",
    "picture_from_image",
    "read_frames",
    "read_picture",
    "strip_frames",
    "strip_metadata",
    "time_block",
    "to_true_colour",
    "with_format",
    "without_frames",
    "write_frames",
    "write_picture",
]
