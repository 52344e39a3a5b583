"""Deep networks: finer inputs and means, and sums that still fit 32 bits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support.networks import compact_network, random_network

from lmzip.errors import ModelError
from lmzip.network.deep import FRACTION_BITS, INPUT_MAX, deepen
from lmzip.network.integer_network import EXACT, IntegerNetwork
from lmzip.network.registry import load_model
from lmzip.network.released import RELEASED


def at_the_limit() -> IntegerNetwork:
    """Return a network whose first layer and predictor just fit 8-bit samples, coarsely rounded."""
    network = compact_network()
    weight = np.zeros(network.first.weight.shape, np.int32)
    spread = weight[0].reshape(-1)
    spread[:] = (EXACT - 1) // 255 // spread.size
    shift = np.full_like(network.first.shift, 24)
    bias = np.zeros_like(network.first.bias)
    bias[0] = EXACT - 1 - 255 * int(spread.sum())
    first = replace(
        network.first,
        weight=weight,
        mask_weight=np.zeros_like(network.first.mask_weight),
        bias=bias,
        shift=shift,
    )
    predictor = np.zeros(network.predictor.shape, np.int32)
    predictor[3, 0] = (EXACT - 1) // 255 // network.predictor.shape[2]
    limit = replace(network, first=first, predictor=predictor, predictor_shift=24)
    limit.prove_exact()
    return limit


def test_inputs_and_means_are_finer() -> None:
    network = compact_network()
    deep = deepen(network)
    assert INPUT_MAX == 16383
    assert deep.fraction_bits == FRACTION_BITS
    assert np.array_equal(deep.first.weight, network.first.weight)
    assert np.array_equal(deep.first.bias, network.first.bias.astype(np.int64) * 64)
    assert np.array_equal(deep.first.shift, network.first.shift + 6)
    assert deepen(network) is deep


@pytest.mark.parametrize("name", RELEASED.values())
def test_released_networks_can_be_deepened(name: str) -> None:
    deepen(load_model(name).network)


def test_what_is_exact_for_8_bits_fits_32_bits_when_deep() -> None:
    deep = deepen(at_the_limit())
    assert 1 << 30 < deep.first.bounds(INPUT_MAX).max() < 1 << 31


def test_sums_that_do_not_fit_are_refused() -> None:
    network = at_the_limit()
    first = replace(network.first, weight=network.first.weight * 2)
    with pytest.raises(ModelError, match=r"first layer: deep sums may reach \d+, not below 2\^31"):
        deepen(replace(network, first=first))
    with pytest.raises(ModelError, match="predictor: deep sums"):
        deepen(replace(network, predictor=network.predictor * 2))


def test_coarse_means_are_refused() -> None:
    network = random_network()
    shift = network.out.shift.copy()
    shift[network.mixtures] = FRACTION_BITS - 1
    with pytest.raises(ModelError, match="its means are coarse"):
        deepen(replace(network, out=replace(network.out, shift=shift)))
