"""Reads the checkpoints of the paper's authors (ajayjain/lmconv) into our network.

Their files wrap the parameters in a dict with the run's arguments and the optimiser's state.
Nothing in a file is executed: it is read with `weights_only`. What the shapes do not show (levels,
dilation) comes from the stored arguments, or from the caller.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from lmzip.errors import InputError, ModelError
from lmzip.models.paper import PaperConfig, PaperNetwork

_STATE_KEYS = "model_state_dict", "state_dict", "model"
_PARALLEL_PREFIX = "module."

# From our names to theirs, applied in sequence.
_RENAMES = (
    (r"^first\.", "u_init."),
    (r"^(up|down)\.(\d+)\.(\d+)\.", r"\1_layers.\2.u_stream.\3."),
    (r"^up_dilated\.", "downsize_u_stream."),
    (r"^down_dilated\.", "upsize_u_stream."),
    (r"^output\.", "nin_out.lin_a."),
    (r"\.enter\.", ".conv_input."),
    (r"\.leave\.", ".conv_out."),
    (r"\.skip\.", ".nin_skip.lin_a."),
    (r"\.gain$", ".weight_g"),
    (r"\.direction$", ".weight_v"),
)


class _Ignored:
    """Stands for the numpy scalars in their files (test losses), which are of no use here."""

    def __init__(self, *_: object) -> None:
        pass

    def __setstate__(self, _: object) -> None:
        pass


_IGNORED_GLOBALS = ("numpy.core.multiarray.scalar", "numpy._core.multiarray.scalar", "numpy.dtype")


def import_reference(
    path: str | os.PathLike[str], *, levels: int | None = None, dilation: int | None = None
) -> PaperNetwork:
    """Return the network that a checkpoint of the authors' repository holds.

    `levels` and `dilation` override the run's arguments in the file; without either they are 256
    (2 for a softmax over two levels) and 2. Raises ModelError if the file cannot be read or does
    not hold such a network.
    """
    checkpoint = _load(path)
    state = _find_state(checkpoint, path)
    arguments = checkpoint.get("args")
    arguments = dict(arguments) if isinstance(arguments, Mapping) else {}
    if levels is not None:
        arguments["levels"] = levels
    if dilation is not None:
        arguments["max_dilation"] = dilation
    _check_normalisation(state, arguments, path)
    config = _infer_config(state, arguments, path)

    with torch.device("meta"):  # no memory and no initialisation: every tensor comes from the file
        network = PaperNetwork(config)
    state = _add_biases(_normalise_pointwise(state), network)
    ours = {reference_name(name): name for name in network.state_dict()}
    _check_names(ours.keys(), state.keys(), path)
    converted = {ours[name]: tensor.float() for name, tensor in state.items()}
    for name, expected in network.state_dict().items():
        if converted[name].shape != expected.shape:
            raise ModelError(
                f"{path}: {reference_name(name)} has shape {tuple(converted[name].shape)}, "
                f"expected {tuple(expected.shape)}"
            )
    network.load_state_dict(converted, assign=True)
    return network


def reference_name(name: str) -> str:
    """Return the name that the authors' code gives to one of our parameters."""
    for pattern, replacement in _RENAMES:
        name = re.sub(pattern, replacement, name)
    return name


def _load(path: str | os.PathLike[str]) -> Mapping[str, Any]:
    ignored: list[Any] = [(_Ignored, name) for name in _IGNORED_GLOBALS]
    try:
        with open(path, "rb") as file, torch.serialization.safe_globals(ignored):
            checkpoint = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged file can raise anything, struct.error included
        first_sentence = str(error).partition("\n")[0].partition(". ")[0]
        reason = getattr(error, "strerror", None) or f"{type(error).__name__}: {first_sentence}"
        raise ModelError(f"{path}: not a readable checkpoint ({reason})") from error
    if not isinstance(checkpoint, Mapping):
        raise ModelError(f"{path}: not a checkpoint, but a {type(checkpoint).__name__}")
    return checkpoint


