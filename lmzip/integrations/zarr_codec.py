"""A codec for Zarr 3: `zarr.create_array(..., serializer=LmzipCodec())`.

Zarr finds it by its name, "lmzip", through an entry point: to read an array, lmzip must be
installed but nothing need be imported.
"""

from __future__ import annotations

import asyncio
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
from zarr.abc.codec import ArrayBytesCodec
from zarr.core.array_spec import ArraySpec
from zarr.core.buffer import Buffer, NDBuffer
from zarr.core.common import JSON, parse_named_configuration

from lmzip.errors import DamagedError
from lmzip.integrations.chunks import ChunkCoding

NAME = "lmzip"


@dataclass(frozen=True)
class LmzipCodec(ArrayBytesCodec):
    """Codes chunks of uint8 and uint16 images; a chunk with an axis N becomes an archive.

    layout: the axes of a chunk (HW, HWC, CHW, NHW, NHWC, NCHW); None takes HW, HWC or NHWC
    model, order, effort: as `lmzip.compress` takes them
    """

    is_fixed_size = False
    coding: ChunkCoding

    def __init__(
        self,
        *,
        layout: str | None = None,
        model: str = ChunkCoding.model,
        order: str = ChunkCoding.order,
        effort: str = ChunkCoding.effort,
    ) -> None:
        object.__setattr__(self, "coding", ChunkCoding(layout, model, order, effort))

    @classmethod
    def from_dict(cls, data: dict[str, JSON]) -> Self:
        _, configuration = parse_named_configuration(data, NAME, require_configuration=False)
        settings: dict[str, Any] = dict(configuration or {})
        return cls(**settings)

    def to_dict(self) -> dict[str, JSON]:
        return {"name": NAME, "configuration": asdict(self.coding)}

    def validate(self, *, shape: tuple[int, ...], dtype: Any, chunk_grid: Any) -> None:
        """Raise InputError, a ValueError, if the array does not hold images."""
        chunks = tuple(getattr(chunk_grid, "chunk_shape", shape))
        self.coding.check(chunks, np.dtype(dtype.to_native_dtype()))

    def evolve_from_array_spec(self, array_spec: ArraySpec) -> Self:
        """Write the layout down, so that readers need not guess it."""
        layout = self.coding.check(array_spec.shape, np.dtype(array_spec.dtype.to_native_dtype()))
        return type(self)(**{**asdict(self.coding), "layout": layout})

    async def _encode_single(self, chunk_array: NDBuffer, chunk_spec: ArraySpec) -> Buffer | None:
        data = await asyncio.to_thread(self.coding.encode, np.asarray(chunk_array.as_numpy_array()))
        return chunk_spec.prototype.buffer.from_bytes(data)

    async def _decode_single(self, chunk_bytes: Buffer, chunk_spec: ArraySpec) -> NDBuffer:
        data, axes = chunk_bytes.to_bytes(), len(chunk_spec.shape)
        chunk = await asyncio.to_thread(self.coding.decode, data, axes)
        if chunk.shape != chunk_spec.shape:
            raise DamagedError(f"a chunk of shape {chunk.shape}, not {chunk_spec.shape}")
        dtype = chunk_spec.dtype.to_native_dtype()
        return chunk_spec.prototype.nd_buffer.from_numpy_array(chunk.astype(dtype, copy=False))

    def compute_encoded_size(self, input_byte_length: int, _chunk_spec: ArraySpec) -> int:
        raise NotImplementedError  # known only once a chunk is coded
