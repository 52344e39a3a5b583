"""Backends: every operation against plain numpy, and the check that refuses inexact products."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from lmzip.errors import InputError, ModelError
from lmzip.network.backend import (
    Backend,
    NumpyBackend,
    TorchBackend,
    get_backend,
    multiplies_exactly,
)

NAMES = ("numpy", "torch", "torch:cpu")


@pytest.fixture(params=NAMES)
def backend(request: pytest.FixtureRequest) -> Backend:
    return get_backend(request.param)


def integers(*shape: int, seed: int = 0, largest: int = 1000) -> Any:
    state = np.random.default_rng(seed)
    return state.integers(-largest, largest, shape, endpoint=True).astype(np.float32)


def test_conversion_keeps_values(backend: Backend) -> None:
    values = integers(4, 3)
    assert np.array_equal(backend.to_numpy(backend.from_numpy(values.astype(np.int64))), values)
    assert np.array_equal(backend.to_numpy(backend.zeros((2, 3))), np.zeros((2, 3)))
    transposed = backend.to_numpy(backend.from_numpy(values.T))
    assert np.array_equal(transposed, values.T)


def test_gather_and_products(backend: Backend) -> None:
    rows, weight = integers(7, 3), integers(6, 5, seed=1)
    indices = np.array([[0, 6], [3, 3], [5, 1]], np.int32)
    gathered = backend.gather(backend.from_numpy(rows), indices)
    expected = rows[indices].reshape(3, 6)
    assert np.array_equal(backend.to_numpy(gathered), expected)
    product = backend.multiply(gathered, backend.from_numpy(weight))
    assert np.array_equal(backend.to_numpy(product), expected @ weight)
    wider = backend.zeros((3, 6))
    backend.multiply(gathered, backend.from_numpy(weight), out=wider[:, :-1])
    beside = np.concatenate([expected @ weight, np.zeros((3, 1))], axis=1)
    assert np.array_equal(backend.to_numpy(wider), beside)
    matrices = integers(4, 6, 5, seed=2)
    chosen = np.array([2, 0, 2], np.int32)
    each = backend.multiply_each(gathered, backend.from_numpy(matrices), chosen)
    wanted = np.stack([row @ matrices[i] for row, i in zip(expected, chosen, strict=True)])
    assert np.array_equal(backend.to_numpy(each), wanted)


def test_changes_in_place(backend: Backend) -> None:
    values, rows = integers(5, 3), integers(2, 3, seed=1)
    where = np.array([4, 1], np.int32)
    array = backend.from_numpy(values.copy())
    backend.put(array, where, backend.from_numpy(rows))
    wanted = values.copy()
    wanted[where] = rows
    assert np.array_equal(backend.to_numpy(array), wanted)


def test_rounding_is_half_to_even(backend: Backend) -> None:
    halves = np.arange(-9, 10, dtype=np.float32)[:, None] / 2
    even = np.array([float(round(x)) for x in halves.ravel().tolist()])  # Python rounds so, too
    rounded = backend.from_numpy(halves.copy())
    backend.round_clip(rounded, -3, 2)
    assert backend.to_numpy(rounded).ravel().tolist() == np.clip(even, -3, 2).tolist()

    stream = backend.from_numpy(np.full_like(halves, 2))
    backend.add_rounded(stream, backend.from_numpy(halves.copy()), 3)
    assert backend.to_numpy(stream).ravel().tolist() == np.clip(2 + even, -3, 3).tolist()

    quarters = np.arange(-20, 21, dtype=np.float32)[:, None]
    for bits in (0, 2):
        active = backend.zeros((len(quarters), 2))
        backend.activate(backend.from_numpy(quarters), bits, 4, active[:, :1])
        wanted = np.clip([round(x / 2**bits) for x in quarters.ravel().tolist()], 0, 4)
        assert backend.to_numpy(active)[:, 0].tolist() == wanted.tolist()
        assert not backend.to_numpy(active)[:, 1].any()


def test_products_are_exact_to_the_bound_and_not_beyond(backend: Backend) -> None:
    """The check passes where sums stay below 2^24 and fails, as it must, where they do not."""
    assert multiplies_exactly(backend)
    assert not multiplies_exactly(backend, 1 << 28)


class _HalfPrecision(NumpyBackend):
    """What TF32 or bfloat16 products would be like."""

    def multiply(self, left: Any, right: Any, out: Any = None) -> Any:
        return (left.astype(np.float16) @ right.astype(np.float16)).astype(np.float32)


def test_a_backend_that_rounds_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        monkeypatch.setattr("lmzip.network.backend.NumpyBackend", _HalfPrecision)
        get_backend.cache_clear()
        with pytest.raises(ModelError, match="'numpy' does not multiply"):
            get_backend("numpy")
    get_backend.cache_clear()


@pytest.mark.parametrize("name", ["", "cuda", "numpy:cpu", "jax"])
def test_unknown_backends_are_named(name: str) -> None:
    with pytest.raises(InputError, match=repr(name)):
        get_backend(name)


def test_a_backend_is_made_once() -> None:
    assert get_backend("numpy") is get_backend("numpy")
    assert isinstance(get_backend("torch"), TorchBackend)


def test_torch_is_asked_for_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without torch, the message says how to get it."""
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(InputError, match=r"lmzip\[train\]"):
        TorchBackend("cpu")
