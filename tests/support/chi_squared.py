"""Do drawn samples follow a distribution?"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def chi_squared(counts: npt.NDArray[np.int64], expected: npt.NDArray[np.float64]) -> float:
    """Return how far the statistic lies from its mean, in standard deviations.

    Rare outcomes are taken together, so that each class is expected at least ten times.
    """
    wanted, observed = [0.0], [0]
    for outcome in np.argsort(expected):
        if wanted[-1] >= 10:
            wanted.append(0.0)
            observed.append(0)
        wanted[-1] += expected[outcome]
        observed[-1] += counts[outcome]
    statistic = sum((o - w) ** 2 / w for o, w in zip(observed, wanted, strict=True))
    freedom = len(wanted) - 1
    assert freedom >= 10  # otherwise the test would say little
    return float((statistic - freedom) / np.sqrt(2 * freedom))
