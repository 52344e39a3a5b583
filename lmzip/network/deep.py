"""Deep networks: a network as it codes samples of more than 8 bits (FORMAT.md, "Deep samples").

The inputs of a deep network carry six bits of a level's fraction, and so do its means; the weights
stay as they are. The sums of the first layer and of the predictor then need 31 bits instead of 25:
kernels add them in 32-bit integers, array libraries in float64. All other sums are those of the
network itself, which is proved to be exact.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lmzip.errors import ModelError
from lmzip.network.integer_network import IntegerNetwork, Layer

FRACTION_BITS = 6  # of the inputs and the means, beyond what 8-bit samples need


def deepen(network: IntegerNetwork) -> IntegerNetwork:
    """Return a network for inputs and means in units 2^6 times as fine; raises ModelError.

    It is not what a model file holds, and has no fingerprint of its own.
    """
    return network.derived("deep", _deepen)


def _deepen(network: IntegerNetwork) -> IntegerNetwork:
    if not is_deepenable(network):
        raise ModelError(f"model {network.name!r} cannot code deep samples: its means are coarse")
    first, out = network.first, network.out
    # Whatever is added to sums of inputs is in the inputs' units.
    fine_first = Layer(
        first.taps,
        first.weight,
        first.mask_weight.astype(np.int32) << FRACTION_BITS,
        first.bias.astype(np.int32) << FRACTION_BITS,
        first.shift + FRACTION_BITS,
    )
    shift = out.shift.copy()
    shift[_means(network)] -= FRACTION_BITS
    fine_out = replace(out, shift=shift)
    return replace(network, first=fine_first, out=fine_out, fraction_bits=FRACTION_BITS)


def is_deepenable(network: IntegerNetwork) -> bool:
    """Whether the means of a network can be had in finer units."""
    return int(network.out.shift[_means(network)].min()) >= FRACTION_BITS


def _means(network: IntegerNetwork) -> slice:
    """Return which of the outputs are means."""
    return slice(network.mixtures, (1 + network.channels) * network.mixtures)
