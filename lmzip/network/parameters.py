"""The parameters of the mixture: what the network says about each pixel, in integers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Int32s = npt.NDArray[np.int32]

MEAN_BITS = 6  # means are in units of 2^-6 of a level
MEAN_RANGE = (-64 << MEAN_BITS, 320 << MEAN_BITS)
COEFFICIENT_BITS = 10
COEFFICIENT_RANGE = (-4 << COEFFICIENT_BITS, 4 << COEFFICIENT_BITS)


@dataclass
class Parameters:
    """The mixtures of n pixels: K logistics, C channels.

    logits (K, n); means, log_scales (C, K, n); coefficients (couplings, K, n): all int32.
    """

    logits: Int32s
    means: Int32s
    log_scales: Int32s
    coefficients: Int32s
