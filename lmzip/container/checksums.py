"""The checksum of a picture's samples, which closes a file (FORMAT.md, "Image files")."""

from __future__ import annotations

import zlib

import numpy as np

from lmzip.picture import Samples


def checksum_of_samples(samples: Samples) -> int:
    """Return the CRC-32 of samples, row by row, little-endian; a 1-bit sample is a byte."""
    little = samples.astype(samples.dtype.newbyteorder("<"), copy=False)
    return zlib.crc32(np.ascontiguousarray(little).data)
