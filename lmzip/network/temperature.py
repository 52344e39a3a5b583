"""Temperature: the same network, more certain of its predictions, or less.

Nothing but the tables of the mixture changes: at temperature t every logistic is t times as wide,
and the weights are raised to the power 1 / t, so that the likeliest logistics prevail when it is
cold. The result is an integer network like any other: engine, kernels and coder run it as it is.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lmzip.errors import InputError
from lmzip.network.integer_network import MAX_INVERSE_SCALE, IntegerNetwork


def check_temperature(temperature: float) -> None:
    """Raise InputError unless a temperature is positive and finite."""
    if not 0 < temperature < float("inf"):
        raise InputError(f"the temperature must be positive and finite, not {temperature}")


def with_temperature(network: IntegerNetwork, temperature: float) -> IntegerNetwork:
    """Return the network at a temperature; 1 leaves it alone. Raises InputError."""
    check_temperature(temperature)
    if temperature == 1:
        return network
    tables = network.tables
    scales = np.rint(tables.inverse_scale / temperature).clip(1, MAX_INVERSE_SCALE)
    share = tables.weight / tables.weight[0]
    weights = np.rint(tables.weight[0] * share ** (1 / temperature))
    changed = replace(
        tables, inverse_scale=scales.astype(np.int32), weight=weights.astype(np.int64)
    )
    return replace(network, tables=changed)