def _find_state(checkpoint: Mapping[str, Any], path: str | os.PathLike[str]) -> dict[str, Tensor]:
    """Return the parameters by the authors' names, without wrapping or prefix."""
    wrapped = next((checkpoint[key] for key in _STATE_KEYS if key in checkpoint), checkpoint)
    if not isinstance(wrapped, Mapping):
        raise ModelError(f"{path}: the model's state is a {type(wrapped).__name__}, not a dict")
    state = {}
    for name, tensor in wrapped.items():
        if not isinstance(tensor, Tensor):
            raise ModelError(f"{path}: {name} is not a tensor")
        state[str(name).removeprefix(_PARALLEL_PREFIX)] = tensor
    return state


def _check_normalisation(
    state: Mapping[str, Tensor], arguments: Mapping[str, Any], path: str | os.PathLike[str]
) -> None:
    """Refuse runs with another normalisation: that of channels leaves no trace in the names."""
    used = "weight_norm" if "u_init.weight_g" in state else arguments.get("normalization", "pono")
    if used != "pono":
        raise ModelError(f"{path}: trained with normalization {used!r}, only 'pono' can be read")


def _infer_config(
    state: Mapping[str, Tensor], arguments: Mapping[str, Any], path: str | os.PathLike[str]
) -> PaperConfig:
    """Read the configuration from shapes and, where they say nothing, from the run's arguments."""
    first = state.get("u_init.weight")
    output = state.get("nin_out.lin_a.weight_v", state.get("nin_out.lin_a.weight"))
    if first is None or output is None or first.dim() != 4 or output.dim() != 2:
        raise ModelError(f"{path}: no single-stream network (u_init.weight and nin_out.lin_a)")
    blocks = {name.split(".")[3] for name in state if name.startswith("up_layers.0.u_stream.")}
    channels, outputs = first.shape[1] - 1, output.shape[0]
    binary = channels == 1 and outputs == 2
    logistics = PaperConfig.logistics if binary else outputs // (10 if channels == 3 else 3)
    bits, dilation = arguments.get("n_bits", 8), arguments.get("max_dilation", 2)
    if not isinstance(bits, int) or not 0 < bits <= 16 or not isinstance(dilation, int):
        raise ModelError(f"{path}: arguments n_bits={bits!r} and max_dilation={dilation!r}")
    try:
        return PaperConfig(
            channels=channels,
            levels=2 if binary else arguments.get("levels", 2**bits),
            filters=first.shape[0],
            blocks=len(blocks),
            logistics=logistics,
            kernel_size=first.shape[2],
            dilation=dilation,
            mask_conditioning="u_init.mask_weight" in state,
        )
    except InputError as error:
        raise ModelError(f"{path}: {error}") from error


def _normalise_pointwise(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Split plain 1x1 weights, as early versions of the code had them, into direction and gain."""
    result = {}
    for name, tensor in state.items():
        if not name.endswith("lin_a.weight"):
            result[name] = tensor
            continue
        gain = tensor.norm(dim=1, keepdim=True)
        result[name + "_g"] = gain
        result[name + "_v"] = torch.where(gain > 0, tensor, torch.ones_like(tensor))
    return result


def _add_biases(state: Mapping[str, Tensor], network: PaperNetwork) -> dict[str, Tensor]:
    """Add biases of zero if a network was trained without: with some, each must be there."""
    shapes = {reference_name(name): tensor.shape for name, tensor in network.state_dict().items()}
    result = dict(state)
    for is_pointwise in (True, False):
        biases = [
            name
            for name in shapes
            if name.endswith(".bias") and name.endswith("lin_a.bias") == is_pointwise
        ]
        if not any(name in state for name in biases):
            result |= {name: torch.zeros(shapes[name]) for name in biases}
    return result


def _check_names(
    expected: Iterable[str], found: Iterable[str], path: str | os.PathLike[str]
) -> None:
    for fault, names in (
        ("missing", sorted(set(expected) - set(found))),
        ("unexpected", sorted(set(found) - set(expected))),
    ):
        if names:
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            raise ModelError(f"{path}: {fault} parameters: {', '.join(names[:3])}{more}")
