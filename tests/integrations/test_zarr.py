"""Zarr 3 and numcodecs find the codec by name, and arrays come back exactly."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lmzip
from lmzip.integrations.chunks import ChunkCoding

zarr = pytest.importorskip("zarr")
numcodecs = pytest.importorskip("numcodecs")

from lmzip.integrations.zarr_codec import LmzipCodec  # noqa: E402


def make_array(*shape: int, dtype: Any = np.uint8) -> np.ndarray:
    rows = np.arange(np.prod(shape)).reshape(shape)
    noise = np.random.default_rng(0).integers(0, 3, shape)
    top = 1 << (8 * np.dtype(dtype).itemsize)
    return ((rows // 7 + noise) % top).astype(dtype)


@pytest.mark.parametrize(
    ("shape", "chunks", "layout"),
    [
        ((20, 30), (8, 16), None),
        ((20, 30, 3), (16, 16, 3), None),
        ((3, 20, 30), (3, 16, 16), "CHW"),
        ((5, 20, 30), (2, 20, 30), "NHW"),
        ((5, 9, 12, 3), (2, 9, 12, 3), None),
        ((5, 3, 9, 12), (2, 3, 9, 12), "NCHW"),
    ],
)
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_arrays_come_back(
    shape: tuple[int, ...], chunks: tuple[int, ...], layout: str | None, dtype: Any, tmp_path: Path
) -> None:
    array = make_array(*shape, dtype=dtype)
    stored = zarr.create_array(
        str(tmp_path / "array.zarr"),
        shape=shape,
        chunks=chunks,
        dtype=dtype,
        serializer=LmzipCodec(layout=layout, effort="fast"),
        compressors=None,
    )
    stored[:] = array
    again = zarr.open_array(str(tmp_path / "array.zarr"), mode="r")
    assert np.array_equal(again[:], array)
    assert np.array_equal(
        again[tuple(slice(1, 4) for _ in shape)], array[(slice(1, 4),) * len(shape)]
    )
    described = json.loads((tmp_path / "array.zarr/zarr.json").read_text())["codecs"]
    assert described[0]["name"] == "lmzip"
    expected = layout or {2: "HW", 3: "HWC", 4: "NHWC"}[len(shape)]
    assert described[0]["configuration"]["layout"] == expected


def test_reading_imports_nothing_but_zarr(tmp_path: Path) -> None:
    stored = zarr.create_array(
        str(tmp_path / "a.zarr"), shape=(9, 9), chunks=(9, 9), dtype="uint8",
        serializer={"name": "lmzip", "configuration": {}}, compressors=None,
    )  # fmt: skip
    stored[:] = make_array(9, 9)
    program = "import sys, zarr; print(int(zarr.open_array(sys.argv[1], mode='r')[:].sum()))"
    finished = subprocess.run(
        [sys.executable, "-P", "-c", program, str(tmp_path / "a.zarr")],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert int(finished.stdout) == make_array(9, 9).sum()


@pytest.mark.parametrize(
    ("shape", "dtype", "reason"),
    [
        ((9, 9), "float32", "uint8 or uint16, not float32"),
        ((9, 9, 9), "uint8", "1 to 4 channels"),
        ((9,), "uint8", "layout"),
    ],
)
def test_what_is_no_image_is_refused(shape: tuple[int, ...], dtype: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        zarr.create_array(
            zarr.storage.MemoryStore(), shape=shape, chunks=shape, dtype=dtype,
            serializer=LmzipCodec(), compressors=None,
        )  # fmt: skip
    with pytest.raises(lmzip.InputError, match="unknown layout"):
        ChunkCoding("WHC")


def test_a_damaged_chunk_is_an_error(tmp_path: Path) -> None:
    stored = zarr.create_array(
        str(tmp_path / "a.zarr"), shape=(16, 16), chunks=(16, 16), dtype="uint8",
        serializer=LmzipCodec(), compressors=None,
    )  # fmt: skip
    stored[:] = make_array(16, 16)
    chunk = tmp_path / "a.zarr/c/0/0"
    chunk.write_bytes(chunk.read_bytes()[:-1])
    with pytest.raises(lmzip.DamagedError):
        stored[:]


@pytest.mark.parametrize("shape", [(9, 12), (9, 12, 3), (4, 9, 12, 3)])
def test_numcodecs_finds_it_by_its_id(shape: tuple[int, ...]) -> None:
    layout = "HW" if len(shape) == 2 else None
    codec = numcodecs.get_codec({"id": "lmzip", "effort": "fast", "layout": layout})
    array = make_array(*shape)
    packed = codec.encode(array)
    assert np.array_equal(codec.decode(packed), array)
    out = np.empty_like(array)
    codec.decode(packed, out=out)
    assert np.array_equal(out, array)
    assert numcodecs.get_codec(codec.get_config()).get_config() == codec.get_config()


def test_zarr_2_uses_it_as_a_compressor(tmp_path: Path) -> None:
    array = make_array(20, 24, 3)
    codec = numcodecs.get_codec({"id": "lmzip", "layout": "HWC", "effort": "fast"})
    stored = zarr.create_array(
        str(tmp_path / "two.zarr"), shape=array.shape, chunks=(16, 16, 3), dtype="uint8",
        zarr_format=2, compressors=codec,
    )  # fmt: skip
    stored[:] = array
    assert np.array_equal(zarr.open_array(str(tmp_path / "two.zarr"), mode="r")[:], array)
