"""Lossless image compression with locally masked convolutions, exact on every machine.

>>> import lmzip, numpy
>>> pixels = numpy.zeros((8, 8, 3), numpy.uint8)
>>> data = lmzip.compress(pixels)
>>> bool((lmzip.decompress(data) == pixels).all())
True
"""

from lmzip.api import (
    compress,
    compress_batch,
    decompress,
    decompress_region,
    open_archive,
)
from lmzip.archive import Archive
from lmzip.compression import compress_picture
from lmzip.decompression import Region, decompress_picture
from lmzip.errors import (
    DamagedError,
    FingerprintError,
    FormatError,
    InputError,
    LmzipError,
    ModelError,
    OrderError,
    VersionError,
)
from lmzip.info import Info, read_info
from lmzip.options import Options
from lmzip.packing import pack_archive
from lmzip.picture import Picture

__version__ = "0.1.0"

__all__ = [
    "Archive",
    "DamagedError",
    "FingerprintError",
    "FormatError",
    "Info",
    "InputError",
    "LmzipError",
    "ModelError",
    "Options",
    "OrderError",
    "Picture",
    "Region",
    "VersionError",
    "compress",
    "compress_batch",
    "compress_picture",
    "decompress",
    "decompress_picture",
    "decompress_region",
    "open_archive",
    "pack_archive",
    "read_info",
]
