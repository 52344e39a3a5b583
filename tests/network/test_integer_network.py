"""Model files: what is written is read back, what may be inexact is refused."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file
from support import oracle_streams
from support.networks import compact_network, random_network, to_oracle, write_model

from lmzip.errors import ModelError
from lmzip.network.integer_network import (
    EXACT,
    IntegerNetwork,
    Layer,
    load_integer_network,
    save_integer_network,
)
from lmzip.order.schedule import Taps


def replace_layer(network: IntegerNetwork, name: str, **changes: Any) -> IntegerNetwork:
    """Return a network with another first layer, convolution, projection or output layer."""
    if name in ("first", "out"):
        layer = dataclasses.replace(getattr(network, name), **changes)
        return dataclasses.replace(network, **{name: layer})
    conv, project = network.blocks[1]
    if name == "conv":
        conv = dataclasses.replace(conv, **changes)
    else:
        project = dataclasses.replace(project, **changes)
    blocks = (network.blocks[0], (conv, project), *network.blocks[2:])
    return dataclasses.replace(network, blocks=blocks)


def layer_of(network: IntegerNetwork, name: str) -> Layer:
    layers = {
        "first": network.first,
        "conv": network.blocks[1][0],
        "project": network.blocks[1][1],
        "out": network.out,
    }
    return layers[name]


LAYERS = ("first", "conv", "project", "out")


@pytest.mark.parametrize("network", [random_network(), compact_network()], ids=lambda n: n.name)
def test_files_hold_the_whole_network(network: IntegerNetwork, tmp_path: Path) -> None:
    path = write_model(dataclasses.replace(network, notes={"bpd": 3.5}), tmp_path)
    loaded = load_integer_network(path)
    assert to_oracle(loaded) == to_oracle(network)
    assert (loaded.name, loaded.orders, loaded.notes) == (
        network.name,
        network.orders,
        {"bpd": 3.5},
    )
    assert loaded.fingerprint() == network.fingerprint()


def test_fingerprint_is_that_of_the_page(tmp_path: Path) -> None:
    for network in (random_network(), compact_network()):
        oracle_network = oracle_streams.read_model(write_model(network, tmp_path).read_bytes())
        assert oracle_network == to_oracle(network)
        assert oracle_network.fingerprint.hex() == network.fingerprint()


def test_fingerprint_ignores_names_and_types_but_no_number() -> None:
    network = compact_network()
    same = dataclasses.replace(network, name="other", orders=("s-curve",), notes={"a": 1})
    assert same.fingerprint() == network.fingerprint()
    for name in LAYERS:
        layer = layer_of(network, name)
        for part in ("weight", "mask_weight", "bias", "shift"):
            values = getattr(layer, part).copy()
            values.flat[-1] += 1
            changed = replace_layer(network, name, **{part: values})
            assert changed.fingerprint() != network.fingerprint(), (name, part)
    for number in ("activation_max", "stream_max", "stream_bits", "predictor_shift"):
        changed = dataclasses.replace(network, **{number: getattr(network, number) + 1})
        assert changed.fingerprint() != network.fingerprint(), number
    for table in ("logistic", "inverse_scale", "weight", "log2"):
        values = getattr(network.tables, table).copy()
        values[5] += 1
        tables = dataclasses.replace(network.tables, **{table: values})
        changed = dataclasses.replace(network, tables=tables)
        assert changed.fingerprint() != network.fingerprint(), table


@pytest.mark.parametrize("name", LAYERS)
def test_a_sum_that_may_reach_the_bound_is_refused(name: str) -> None:
    """The last weight that fits is accepted, one more is not."""
    network = random_network()
    layer = layer_of(network, name)
    top = 255 if name == "first" else network.activation_max
    room = EXACT - 1 - int(layer.bounds(top)[2])
    bias = layer.bias.copy()
    bias[2] += room if bias[2] >= 0 else -room
    replace_layer(network, name, bias=bias).prove_exact()
    bias[2] += 1 if bias[2] >= 0 else -1
    with pytest.raises(ModelError, match="sums of output 2 may reach 16777216"):
        replace_layer(network, name, bias=bias).prove_exact()


def test_every_part_of_a_sum_counts() -> None:
    """Weights, mask weights and biases each can be what is too much."""
    network = random_network()
    for part in ("weight", "mask_weight", "bias"):
        values = network.first.weight * 0, network.first.mask_weight * 0, network.first.bias * 0
        layer = dataclasses.replace(
            network.first, weight=values[0], mask_weight=values[1], bias=values[2]
        )
        large = getattr(layer, part)
        large.flat[0] = -EXACT
        with pytest.raises(ModelError, match="first layer: sums of output 0"):
            dataclasses.replace(network, first=layer).prove_exact()


def test_a_block_must_see_its_own_pixel() -> None:
    network = random_network()
    conv, project = network.blocks[0]
    offsets = tuple((0, 5) if offset == (0, 0) else offset for offset in conv.taps.offsets)
    elsewhere = dataclasses.replace(conv, taps=Taps(offsets))
    blocks = ((elsewhere, project), *network.blocks[1:])
    with pytest.raises(ModelError, match=r"block 0, convolution: there is no tap at \(0, 0\)"):
        dataclasses.replace(network, blocks=blocks).prove_exact()


def test_predictor_and_stream_are_bounded_too() -> None:
    network = random_network()
    predictor = network.predictor.copy()
    predictor[17, 1, 3] = EXACT // 255
    with pytest.raises(ModelError, match="predictor"):
        dataclasses.replace(network, predictor=predictor).prove_exact()
    with pytest.raises(ModelError, match="stream"):
        dataclasses.replace(network, stream_max=EXACT - 100).prove_exact()
    for wrong in (0, 1 << 15):
        with pytest.raises(ModelError, match=str(wrong)):
            dataclasses.replace(network, activation_max=wrong).prove_exact()
    shift = network.out.shift.copy()
    for wrong in (-1, 25):
        shift[0] = wrong
        with pytest.raises(ModelError, match="shifts"):
            replace_layer(network, "out", shift=shift).prove_exact()


@pytest.mark.parametrize(
    ("table", "place", "value"),
    [
        ("logistic", 8000, 0),
        ("logistic", -1, (1 << 16) + 1),
        ("inverse_scale", 3, 0),
        ("inverse_scale", 3, 1 << 17),
        ("weight", 0, 0),
        ("weight", 4, -1),
        ("weight", 4, 1 << 17),
    ],
)
def test_tables_that_break_the_mixture_are_refused(table: str, place: int, value: int) -> None:
    network = compact_network()
    values = getattr(network.tables, table).astype(np.int64)
    values[place] = value
    tables = dataclasses.replace(network.tables, **{table: values})
    with pytest.raises(ModelError):
        dataclasses.replace(network, tables=tables).prove_exact()


def test_saving_and_loading_prove_again(tmp_path: Path) -> None:
    network = random_network()
    broken = dataclasses.replace(network, stream_max=EXACT - 100)
    with pytest.raises(ModelError):
        save_integer_network(broken, tmp_path / "broken.safetensors")
    assert not (tmp_path / "broken.safetensors").exists()

    path = rewrite(write_model(network, tmp_path), stream_max=EXACT - 100)
    with pytest.raises(ModelError, match=r"random\.safetensors.*stream"):
        load_integer_network(path)


TYPES: dict[str, Callable[[Any], Any]] = {
    "first.weight": lambda tensor: tensor + np.float32(0.25),
    "out.weight": lambda tensor: tensor.astype(np.int32),
    "blocks.1.conv.weight": lambda tensor: np.where(tensor == 0, np.nan, tensor),
    "blocks.0.project.bias": lambda tensor: tensor.astype(np.float64),
    "first.shift": lambda tensor: tensor.astype(np.int64),
    "tables.logistic": lambda tensor: tensor[:-1],
    "tables.log2": lambda tensor: np.append(tensor, tensor[-1:]),
    "predictor.weight": lambda tensor: tensor + 0.25,
}


@pytest.mark.parametrize("name", TYPES)
def test_tensors_of_another_type_or_length_are_refused(name: str, tmp_path: Path) -> None:
    """Fractions would round to the integers of the fingerprint, and are not exact."""
    path = write_model(compact_network(), tmp_path)
    with safe_open(path, "numpy") as file:
        metadata = file.metadata()
        tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    tensors[name] = np.ascontiguousarray(TYPES[name](tensors[name]))
    save_file(tensors, path, metadata)
    with pytest.raises(ModelError, match=r"compact\.safetensors: ") as caught:
        load_integer_network(path)
    assert name.removesuffix(".weight").rpartition(".")[2] in str(caught.value)


def rewrite(path: Path, drop: str | None = None, **changes: Any) -> Path:
    """Change a model file's description, or leave out a tensor."""
    with safe_open(path, "numpy") as file:
        metadata = file.metadata()
        tensors = {name: file.get_tensor(name) for name in file.keys() if name != drop}  # noqa: SIM118
    description = {**json.loads(metadata["network"]), **changes}
    save_file(tensors, path, {**metadata, "network": json.dumps(description)})
    return path


def test_files_that_are_no_models_are_named(tmp_path: Path) -> None:
    path = write_model(compact_network(), tmp_path)
    whole = path.read_bytes()
    for name, content in {"empty": b"", "text": b"hello world" * 9, "cut": whole[:-100]}.items():
        bad = tmp_path / f"{name}.safetensors"
        bad.write_bytes(content)
        with pytest.raises(ModelError, match=name):
            load_integer_network(bad)
    with pytest.raises(ModelError, match="missing"):
        load_integer_network(tmp_path / "missing.safetensors")
    save_file({"a": np.zeros(3)}, tmp_path / "other.safetensors", {"kind": "another thing"})
    with pytest.raises(ModelError, match="another thing"):
        load_integer_network(tmp_path / "other.safetensors")
    for drop in ("first.bias", "blocks.1.conv.offsets", "tables.log2", "predictor.weight"):
        bad = write_model(compact_network(), tmp_path)
        with pytest.raises(ModelError, match="incomplete"):
            load_integer_network(rewrite(bad, drop=drop))
