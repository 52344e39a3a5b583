"""The functions that the mixture looks up, as tables of integers that come with a network.

No transcendental function is evaluated when a file is read or written, so machines cannot differ
(FORMAT.md, "Tables").
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

CDF_BITS = 16  # a logistic's cumulative function ends at 2^16
TABLE_SIZE = 1 << 14  # entries of the table of the logistic function
LOG2_SIZE = 1 << 12  # entries of the table of logarithms
SCALE_BITS = 9  # inverse scales are table entries per 2^-6 level, in units of 2^-9


@dataclass(frozen=True)
class Tables:
    """What the mixture looks up.

    logistic:      (2^14,) from 0 to 2^16, the cumulative function of a logistic
    inverse_scale: (S,) for each quantised log-scale, table entries per mean unit and 2^-9
    weight:        (E,) 2^16 times 2^(-i / unit), for how far a logit lies below the largest
    log2:          (2^12,) 2^16 log2 of a mantissa, for code lengths
    """

    logistic: npt.NDArray[np.uint32]
    inverse_scale: npt.NDArray[np.int32]
    weight: npt.NDArray[np.int64]
    log2: npt.NDArray[np.int64]
