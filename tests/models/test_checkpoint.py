"""Checkpoints are refused unless they are what they should be; snapshots keep the last few."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest
import torch

from lmzip.models.checkpoint import Counters, Snapshots, State, TrainingError
from lmzip.models.compact import Block, CompactConfig
from lmzip.models.optimise import make_optimisers
from lmzip.models.weights import load_notes, make_network


def make_state(width: int = 4) -> State:
    config = CompactConfig(width, 3, (Block(4),), 2, channels=1)
    network = make_network(config)
    return State(network, make_network(config), make_optimisers(network, "muon", 1e-3), Counters())


def test_round_trip(tmp_path: Path) -> None:
    first, second = make_state(), make_state()
    first.progress.step, first.progress.decay_start = 12, 5
    first.save(tmp_path / "a.pt")
    second.load(tmp_path / "a.pt")
    assert second.progress == first.progress
    for one, other in ((first.network, second.network), (first.average, second.average)):
        for a, b in zip(one.parameters(), other.parameters(), strict=True):
            assert torch.equal(a, b)


def test_what_is_no_checkpoint_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    with pytest.raises(TrainingError, match="no such checkpoint"):
        make_state().load(path)
    make_state(width=5).save(path)
    with pytest.raises(TrainingError, match=r"a\.pt: no checkpoint of this recipe \(.*size mism"):
        make_state().load(path)
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(TrainingError, match=r"a\.pt: not a checkpoint"):
        make_state().load(path)
    torch.save({"network": {}}, path)
    with pytest.raises(TrainingError, match="no checkpoint of this recipe"):
        make_state().load(path)


def test_a_checkpoint_cannot_run_code(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.mkdir, (str(tmp_path / "proof"),)

    torch.save({"network": Evil()}, tmp_path / "a.pt")
    (tmp_path / "b.pt").write_bytes(pickle.dumps(Evil(), 2))
    for name in ("a.pt", "b.pt"):
        with pytest.raises(TrainingError, match="not a checkpoint"):
            make_state().load(tmp_path / name)
    assert not (tmp_path / "proof").exists()


def test_snapshots_keep_the_last_few(tmp_path: Path) -> None:
    network = make_state().network
    snapshots = Snapshots(tmp_path / "snapshots", count=2, every=3)
    assert snapshots.average(0) is None
    for step in range(1, 11):
        for parameter in network.parameters():
            torch.nn.init.constant_(parameter, step)
        snapshots.offer(network, step)
    assert [load_notes(file) for file in snapshots.files(10)] == [{"step": 6}, {"step": 9}]
    mean = snapshots.average(10)
    assert mean is not None
    assert all((parameter == 7.5).all() for parameter in mean.parameters())
    earlier = snapshots.average(8)  # a run that fell back to step 8 has not seen step 9
    assert earlier is not None
    assert all((parameter == 6).all() for parameter in earlier.parameters())
