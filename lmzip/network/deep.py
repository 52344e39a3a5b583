"""Deep networks: a network as it codes samples of more than 8 bits (FORMAT.md, "Deep samples").

The inputs of a deep network carry six bits of a level's fraction, and so do its means; the weights
stay as they are. The sums of the first layer and of the predictor then need 31 bits instead of 25,
which is checked: kernels add them in 32-bit integers, array libraries in float64. All other sums
are those of the network itself, which is proved to be exact.

Staying within 2^24, the bound of all other sums, would have been simpler, and was thought to leave
four more bits. It leaves none: the weights that the exporter chooses are so fine that 8-bit inputs
alone bring the first layer of every released model to 2^23.98.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lmzip.errors import ModelError
from lmzip.network.integer_network import PIXEL_MAX, IntegerNetwork, Layer

FRACTION_BITS = 6  # of the inputs and the means, beyond what 8-bit samples need
INPUT_MAX = ((PIXEL_MAX + 1) << FRACTION_BITS) - 1  # FORMAT.md: 16383
WIDE = 1 << 31  # what a 32-bit integer does not reach


def deepen(network: IntegerNetwork) -> IntegerNetwork:
    """Return a network for inputs and means in units 2^6 times as fine; raises ModelError.

    It is not what a model file holds, and has no fingerprint of its own.
    """
    return network.derived("deep", _deepen)


def _deepen(network: IntegerNetwork) -> IntegerNetwork:
    if not is_deepenable(network):
        raise ModelError(f"model {network.name!r} cannot code deep samples: its means are coarse")
    _prove_sums(network)
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


def _prove_sums(network: IntegerNetwork) -> None:
    """Raise ModelError unless sums of fine inputs fit 32 bits, with what is added to round them.

    A network that is exact for 8 bits always passes: its sums are below 2^24, and these are some 64
    times as large. So this guards the sentence in FORMAT.md against other changes.
    """
    weights = np.abs(network.predictor.astype(np.int64)).sum(2).max(initial=0)
    half = 1 << network.predictor_shift >> 1
    # Inputs are at most 2^6 (PIXEL_MAX + 1), and so all of a sum is at most this in their units.
    first = network.first.bounds(PIXEL_MAX + 1) << FRACTION_BITS
    halves = np.int64(1) << (network.first.shift.astype(np.int64) + FRACTION_BITS) >> 1
    sums = {
        "first layer": int((first + halves).max()),
        "predictor": int(weights) * INPUT_MAX + half,
    }
    for name, largest in sums.items():
        if largest >= WIDE:
            raise ModelError(f"{name}: deep sums may reach {largest}, not below 2^31")


def is_deepenable(network: IntegerNetwork) -> bool:
    """Whether the means of a network can be had in finer units."""
    return int(network.out.shift[_means(network)].min()) >= FRACTION_BITS


def _means(network: IntegerNetwork) -> slice:
    """Return which of the outputs are means."""
    return slice(network.mixtures, (1 + network.channels) * network.mixtures)
