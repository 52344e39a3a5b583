"""Lossless image compression with locally masked convolutions, exact on every machine.

>>> import lmzip, numpy
>>> pixels = numpy.zeros((8, 8, 3), numpy.uint8)
>>> data = lmzip.compress(pixels)
>>> bool((lmzip.decompress(data) == pixels).all())
True

Names are loaded when they are first used, so that a program that needs few of them starts quickly.
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
    from lmzip.bit_costs import BitCosts, measure_bits
    from lmzip.container.archive_reader import Archive
    from lmzip.container.archive_writer import pack_archive
    from lmzip.container.image_reader import (
        Region,
        decompress_picture,
        read_model_and_order,
        salvage_picture,
    )
    from lmzip.container.image_writer import choose_model_and_order, compress_picture
    from lmzip.container.info import ImageInfo, Info, is_archive, list_images, read_info
    from lmzip.errors import (
        DamagedError,
        FingerprintError,
        FormatError,
        InputError,
        LimitError,
        LmzipError,
        ModelError,
        OrderError,
        VersionError,
    )
    from lmzip.generation import complete_image, measure_region, sample_images
    from lmzip.limits import LIMIT_FLAGS, Limits, parse_size
    from lmzip.native.backends import describe_backend
    from lmzip.network.registry import Choice, Model, ModelEntry, list_models, load_model
    from lmzip.options import EFFORTS, Options
    from lmzip.order.context import REGIONS, completion_order, make_regions
    from lmzip.order.masks import Kernel, make_mask
    from lmzip.order.orders import Order, expand_orders, parse_order
    from lmzip.parallel.workers import count_threads
    from lmzip.picture import MODES, Mode, Picture, Samples, mode_of
    from lmzip.progress import Progress
    from lmzip.selection import check_options

__version__ = "0.1.0"

__all__ = [
    "EFFORTS",
    "LIMIT_FLAGS",
    "MODES",
    "REGIONS",
    "Archive",
    "BitCosts",
    "Choice",
    "DamagedError",
    "FingerprintError",
    "FormatError",
    "ImageInfo",
    "Info",
    "InputError",
    "Kernel",
    "LimitError",
    "Limits",
    "LmzipError",
    "Mode",
    "Model",
    "ModelEntry",
    "ModelError",
    "Options",
    "Order",
    "OrderError",
    "Picture",
    "Progress",
    "Region",
    "Samples",
    "VersionError",
    "check_options",
    "choose_model_and_order",
    "complete_image",
    "completion_order",
    "compress",
    "compress_batch",
    "compress_picture",
    "count_threads",
    "decompress",
    "decompress_picture",
    "decompress_region",
    "describe_backend",
    "expand_orders",
    "is_archive",
    "list_images",
    "list_models",
    "load_model",
    "make_mask",
    "make_regions",
    "measure_bits",
    "measure_region",
    "mode_of",
    "open_archive",
    "pack_archive",
    "parse_order",
    "parse_size",
    "read_info",
    "read_model_and_order",
    "salvage_picture",
    "sample_images",
]

_MODULES = {
    "api": ("compress", "compress_batch", "decompress", "decompress_region", "open_archive"),
    "bit_costs": ("BitCosts", "measure_bits"),
    "container.archive_reader": ("Archive",),
    "limits": ("LIMIT_FLAGS", "Limits", "parse_size"),
    "container.archive_writer": ("pack_archive",),
    "container.image_reader": (
        "Region",
        "decompress_picture",
        "read_model_and_order",
        "salvage_picture",
    ),
    "container.image_writer": ("choose_model_and_order", "compress_picture"),
    "container.info": ("ImageInfo", "Info", "is_archive", "list_images", "read_info"),
    "generation": ("complete_image", "measure_region", "sample_images"),
    "errors": tuple(name for name in __all__ if name.endswith("Error")),
    "native.backends": ("describe_backend",),
    "network.registry": ("Choice", "Model", "ModelEntry", "list_models", "load_model"),
    "options": ("EFFORTS", "Options"),
    "order.context": ("REGIONS", "completion_order", "make_regions"),
    "order.masks": ("Kernel", "make_mask"),
    "order.orders": ("Order", "expand_orders", "parse_order"),
    "parallel.workers": ("count_threads",),
    "picture": ("MODES", "Mode", "Picture", "Samples", "mode_of"),
    "progress": ("Progress",),
    "selection": ("check_options",),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}


if not TYPE_CHECKING:  # a type checker would take it that any name is there

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module 'lmzip' has no attribute {name!r}")
        value = getattr(import_module(f"lmzip.{_HOMES[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
