"""Learning a tuning: what is learnt is what is sent, and it makes an unusual picture smaller."""

from __future__ import annotations

import numpy as np
import torch
from support.networks import compact_network, smooth_images

from lmzip.container.tuning_block import read_tuning, write_tuning
from lmzip.models.tune import Plan, Tuner
from lmzip.network.backend import get_backend
from lmzip.network.integer_network import IntegerNetwork
from lmzip.network.tuning import Tuning, apply_tuning
from lmzip.order.orders import parse_order
from lmzip.stream.encoder import encode_images

RASTER = parse_order("raster")


def unusual_image() -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    """Return a picture that the network has not seen the like of: blue comes first, inverted."""
    return np.ascontiguousarray(255 - smooth_images(1, 96, 80, noise=1.0)[0][:, :, ::-1])


def learn(network: IntegerNetwork, plan: Plan, steps: int) -> Tuning:
    levels = torch.from_numpy(unusual_image()).permute(2, 0, 1)
    tuner = Tuner(network, RASTER, [levels], plan)
    tuner.run(steps)
    return tuner.tuning()


def file_size(network: IntegerNetwork) -> int:
    (stream,) = encode_images(network, RASTER, unusual_image()[None], get_backend())
    return len(stream.data)


def test_a_tuning_pays_for_itself() -> None:
    network = compact_network()
    for plan in (Plan(rate=2e-2), Plan(rate=2e-2, weight_rate=0.05)):
        data = write_tuning(learn(network, plan, 60), network)
        tuned = apply_tuning(network, read_tuning(data, network))
        assert file_size(tuned) + len(data) < 0.98 * file_size(network)


def test_only_multiples_of_the_steps_are_sent() -> None:
    plan = Plan(rate=5e-2, gain_step=1, bias_step=2, out_bias_step=0, weight_rate=0.1)
    tuning = learn(compact_network(), plan, 10)
    assert any(np.any(change) for layer in tuning.layers for change in vars(layer).values())
    for layer in tuning.layers[1:-1]:
        assert layer.output_gains is not None
        assert layer.bias is not None
        assert layer.weight is not None
        assert not (layer.output_gains % 2).any()
        assert not (layer.bias % 4).any()
        assert not (layer.weight % (1 << plan.weight_step)).any()


def test_the_same_seed_learns_the_same() -> None:
    network = compact_network()
    ours, theirs = (learn(network, Plan(), 5) for _ in range(2))
    assert write_tuning(ours, network) == write_tuning(theirs, network)


def test_the_report_falls() -> None:
    network, told = compact_network(), []
    levels = torch.from_numpy(unusual_image()).permute(2, 0, 1)
    Tuner(network, RASTER, [levels], Plan(rate=2e-2)).run(40, lambda step, bpd: told.append(bpd))
    assert len(told) == 40
    assert np.mean(told[-10:]) < np.mean(told[:10])


def test_pictures_smaller_than_a_crop() -> None:
    network = compact_network()
    pictures = [torch.randint(0, 256, (3, 5, 70), dtype=torch.uint8), torch.zeros(3, 70, 9)]
    tuner = Tuner(network, RASTER, [p.to(torch.uint8) for p in pictures], Plan())
    tuner.run(3)
    apply_tuning(network, tuner.tuning())
