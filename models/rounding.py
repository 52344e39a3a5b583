"""Rounding weights so that their errors cancel on real inputs, rather than one by one.

A layer's output error is (W - Q) x. Rounding to the nearest minimises |W - Q|; what counts is its
mean square over inputs x with second moments H = E[x x^T]. Going through the inputs in sequence and
letting the weights that are still free make up for each rounding (optimal brain quantisation, as
GPTQ arranges it) gets much closer. Nothing is trained.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

DAMPING = 0.01  # of the mean second moment: inputs that never vary must not decide anything


def round_weights(weights: Floats, moments: Floats) -> npt.NDArray[np.int64]:
    """Round weights (outputs, inputs) for inputs of second moments (inputs, inputs)."""
    inputs = weights.shape[1]
    damped = moments + np.eye(inputs) * (DAMPING * np.trace(moments) / inputs + 1e-12)
    # Row j of this factor says how an error at input j is best spread over the inputs after it.
    spread = np.linalg.cholesky(np.linalg.inv(damped)).T
    remaining = weights.astype(np.float64, copy=True)
    rounded = np.empty(weights.shape, np.int64)
    for j in range(inputs):
        rounded[:, j] = np.rint(remaining[:, j])
        error = (remaining[:, j] - rounded[:, j]) / spread[j, j]
        remaining[:, j + 1 :] -= error[:, None] * spread[j, j + 1 :]
    return rounded
