"""Float networks come back as they were saved, and damaged files raise a named error."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from lmzip.errors import InputError, ModelError
from lmzip.models.compact import CONFIGS, Block, CompactConfig
from lmzip.models.paper import FACES, PaperConfig
from lmzip.models.weights import (
    Config,
    average_networks,
    load_network,
    load_notes,
    make_config,
    make_network,
    save_network,
)

TINY = CompactConfig(4, 3, (Block(4), Block(5, 3, 2)), 2, channels=1, levels=16)


@pytest.mark.parametrize("config", [TINY, PaperConfig(filters=4, blocks=1, logistics=2)])
def test_round_trip(tmp_path: Path, config: Config) -> None:
    path = tmp_path / "network.safetensors"
    network = make_network(config)
    save_network(network, path, {"step": 3, "data": ["a", "b"]})
    again = load_network(path)
    assert type(again) is type(network)
    assert again.config == config
    expected = network.state_dict()
    assert again.state_dict().keys() == expected.keys()
    assert all(torch.equal(tensor, expected[name]) for name, tensor in again.state_dict().items())
    assert load_notes(path) == {"step": 3, "data": ["a", "b"]}
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_average_is_the_mean(tmp_path: Path) -> None:
    paths = []
    for value in (1.0, 2.0, 6.0):
        network = make_network(TINY)
        for parameter in network.parameters():
            torch.nn.init.constant_(parameter, value)
        paths.append(tmp_path / f"{value}.safetensors")
        save_network(network, paths[-1])
    assert all((parameter == 3).all() for parameter in average_networks(paths).parameters())


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "network.safetensors"
    with pytest.raises(ModelError, match=r"network\.safetensors: no such file"):
        load_network(path)
    save_network(make_network(TINY), path)
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(ModelError, match="not a safetensors file"):
        load_network(path)
    for metadata in (
        {},
        {"kind": "compact"},
        {"kind": "compact", "config": "{"},
        {"kind": "compact", "config": "[]"},
        {"kind": "unknown", "config": "{}"},
        {"kind": "compact", "config": json.dumps({"width": "wide"})},
        {"kind": "compact", "config": json.dumps({"width": 4})},  # other tensors
    ):
        save_file({"a": torch.zeros(2)}, path, metadata)
        with pytest.raises(ModelError, match="not a network of lmzip"):
            load_network(path)


def test_configurations_by_name_and_by_fields() -> None:
    assert make_config("compact", {"size": "base"}) == CONFIGS["base"]
    assert make_config("paper", {"size": "faces"}) == FACES
    assert make_config("paper", {"channels": 1, "levels": 2}) == PaperConfig(1, 2)
    config = make_config("compact", {"size": "tiny", "levels": 32, "blocks": [{"hidden": 9}]})
    assert isinstance(config, CompactConfig)
    assert (config.width, config.levels) == (CONFIGS["tiny"].width, 32)
    assert config.blocks == (Block(9),)


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        ("gated", {}, "unknown kind of network 'gated': choose from compact, paper"),
        ("compact", {"size": "giant"}, "unknown size 'giant': choose from tiny"),
        ("compact", {"size": ["tiny"]}, "unknown size"),
        ("compact", {"depth": 3}, "no 'depth': choose from width"),
        ("compact", {"width": 2.5}, "width = 2.5"),
        ("compact", {"width": 0}, "width = 0"),
        ("compact", {"blocks": 3}, "blocks = 3: must be a list"),
        ("compact", {"blocks": [{"size": 3}]}, "takes whole numbers"),
        ("compact", {"blocks": [{"hidden": "x"}]}, "takes whole numbers"),
        ("paper", {"channels": 2}, "1 or 3 channels, not 2"),
    ],
)
def test_unknown_settings_are_named(kind: str, settings: dict[str, object], message: str) -> None:
    with pytest.raises(InputError) as caught:
        make_config(kind, settings)
    assert message in str(caught.value)
