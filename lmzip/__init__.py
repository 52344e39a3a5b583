"""Lossless image compression with locally masked convolutions, exact on every machine.

>>> import lmzip, numpy
>>> pixels = numpy.zeros((8, 8, 3), numpy.uint8)
>>> data = lmzip.compress(pixels)
>>> bool((lmzip.decompress(data) == pixels).all())
True

Names are loaded when they are first used, so that a command that needs few of them starts at once.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lmzip.api import (
        compress,
        compress_batch,
        decompress,
        decompress_region,
        open_archive,
    )
    from lmzip.container.archive_reader import Archive
    from lmzip.container.archive_writer import pack_archive
    from lmzip.container.image_reader import Region, decompress_picture
    from lmzip.container.image_writer import compress_picture
    from lmzip.container.info import Info, read_info
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
    from lmzip.options import Options
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

_MODULES = {
    "api": ("compress", "compress_batch", "decompress", "decompress_region", "open_archive"),
    "container.archive_reader": ("Archive",),
    "container.image_writer": ("compress_picture",),
    "container.image_reader": ("Region", "decompress_picture"),
    "errors": tuple(name for name in __all__ if name.endswith("Error")),
    "container.info": ("Info", "read_info"),
    "options": ("Options",),
    "container.archive_writer": ("pack_archive",),
    "picture": ("Picture",),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'lmzip' has no attribute {name!r}")
    value = getattr(import_module(f"lmzip.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
