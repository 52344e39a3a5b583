"""Chunks of arrays as .lmz files: one image, or an archive if the chunk has an axis of images.

A layout names the axes: HW, HWC, CHW, or any of these with N in front. Other axes (time, depth of a
stack) are images too: put them in front and use chunks of one or more of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lmzip.api import compress, compress_batch, decompress, open_archive
from lmzip.errors import DamagedError, InputError
from lmzip.options import AUTO, DEFAULT, EFFORTS

LAYOUTS = ("HW", "HWC", "CHW", "NHW", "NHWC", "NCHW")
_BY_AXES = {2: "HW", 3: "HWC", 4: "NHWC"}
_CHANNELS = range(1, 5)


@dataclass(frozen=True)
class ChunkCoding:
    """How chunks are coded. Without a layout, their axes are HW, HWC or NHWC."""

    layout: str | None = None
    model: str = AUTO
    order: str = "raster"
    effort: str = DEFAULT

    def __post_init__(self) -> None:
        if self.layout is not None and self.layout not in LAYOUTS:
            raise InputError(f"unknown layout {self.layout!r}: choose from {', '.join(LAYOUTS)}")
        if self.effort not in EFFORTS:
            raise InputError(f"unknown effort {self.effort!r}: choose from {', '.join(EFFORTS)}")

    def check(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> str:
        """Return the layout of chunks; raises InputError if they are not images."""
        if dtype.kind != "u" or dtype.itemsize > 2:
            raise InputError(f"lmzip codes images of uint8 or uint16, not {dtype}")
        layout = self.layout or _BY_AXES.get(len(shape))
        if layout is None or len(layout) != len(shape):
            raise InputError(f"chunks of shape {shape} do not have the layout {layout}")
        if "C" in layout and shape[layout.index("C")] not in _CHANNELS:
            raise InputError(f"layout {layout} of {shape}: an image has 1 to 4 channels")
        return layout

    def encode(self, chunk: npt.NDArray[Any]) -> bytes:
        """Return the .lmz file of a chunk."""
        layout = self.check(chunk.shape, chunk.dtype)
        native = np.ascontiguousarray(chunk, chunk.dtype.newbyteorder("="))
        code = compress_batch if layout.startswith("N") else compress
        # Libraries of arrays code many chunks at once: each must not start threads of its own.
        return code(
            native,
            layout=layout,
            model=self.model,
            order=self.order,
            effort=self.effort,
            threads=1,
        )

    def decode(self, data: bytes, axes: int | None = None) -> npt.NDArray[Any]:
        """Return the chunk of a file; `axes` says how many it has, if there is no layout."""
        layout = self.layout or _BY_AXES[axes or 3]
        model = None if self.model == AUTO else self.model
        if not layout.startswith("N"):
            return decompress(data, layout=layout, model=model, threads=1)
        with open_archive(data, model=model, threads=1) as archive:
            images = list(archive)
        if len({(image.shape, image.dtype) for image in images}) != 1:
            raise DamagedError("the images of this chunk differ in shape")
        stacked = np.stack(images)  # (N, H, W, C)
        if layout == "NHW":
            return stacked[..., 0]
        return stacked if layout == "NHWC" else np.moveaxis(stacked, 3, 1)
