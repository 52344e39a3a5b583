"""The tunings of a second .lmz codec, written from FORMAT.md alone in plain Python integers."""

from __future__ import annotations

import copy
import zlib
from dataclasses import replace
from typing import Any

from support.oracle_fields import Reader
from support.oracle_streams import Decoder, Network, build_network, clip, flatten, shift_round

ROLES = ("first", "conv", "project", "out")
KINDS = "ghbd"


def name_layers(network: Network) -> list[tuple[str, str]]:
    """Name every layer with its role, in the sequence of a tuning."""
    layers = [("first", "first")]
    for number in range(len(network.blocks)):
        layers += [(f"blocks.{number}.{role}", role) for role in ("conv", "project")]
    return [*layers, ("out", "out")]


def find_bounds(largest: int, z: int, r: int) -> list[int]:
    """Give the bounds of the intervals of -largest..largest."""
    side = [1 << 16]
    while len(side) < largest:
        side.append((side[-1] * r) >> 8)
    weights = [*reversed(side), (8 + z % 8) << (z // 8), *side]
    ends = [sum(weights[:j]) for j in range(len(weights) + 1)]
    shared = (1 << 24) - len(weights)
    return [end * shared // ends[-1] + j for j, end in enumerate(ends)]


def read_tuning(data: bytes, network: Network) -> dict[tuple[str, str], list[int]]:
    """Read the numbers of a tuning by the name of a layer and the kind of number."""
    reader = Reader(data)
    groups = {}
    for role in ROLES:
        for kind in KINDS:
            largest = reader.varint()
            assert largest <= 4096
            step, z, r = reader.take(3) if largest else (0, 0, 0)
            assert step <= 16
            assert z <= 199
            groups[role, kind] = (largest, step, z, r)
    decoder = Decoder(data[reader.place :])
    numbers = {}
    for (group, kind), (largest, step, z, r) in groups.items():
        if not largest:
            continue
        bounds = find_bounds(largest, z, r)
        for name, role in name_layers(network):
            if role == group:
                outputs, taps, inputs = network.shapes[f"{name}.weight"]
                count = {"g": outputs, "h": inputs, "b": outputs, "d": outputs * taps * inputs}
                numbers[name, kind] = [
                    (decoder.code(bounds, 0) - largest) << step for _ in range(count[kind])
                ]
    decoder.finish()
    return numbers


def with_bank(network: Network, data: bytes) -> Network:
    """Give a network the tunings of its bank, by their numbers."""
    reader = Reader(data)
    assert reader.take(5) == b"LMZT\1"
    assert network.fingerprint.startswith(reader.take(8))
    tunings = {}
    for _ in range(reader.number(1)):
        number, _name = reader.number(1), reader.block()
        tunings[number] = reader.block()
        assert tune(network, tunings[number]).fingerprint[:4] == reader.take(4)
    assert zlib.crc32(data[: reader.place]) == reader.number(4)
    assert reader.at_end()
    return replace(network, bank=tunings)


def tune(network: Network, data: bytes) -> Network:
    """Change a network as the bytes of a tuning say."""
    numbers = read_tuning(data, network)
    tensors = copy.deepcopy(network.tensors)
    for name, role in name_layers(network):
        largest = 255 if role == "first" else network.activation_max
        tune_layer(name, tensors, {kind: numbers.get((name, kind)) for kind in KINDS}, largest)
    return build_network(tensors, network.shapes, network.config)


def bound_of(row: Any, masks: list[int], bias: int, largest: int) -> int:
    """Bound what the sum of one output can reach."""
    return sum(map(abs, flatten(row))) * largest + sum(map(abs, masks)) + abs(bias)


def tune_layer(
    name: str, tensors: dict[str, Any], changes: dict[str, list[int] | None], largest: int
) -> None:
    """Change one layer, and halve the outputs whose sums could reach 2^24."""
    weight, bias, shift = (tensors[f"{name}.{part}"] for part in ("weight", "bias", "shift"))
    masks = tensors[f"{name}.mask_weight"]
    taps, inputs = len(weight[0]), len(weight[0][0])
    for o, row in enumerate(weight):
        g, b = changes["g"][o] if changes["g"] else 0, changes["b"][o] if changes["b"] else 0
        assert abs(g) <= 1024
        assert abs(b) <= 1 << 24
        for t in range(taps):
            for i in range(inputs):
                h = changes["h"][i] if changes["h"] else 0
                assert abs(h) <= 1024
                d = changes["d"][(o * taps + t) * inputs + i] if changes["d"] else 0
                tuned = shift_round(row[t][i] * (128 + g) * (128 + h), 14) + d
                row[t][i] = clip(tuned, -32767, 32767)
        bias[o] += b << shift[o]
        while bound_of(row, masks[o], bias[o], largest) >= 1 << 24:
            assert shift[o] > 0
            row[:] = [[shift_round(w, 1) for w in tap] for tap in row]
            masks[o] = [shift_round(w, 1) for w in masks[o]]
            bias[o] = shift_round(bias[o], 1)
            shift[o] -= 1
