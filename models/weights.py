"""Float networks as files: one safetensors file with the configuration in its metadata.

The metadata has three entries: `kind` ("compact" or "paper"), `config` (the fields of the
configuration, as JSON) and `notes` (anything else worth saying, as JSON). Nothing in such a
file is executed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import safetensors
from safetensors.torch import save
from torch import Tensor

from lmzip.errors import InputError, ModelError
from lmzip.models.compact import CONFIGS, Block, CompactConfig, CompactNetwork
from lmzip.models.paper import FACES, PaperConfig, PaperNetwork
from lmzip.whole_files import replace_file

Config = CompactConfig | PaperConfig
Network = CompactNetwork | PaperNetwork


@dataclass(frozen=True)
class _Kind:
    config: type[CompactConfig] | type[PaperConfig]
    sizes: Mapping[str, Config]


_KINDS = {
    "compact": _Kind(CompactConfig, CONFIGS),
    "paper": _Kind(PaperConfig, {"default": PaperConfig(), "faces": FACES}),
}


def make_config(kind: str, settings: Mapping[str, Any]) -> Config:
    """Return a configuration by the name of a `size`, by fields, or by a size with changed fields.

    Raises InputError if a name, a field or a value is unknown.
    """
    if kind not in list(_KINDS):  # a list: what a file says may not be hashable
        raise InputError(f"unknown kind of network {kind!r}: choose from {', '.join(_KINDS)}")
    config_class, sizes = _KINDS[kind].config, _KINDS[kind].sizes
    changes = {key: value for key, value in settings.items() if key != "size"}
    size = settings.get("size")
    if size is not None and size not in list(sizes):
        raise InputError(f"unknown size {size!r}: choose from {', '.join(sizes)}")
    base = config_class() if size is None else sizes[size]
    known = [field.name for field in fields(config_class)]
    for key, value in changes.items():
        if key not in known:
            raise InputError(f"a {kind} network has no {key!r}: choose from {', '.join(known)}")
        if key == "blocks" and kind == "compact":
            changes[key] = _read_blocks(value)
        elif type(value) is not type(getattr(base, key)) or (type(value) is int and value < 1):
            raise InputError(f"{key} = {value!r}: not like {getattr(base, key)!r}")
    return config_class(**{**{name: getattr(base, name) for name in known}, **changes})


def _read_blocks(blocks: object) -> tuple[Block, ...]:
    """Read the blocks of a compact network, tables of whole numbers."""
    known = {field.name for field in fields(Block)}
    if not isinstance(blocks, list) or not all(isinstance(block, dict) for block in blocks):
        raise InputError(f"blocks = {blocks!r}: must be a list of tables")
    for block in blocks:
        right = all(type(value) is int and value > 0 for value in block.values())
        if not right or not {"hidden"} <= block.keys() <= known:
            raise InputError(f"block {block!r}: takes whole numbers {', '.join(sorted(known))}")
    return tuple(Block(**block) for block in blocks)


def make_network(config: Config) -> Network:
    """Return a freshly initialised network of a configuration."""
    if isinstance(config, CompactConfig):
        return CompactNetwork(config)
    return PaperNetwork(config)


def save_network(
    network: Network, path: str | Path, notes: Mapping[str, Any] | None = None
) -> None:
    """Write a network's weights and configuration, whole or not at all."""
    metadata = {
        "kind": "compact" if isinstance(network, CompactNetwork) else "paper",
        "config": json.dumps(asdict(network.config)),
        "notes": json.dumps(dict(notes or {})),
    }
    tensors = {name: t.detach().cpu().contiguous() for name, t in network.state_dict().items()}
    with replace_file(path) as file:
        file.write(save(tensors, metadata))


def load_network(path: str | Path) -> Network:
    """Read a network that `save_network` wrote. Raises ModelError if it cannot be used."""
    tensors, metadata = _read(path)
    try:
        network = make_network(make_config(metadata["kind"], json.loads(metadata["config"])))
        network.load_state_dict(tensors)
    except (InputError, KeyError, ValueError, RuntimeError, AttributeError) as error:
        reason = " ".join(str(error).split())
        raise ModelError(f"{path}: not a network of lmzip ({reason})") from None
    return network


def load_notes(path: str | Path) -> dict[str, Any]:
    """Read the notes that were saved with a network."""
    notes: dict[str, Any] = json.loads(_read(path)[1].get("notes", "{}"))
    return notes


def average_networks(paths: Sequence[str | Path]) -> Network:
    """Return a network whose weights are the mean of several files' weights."""
    network = load_network(paths[0])
    total = {name: tensor.double() for name, tensor in network.state_dict().items()}
    for path in paths[1:]:
        for name, tensor in load_network(path).state_dict().items():
            total[name] += tensor
    network.load_state_dict({name: tensor / len(paths) for name, tensor in total.items()})
    return network


def _read(path: str | Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}  # noqa: SIM118
    except FileNotFoundError:
        raise ModelError(f"{path}: no such file") from None
    except (OSError, safetensors.SafetensorError) as error:
        raise ModelError(f"{path}: not a safetensors file ({error})") from None
