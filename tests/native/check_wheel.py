"""What a wheel must do where it was built: restore images, with each kernel and with numpy."""

from __future__ import annotations

import os

import numpy as np

import lmzip
from lmzip.native.backends import list_kernels

pixels = np.arange(40 * 50 * 3, dtype=np.uint8).reshape(40, 50, 3)
deep = pixels.astype(np.uint16) * 16 + 7  # of more than 8 bits, which take loops of their own
for image in (pixels, deep):
    files = set()
    for name in ("numpy", *(kernel.name for kernel in list_kernels())):
        os.environ["LMZIP_KERNEL"] = name
        files.add(lmzip.compress(image, model="thumb"))
        assert all(np.array_equal(lmzip.decompress(data), image) for data in files), name
    assert len(files) == 1
assert list_kernels()
print("ok")
