"""Learning a tuning: what is learnt is what is sent, and it makes an unusual picture smaller."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from support.networks import compact_network, smooth_images

from lmzip.container.tuning_block import read_tuning, write_tuning
from lmzip.models.tune import Budget, Tuner
from lmzip.models.tuned_layers import Plan
from lmzip.network.adaptation import BY_ERRORS, Manner
from lmzip.network.backend import get_backend
from lmzip.network.integer_network import IntegerNetwork
from lmzip.network.tuning import Tuning, apply_tuning
from lmzip.order.orders import parse_order
from lmzip.stream.encoder import encode_images

RASTER = parse_order("raster")


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Let torch use one thread: these networks are too small to share."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def unusual_image() -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    """Return a picture that the network has not seen the like of: blue comes first, inverted."""
    return np.ascontiguousarray(255 - smooth_images(1, 96, 80, noise=1.0)[0][:, :, ::-1])


def learn(network: IntegerNetwork, plan: Plan, steps: int) -> Tuning:
    levels = torch.from_numpy(unusual_image()).permute(2, 0, 1)
    tuner = Tuner(network, RASTER, [levels], plan)
    tuner.run(Budget(steps))
    return tuner.tuning()


def file_size(network: IntegerNetwork, manner: Manner | None = None) -> int:
    images = unusual_image()[None]
    (stream,) = encode_images(network, RASTER, images, get_backend(), manner=manner)
    return len(stream.data)


def test_a_tuning_pays_for_itself() -> None:
    network = compact_network()
    for plan in (Plan(rate=1e-2, weight_rate=0), Plan(rate=1e-2, weight_rate=0.05)):
        data = write_tuning(learn(network, plan, 80), network)
        tuned = apply_tuning(network, read_tuning(data, network))
        assert file_size(tuned) + len(data) < 0.98 * file_size(network)


def test_what_adaptation_brings_anyway_is_not_learnt() -> None:
    """A tuning that knows of adaptation is smaller, and costs less beside it."""
    network = compact_network()
    levels = torch.from_numpy(unusual_image()).permute(2, 0, 1)
    sizes = {}
    for adaptive_from in (1.0, math.inf):
        tuner = Tuner(network, RASTER, [levels], Plan(rate=1e-2), adaptive_from=adaptive_from)
        change = tuner.run(Budget(80))
        data = write_tuning(tuner.tuning(), network)
        tuned = apply_tuning(network, read_tuning(data, network))
        sizes[adaptive_from] = len(data) + file_size(tuned, manner=BY_ERRORS)
        if adaptive_from == 1:
            real = sizes[1] / file_size(network, manner=BY_ERRORS) - 1
            assert abs(real - change) < 0.04
    assert sizes[1] < sizes[math.inf]


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


def test_the_same_seed_learns_the_same() -> None:
    network = compact_network()
    ours, theirs = (learn(network, Plan(), 5) for _ in range(2))
    assert write_tuning(ours, network) == write_tuning(theirs, network)


def test_the_estimate_falls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lmzip.models.tune.INTERVAL", 20)
    network, told = compact_network(), []
    levels = torch.from_numpy(unusual_image()).permute(2, 0, 1)
    tuner = Tuner(network, RASTER, [levels], Plan(rate=1e-2))
    change = tuner.run(Budget(80), lambda *step: told.append(step))
    steps, totals, changes = zip(*told[19::20], strict=True)
    assert len(told) == 80
    assert steps == (20, 40, 60, 80)
    assert set(totals) == {80}
    assert changes[-1] == change < changes[0] < 0
    data = write_tuning(tuner.tuning(), network)
    real = (file_size(apply_tuning(network, tuner.tuning())) + len(data)) / file_size(network)
    assert abs(real - 1 - change) < 0.02


def test_learning_ends_early_where_it_does_not_help(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lmzip.models.tune.INTERVAL", 5)
    monkeypatch.setattr("lmzip.models.tune.WORTH", 1.0)
    monkeypatch.setattr("lmzip.models.tune.FREE", 7)
    levels, told = torch.from_numpy(unusual_image()).permute(2, 0, 1), []
    tuner = Tuner(compact_network(), RASTER, [levels], Plan())
    tuner.run(Budget(1000), lambda step, steps, _: told.append((step, steps)))
    assert told[4] == (5, 1000)
    assert told[14] == (15, 30)  # twice the free steps show that it is not worth it
    assert told[-1] == (30, 30)


def test_learning_ends_when_the_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count(0.0)  # a second passes each time it is asked: once a step
    monkeypatch.setattr("lmzip.models.tune.time.perf_counter", lambda: next(clock))
    levels, told = torch.from_numpy(unusual_image()).permute(2, 0, 1), []
    tuner = Tuner(compact_network(), RASTER, [levels], Plan())
    tuner.run(Budget(1000, seconds=5), lambda step, steps, _: told.append((step, steps)))
    assert told == [(1, 5), (2, 5), (3, 5), (4, 5), (5, 5)]


def test_a_slow_first_step_does_not_end_learning(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.chain([0.0, 40.0], itertools.count(41.0))  # the first step takes 40 seconds
    monkeypatch.setattr("lmzip.models.tune.time.perf_counter", lambda: next(clock))
    levels, told = torch.from_numpy(unusual_image()).permute(2, 0, 1), []
    tuner = Tuner(compact_network(), RASTER, [levels], Plan())
    tuner.run(Budget(1000, seconds=60), lambda step, steps, _: told.append((step, steps)))
    assert told[-1] == (21, 21)


def test_pictures_smaller_than_a_crop() -> None:
    network = compact_network()
    pictures = [torch.randint(0, 256, (3, 5, 70), dtype=torch.uint8), torch.zeros(3, 70, 9)]
    tuner = Tuner(network, RASTER, [p.to(torch.uint8) for p in pictures], Plan())
    tuner.run(Budget(3))
    apply_tuning(network, tuner.tuning())
