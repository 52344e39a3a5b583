"""A codec for numcodecs, and so for Zarr 2: `numcodecs.get_codec({"id": "lmzip"})`.

numcodecs finds it by its id through an entry point.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numcodecs.abc import Codec
from numcodecs.compat import ensure_bytes, ndarray_copy

from lmzip.container.info import is_archive
from lmzip.integrations.chunks import ChunkCoding


class Lmzip(Codec):  # type: ignore[misc]
    """Codes arrays of uint8 and uint16 images; one with an axis N becomes an archive.

    layout: the axes of an array (HW, HWC, CHW, NHW, NHWC, NCHW); None takes HW, HWC or NHWC
    model, order, effort: as `lmzip.compress` takes them
    """

    codec_id = "lmzip"

    def __init__(
        self,
        layout: str | None = None,
        model: str = ChunkCoding.model,
        order: str = ChunkCoding.order,
        effort: str = ChunkCoding.effort,
    ) -> None:
        self.layout, self.model, self.order, self.effort = layout, model, order, effort
        self._coding = ChunkCoding(layout, model, order, effort)

    def get_config(self) -> dict[str, Any]:
        settings = {"layout": self.layout, "model": self.model}
        return {"id": self.codec_id, **settings, "order": self.order, "effort": self.effort}

    def encode(self, buf: Any) -> bytes:
        return self._coding.encode(np.asarray(buf))

    def decode(self, buf: Any, out: Any = None) -> Any:
        data = ensure_bytes(buf)
        chunk = self._coding.decode(data, 4 if is_archive(data) else 3)
        return ndarray_copy(chunk, out)
