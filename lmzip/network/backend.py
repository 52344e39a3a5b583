"""Backends: the few array operations that the engine is made of.

Each is exact on integers held in float32 as long as no sum reaches 2^24, which a network proves
when it is loaded. What a library actually does is checked once, when a backend is first used: the
product of a matrix of extreme values must come out exact (no TF32, no reduced precision).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from lmzip.errors import InputError, ModelError

# A matrix of the backend, float32 unless it is said to be wide: numpy.ndarray or torch.Tensor
Array = Any
Indices = npt.NDArray[np.integer[Any]]


class Backend(ABC):
    """Float32 matrices that hold integers."""

    name: str

    @abstractmethod
    def zeros(self, shape: tuple[int, int]) -> Array:
        """Return a matrix of zeros."""

    @abstractmethod
    def from_numpy(self, values: npt.NDArray[Any], wide: bool = False) -> Array:
        """Return the values as float32, or as float64 if they are to be `wide`."""

    @abstractmethod
    def to_numpy(self, values: Array) -> npt.NDArray[Any]:
        """Return the values as a numpy array."""

    @abstractmethod
    def widen(self, values: Array) -> Array:
        """Return the values as float64, which holds integers up to 2^53."""

    @abstractmethod
    def narrow(self, values: Array) -> Array:
        """Return the values as float32."""

    @abstractmethod
    def gather(self, rows: Array, indices: Indices) -> Array:
        """Return rows[indices] for indices (n, taps), side by side: (n, taps * columns)."""

    @abstractmethod
    def multiply(self, left: Array, right: Array, out: Array | None = None) -> Array:
        """Return the matrix product, in `out` if that is given."""

    @abstractmethod
    def multiply_each(self, rows: Array, matrices: Array, chosen: Indices) -> Array:
        """Return rows[i] @ matrices[chosen[i]] for each row."""

    @abstractmethod
    def put(self, values: Array, where: Indices, rows: Array) -> None:
        """Set values[where] to rows, in place."""

    @abstractmethod
    def round_clip(self, values: Array, low: int, high: int) -> None:
        """Round half to even and clip, in place."""

    @abstractmethod
    def add_rounded(self, stream: Array, change: Array, limit: int) -> None:
        """Add round(change) to the stream and clip it to -limit..limit, in place."""

    @abstractmethod
    def activate(self, stream: Array, bits: int, high: int, out: Array) -> None:
        """Set `out` to round(stream / 2^bits), clipped to 0..high."""


class NumpyBackend(Backend):
    """The reference: numpy and its BLAS."""

    name = "numpy"

    def zeros(self, shape: tuple[int, int]) -> Array:
        return np.zeros(shape, np.float32)

    def from_numpy(self, values: npt.NDArray[Any], wide: bool = False) -> Array:
        return np.ascontiguousarray(values, np.float64 if wide else np.float32)

    def to_numpy(self, values: Array) -> npt.NDArray[Any]:
        return np.asarray(values)

    def widen(self, values: Array) -> Array:
        return values.astype(np.float64)

    def narrow(self, values: Array) -> Array:
        return values.astype(np.float32)

    def gather(self, rows: Array, indices: Indices) -> Array:
        width = indices.shape[1] * rows.shape[1]  # a single pixel has no taps: -1 could not tell
        return rows.take(indices, axis=0, mode="clip").reshape(len(indices), width)

    def multiply(self, left: Array, right: Array, out: Array | None = None) -> Array:
        return np.matmul(left, right, out=out)

    def multiply_each(self, rows: Array, matrices: Array, chosen: Indices) -> Array:
        return (rows[:, None, :] @ matrices[chosen])[:, 0]

    def put(self, values: Array, where: Indices, rows: Array) -> None:
        values[where] = rows

    def round_clip(self, values: Array, low: int, high: int) -> None:
        # With bounds of the array's own type, the method is far faster than any other way.
        np.rint(values, out=values)
        values.clip(values.dtype.type(low), values.dtype.type(high), out=values)

    def add_rounded(self, stream: Array, change: Array, limit: int) -> None:
        np.rint(change, out=change)
        stream += change
        stream.clip(np.float32(-limit), np.float32(limit), out=stream)

    def activate(self, stream: Array, bits: int, high: int, out: Array) -> None:
        if bits == 0:  # the stream holds integers: nothing to round
            stream.clip(np.float32(0), np.float32(high), out=out)
        else:
            np.multiply(stream, np.float32(2.0**-bits), out=out)
            self.round_clip(out, 0, high)


class TorchBackend(Backend):
    """torch on a CPU or a GPU; needs the extra `train`."""

    def __init__(self, device: str) -> None:
        try:
            import torch
        except ImportError as error:
            raise InputError("the torch backend needs torch: pip install lmzip[train]") from error
        torch.backends.cuda.matmul.allow_tf32 = False
        self._torch, self._device = torch, torch.device(device)
        self.name = f"torch on {device}"

    def zeros(self, shape: tuple[int, int]) -> Array:
        return self._torch.zeros(shape, dtype=self._torch.float32, device=self._device)

    def from_numpy(self, values: npt.NDArray[Any], wide: bool = False) -> Array:
        kind = np.float64 if wide else np.float32
        return self._torch.from_numpy(np.ascontiguousarray(values, kind)).to(self._device)

    def to_numpy(self, values: Array) -> npt.NDArray[Any]:
        result: npt.NDArray[Any] = values.cpu().numpy()
        return result

    def widen(self, values: Array) -> Array:
        return values.double()

    def narrow(self, values: Array) -> Array:
        return values.float()

    def gather(self, rows: Array, indices: Indices) -> Array:
        chosen = rows.index_select(0, self._indices(indices.ravel()))
        return chosen.view(len(indices), indices.shape[1] * rows.shape[1])

    def multiply(self, left: Array, right: Array, out: Array | None = None) -> Array:
        return self._torch.matmul(left, right, out=out)

    def multiply_each(self, rows: Array, matrices: Array, chosen: Indices) -> Array:
        return (rows[:, None, :] @ matrices[self._indices(chosen)])[:, 0]

    def put(self, values: Array, where: Indices, rows: Array) -> None:
        values[self._indices(where)] = rows

    def round_clip(self, values: Array, low: int, high: int) -> None:
        values.round_().clamp_(low, high)

    def add_rounded(self, stream: Array, change: Array, limit: int) -> None:
        stream.add_(change.round_()).clamp_(-limit, limit)

    def activate(self, stream: Array, bits: int, high: int, out: Array) -> None:
        self._torch.mul(stream, 2.0**-bits, out=out)
        self.round_clip(out, 0, high)

    def _indices(self, indices: Indices) -> Array:
        return self._torch.from_numpy(indices.astype(np.int64)).to(self._device)


@cache
def get_backend(name: str = "numpy") -> Backend:
    """Return a backend by name, checked: "numpy", "torch", or "torch:DEVICE" (torch:cuda)."""
    library, _, device = name.partition(":")
    backend: Backend
    if name == "numpy":
        backend = NumpyBackend()
    elif library == "torch":
        backend = TorchBackend(device or "cpu")
    else:
        raise InputError(f"unknown backend {name!r}: choose numpy, torch or torch:DEVICE")
    if not multiplies_exactly(backend):
        raise ModelError(f"the backend {name!r} does not multiply integers exactly on this machine")
    return backend


def multiplies_exactly(backend: Backend, limit: int = 1 << 24) -> bool:
    """Multiply integers whose sums come close to `limit`, and compare with exact arithmetic."""
    rows, inner, columns, largest = 67, 320, 65, 1023
    state = np.random.default_rng(0)
    left = state.integers(largest - 200, largest, (rows, inner), endpoint=True)
    spread = limit // (inner * largest)
    right = state.integers(spread - spread // 8, spread, (inner, columns), endpoint=True)
    product = backend.multiply(backend.from_numpy(left), backend.from_numpy(right))
    return np.array_equal(backend.to_numpy(product).astype(np.int64), left @ right)
