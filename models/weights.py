"""Float networks as files: one safetensors file with the configuration in its metadata.

The metadata has three entries: `kind` ("compact" or "paper"), `config` (the fields of the
configuration, as JSON) and `notes` (whatever the writer wants to say, as JSON). Nothing in such a
file is executed.
"""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import safetensors
import torch
from safetensors.torch import save
from torch import Tensor, nn

from lmzip.errors import InputError, ModelError

# kind -> module, configuration class, network class. Modules are imported when they are needed.
_KINDS = {
    "compact": ("lmzip.models.compact", "CompactConfig", "CompactNetwork"),
    "paper": ("lmzip.models.paper", "PaperConfig", "PaperNetwork"),
}
KINDS = tuple(_KINDS)


def make_config(kind: str, settings: Mapping[str, Any]) -> Any:
    """Return the configuration of a network, from a named size, from fields, or from both.

    Raises InputError if a name, a field or a value is unknown.
    """
    if kind not in _KINDS:
        raise InputError(f"unknown kind of network {kind!r}: choose from {', '.join(KINDS)}")
    module = importlib.import_module(_KINDS[kind][0])
    config_class = getattr(module, _KINDS[kind][1])
    settings = dict(settings)
    size = settings.pop("size", None)
    named: dict[str, Any] = module.CONFIGS
    if size is not None and size not in named:
        raise InputError(f"unknown size {size!r}: choose from {', '.join(named)}")
    known = [field.name for field in fields(config_class)]
    for key in settings:
        if key not in known:
            raise InputError(f"a {kind} network has no {key!r}: choose from {', '.join(known)}")
    try:
        base = named[size] if size is not None else config_class()
        return type(base).from_dict({**asdict(base), **settings})
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise InputError(f"{kind} network with {settings}: {error}") from None


def make_network(config: Any) -> nn.Module:
    """Return a freshly initialised network of a configuration."""
    module_name, _, network_class = _KINDS[kind_of(config)]
    network: nn.Module = getattr(importlib.import_module(module_name), network_class)(config)
    return network


def kind_of(config: Any) -> str:
    """Return the kind that a configuration belongs to."""
    for kind, (_, config_class, _) in _KINDS.items():
        if type(config).__name__ == config_class:
            return kind
    raise TypeError(f"not a network configuration: {config!r}")


def save_network(network: nn.Module, path: str | Path, notes: Mapping[str, Any] = {}) -> None:  # noqa: B006
    """Write a network's weights and configuration, whole or not at all."""
    config = network.config
    metadata = {
        "kind": kind_of(config),
        "config": json.dumps(asdict(config)),  # type: ignore[call-overload]
        "notes": json.dumps(dict(notes)),
    }
    tensors = {name: t.detach().cpu().contiguous() for name, t in network.state_dict().items()}
    write_atomically(path, save(tensors, metadata))


def load_network(path: str | Path) -> nn.Module:
    """Read a network that `save_network` wrote. Raises ModelError if it cannot be used."""
    tensors, metadata = _read(path)
    try:
        network = make_network(make_config(metadata["kind"], json.loads(metadata["config"])))
        network.load_state_dict(tensors)
    except (InputError, KeyError, ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise ModelError(f"{path}: not a network of lmzip ({reason})") from None
    return network


def load_notes(path: str | Path) -> dict[str, Any]:
    """Read the notes beside a network's weights."""
    notes: dict[str, Any] = json.loads(_read(path)[1].get("notes", "{}"))
    return notes


def average_networks(paths: Sequence[str | Path]) -> nn.Module:
    """Return a network whose weights are the mean of several files' weights."""
    network = load_network(paths[0])
    total = {name: tensor.double() for name, tensor in network.state_dict().items()}
    for path in paths[1:]:
        for name, tensor in load_network(path).state_dict().items():
            total[name] += tensor
    network.load_state_dict({name: tensor / len(paths) for name, tensor in total.items()})
    return network


def write_atomically(path: str | Path, data: bytes) -> None:
    """Write a file beside its target, sync it and rename it: a reader sees all of it or none."""
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _read(path: str | Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}  # noqa: SIM118
    except FileNotFoundError:
        raise ModelError(f"{path}: no such file") from None
    except (OSError, safetensors.SafetensorError) as error:
        raise ModelError(f"{path}: not a safetensors file ({error})") from None
