"""Integer networks: what a model file holds, and the proof that its sums are exact.

A network is a set of integer tensors in one safetensors file (FORMAT.md, "Model files"). Every sum
that the engine forms is a matrix product of integers held in float32; `prove_exact` shows that no
partial sum can reach 2^24, so that any order of summation gives the same result on any machine. It
runs on export and again whenever a file is loaded.

The fingerprint is a SHA-256 over the canonical integers: two files with the same fingerprint
predict the same frequencies.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from lmzip.errors import ModelError
from lmzip.network.tables import CDF_BITS, LOG2_SIZE, TABLE_SIZE, Tables
from lmzip.order.schedule import Taps
from lmzip.whole_files import replace_file

Ints = npt.NDArray[np.integer[Any]]

MAX_FILE_BYTES = 1 << 28  # of a model file: a hundred times the released ones
MAX_BLOCKS = 256
MAX_TABLE = 1 << 16  # entries of the tables that may have any length
EXACT = 1 << 24  # float32 represents every integer up to here
LARGEST_WEIGHT = (1 << 15) - 1  # weights are stored as int16
PIXEL_MAX = 255  # a sample x enters the network as 2x - 255
MAX_INVERSE_SCALE = 1 << 16  # keeps the mixture's products within int32
FILE_KIND = "lmzip integer network 1"


@dataclass(frozen=True)
class Layer:
    """A matrix product: round((weight x + mask_weight m + bias) / 2^shift) for each output.

    weight (outputs, taps, inputs), mask_weight (outputs, taps), bias and shift (outputs,). A layer
    without taps of its own (1x1) has the single tap (0, 0) and no mask weights.
    """

    taps: Taps
    weight: Ints
    mask_weight: Ints
    bias: Ints
    shift: Ints

    def bounds(self, input_max: int) -> npt.NDArray[np.int64]:
        """Return, for each output, what no partial sum can exceed."""
        weights = np.abs(self.weight.astype(np.int64)).sum((1, 2)) * input_max
        mask_weights = np.abs(self.mask_weight.astype(np.int64)).sum(1)
        return weights + mask_weights + np.abs(self.bias.astype(np.int64))

    def prove_exact(self, name: str, input_max: int) -> None:
        """Raise ModelError if a partial sum of any output could reach 2^24."""
        bounds = self.bounds(input_max)
        if bounds.max() >= EXACT:
            channel = int(bounds.argmax())
            raise ModelError(
                f"{name}: sums of output {channel} may reach {bounds[channel]}, not below 2^24"
            )
        if self.shift.min() < 0 or self.shift.max() > 24:
            raise ModelError(f"{name}: shifts must lie in 0..24")
        if np.abs(self.weight.astype(np.int64)).max() > LARGEST_WEIGHT:
            raise ModelError(f"{name}: weights must fit 16 bits")

    def check_shape(self, name: str, inputs: int, outputs: int) -> None:
        """Raise ModelError unless the tensors fit each other and the neighbouring layers."""
        taps = len(self.taps.offsets)
        if not inputs or not outputs or len(set(self.taps.offsets)) != taps or not taps:
            raise ModelError(f"{name}: {inputs} inputs, {outputs} outputs, {taps} taps")
        shapes = {
            "weight": (outputs, taps, inputs),
            "mask_weight": (outputs, taps),
            "bias": (outputs,),
            "shift": (outputs,),
        }
        for field, shape in shapes.items():
            actual = getattr(self, field).shape
            if actual != shape:
                raise ModelError(f"{name}: {field} has the shape {actual}, not {shape}")
            _check_integers(f"{name}: {field}", getattr(self, field))


@dataclass(frozen=True)
class IntegerNetwork:
    """A network as the codec runs it.

    predictor: (256, C, C * 8) integer kernels, one for each set of visible neighbours, and the
    shift of their sums. Activations lie in 0..activation_max; the residual stream is clipped to
    -stream_max..stream_max and carries stream_bits more bits than the activations.
    """

    name: str
    channels: int
    mixtures: int
    activation_max: int
    stream_max: int
    stream_bits: int
    predictor: Ints
    predictor_shift: int
    first: Layer
    blocks: tuple[tuple[Layer, Layer], ...]
    out: Layer
    tables: Tables
    orders: tuple[str, ...]  # the families and variants it was trained for, "raster" or "raster:*"
    notes: Mapping[str, Any]  # what the model's card says; not part of the fingerprint
    fraction_bits: int = 0  # of its inputs and means: see `lmzip.network.deep`

    @cached_property
    def _derived(self) -> dict[str, IntegerNetwork]:
        return {}

    def derived(
        self, name: str, derive: Callable[[IntegerNetwork], IntegerNetwork]
    ) -> IntegerNetwork:
        """Return a network that is made of this one, once, and lives as long as this one does."""
        if name not in self._derived:
            self._derived[name] = derive(self)
        return self._derived[name]

    @property
    def couplings(self) -> int:
        return self.channels * (self.channels - 1) // 2

    @property
    def multiply_adds(self) -> int:
        """The products that the network forms for each pixel."""
        layers = [self.first, self.out, *(layer for block in self.blocks for layer in block)]
        predictor = self.predictor.shape[1] * self.predictor.shape[2]
        return int(predictor + sum(layer.weight.size for layer in layers))

    @property
    def layers(self) -> tuple[Taps, ...]:
        """The different ways in which layers look at their neighbours, the predictor's included."""
        convolutions = [conv.taps for conv, _ in self.blocks]
        return tuple(dict.fromkeys([PREDICTOR_TAPS, self.first.taps, *convolutions]))

    def fingerprint(self) -> str:
        """Return the SHA-256 of the canonical integers, in hexadecimal."""
        digest = hashlib.sha256()
        for name, tensor in sorted(_tensors(self)):
            shape = ",".join(map(str, tensor.shape))
            digest.update(f"{name}[{shape}]".encode())
            digest.update(np.ascontiguousarray(tensor, "<i8").tobytes())
        digest.update(json.dumps(_arithmetic(self), sort_keys=True).encode())
        return digest.hexdigest()

    def prove_exact(self) -> None:
        """Raise ModelError unless every sum of the engine is exact."""
        self._check_shapes()
        predictor = np.abs(self.predictor.astype(np.int64)).sum(2).max() * PIXEL_MAX
        if predictor >= EXACT:
            raise ModelError(f"predictor: sums may reach {predictor}, not below 2^24")
        if not 0 < self.activation_max < 1 << 15 or not 0 < self.stream_max < EXACT:
            raise ModelError(f"activations up to {self.activation_max} cannot be exact")
        if not (0 <= self.stream_bits <= 24 and 0 <= self.predictor_shift <= 24):
            raise ModelError(f"shifts {self.stream_bits}, {self.predictor_shift} are not in 0..24")
        self.first.prove_exact("first layer", PIXEL_MAX)
        for number, (conv, project) in enumerate(self.blocks):
            conv.prove_exact(f"block {number}, convolution", self.activation_max)
            project.prove_exact(f"block {number}, projection", self.activation_max)
            # A projection is added to the stream before the stream is clipped.
            changes = project.bounds(self.activation_max) >> project.shift.astype(np.int64)
            largest = self.stream_max + int(changes.max()) + 1
            if largest >= EXACT:
                raise ModelError(f"block {number}: the stream may reach {largest}, not below 2^24")
        self.out.prove_exact("outputs", self.activation_max)
        _check_tables(self.tables)

    def _check_shapes(self) -> None:
        """Raise ModelError unless the layers fit each other and look where they may."""
        channels, width = self.channels, len(self.first.weight)
        if channels not in (1, 3) or self.mixtures < 1:
            raise ModelError(f"{channels} channels and {self.mixtures} mixtures are not supported")
        if self.predictor.shape != (256, channels, 8 * channels):
            raise ModelError(f"predictor: the shape {self.predictor.shape} is wrong")
        _check_integers("predictor", self.predictor)
        if (0, 0) in self.first.taps.offsets:
            raise ModelError("first layer: a tap at (0, 0) would see the pixel it predicts")
        self.first.check_shape("first layer", channels, width)
        pointwise = [("outputs", self.out)]
        for number, (conv, project) in enumerate(self.blocks):
            hidden = len(conv.weight)
            conv.check_shape(f"block {number}, convolution", width, hidden)
            if (0, 0) not in conv.taps.offsets:
                raise ModelError(f"block {number}, convolution: there is no tap at (0, 0)")
            project.check_shape(f"block {number}, projection", hidden, width)
            pointwise.append((f"block {number}, projection", project))
        self.out.check_shape("outputs", width, self.mixtures * (1 + 2 * channels + self.couplings))
        for name, layer in pointwise:
            if layer.taps != POINTWISE:
                raise ModelError(f"{name}: the only tap must be (0, 0)")


_AROUND = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0)]
PREDICTOR_TAPS = Taps(tuple(_AROUND))
POINTWISE = Taps(((0, 0),))


def _check_integers(name: str, tensor: Ints) -> None:
    """Raise ModelError unless a tensor holds integers, which are whole and finite."""
    if tensor.dtype.kind not in "iu":
        raise ModelError(f"{name} holds {tensor.dtype}, not integers")


def save_integer_network(network: IntegerNetwork, path: Path) -> None:
    """Write a model file, whole or not at all, having proved that it is exact."""
    network.prove_exact()
    description = {**_arithmetic(network), "name": network.name, "orders": list(network.orders)}
    metadata = {
        "kind": FILE_KIND,
        "network": json.dumps(description, sort_keys=True),
        "notes": json.dumps(dict(network.notes), sort_keys=True),
    }
    tensors = {name: np.ascontiguousarray(tensor) for name, tensor in _tensors(network)}
    with replace_file(path) as file:
        file.write(save(tensors, metadata))


def load_integer_network(path: Path) -> IntegerNetwork:
    """Read a model file and prove that it is exact; raises ModelError."""
    try:
        if (size := path.stat().st_size) > MAX_FILE_BYTES:
            raise ModelError(f"{path}: {size} bytes, and a model has up to {MAX_FILE_BYTES}")
        with safe_open(path, "numpy") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise ModelError(f"{path}: not a readable model file ({error})") from error
    if metadata.get("kind") != FILE_KIND:
        raise ModelError(f"{path}: not an lmzip model but {metadata.get('kind', 'unknown')!r}")
    try:
        network = _assemble(tensors, json.loads(metadata["network"]), json.loads(metadata["notes"]))
        network.prove_exact()
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from error
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise ModelError(f"{path}: incomplete model file ({error})") from error
    return network


_NUMBERS = (
    "channels", "mixtures", "activation_max", "stream_max", "stream_bits", "predictor_shift",
    "blocks",
)  # fmt: skip


def _arithmetic(network: IntegerNetwork) -> dict[str, int]:
    """Return the numbers that, with the tensors, decide what the network computes."""
    return {
        "channels": network.channels,
        "mixtures": network.mixtures,
        "activation_max": network.activation_max,
        "stream_max": network.stream_max,
        "stream_bits": network.stream_bits,
        "predictor_shift": network.predictor_shift,
        "blocks": len(network.blocks),
    }


def _tensors(network: IntegerNetwork) -> Iterator[tuple[str, Ints]]:
    yield "predictor.weight", network.predictor
    yield from _layer_tensors("first", network.first)
    for number, (conv, project) in enumerate(network.blocks):
        yield from _layer_tensors(f"blocks.{number}.conv", conv)
        yield from _layer_tensors(f"blocks.{number}.project", project)
    yield from _layer_tensors("out", network.out)
    for name in ("logistic", "inverse_scale", "weight", "log2"):
        yield f"tables.{name}", getattr(network.tables, name).astype(np.int32)


def _layer_tensors(name: str, layer: Layer) -> Iterator[tuple[str, Ints]]:
    yield f"{name}.weight", layer.weight.astype(np.int16)
    yield f"{name}.mask_weight", layer.mask_weight.astype(np.int32)
    yield f"{name}.bias", layer.bias.astype(np.int32)
    yield f"{name}.shift", layer.shift.astype(np.int8)
    yield f"{name}.offsets", np.array(layer.taps.offsets, np.int8)


def _assemble(
    tensors: dict[str, Ints], description: dict[str, Any], notes: dict[str, Any]
) -> IntegerNetwork:
    def take(name: str, dtype: type = np.int32) -> Ints:
        tensor = tensors.pop(name)
        if tensor.dtype != dtype:
            raise ModelError(f"{name} holds {tensor.dtype}, not {np.dtype(dtype)}")
        return tensor

    def layer(name: str) -> Layer:
        offsets = take(f"{name}.offsets", np.int8)
        if offsets.ndim != 2 or offsets.shape[1] != 2:
            raise ModelError(f"{name}: offsets have the shape {offsets.shape}")
        return Layer(
            Taps(tuple((down, right) for down, right in offsets.tolist())),
            take(f"{name}.weight", np.int16),
            take(f"{name}.mask_weight"),
            take(f"{name}.bias"),
            take(f"{name}.shift", np.int8),
        )

    for key in _NUMBERS:
        if type(description[key]) is not int:
            raise ModelError(f"{key} is {description[key]!r}, not an integer")
    if not isinstance(description["name"], str) or not 0 <= description["blocks"] <= MAX_BLOCKS:
        raise ModelError(f"{description['blocks']} blocks in model {description['name']!r}")
    blocks = range(description["blocks"])
    numbers = ("channels", "mixtures", "activation_max", "stream_max", "stream_bits")
    network = IntegerNetwork(
        name=description["name"],
        **{name: description[name] for name in numbers},
        predictor=take("predictor.weight", tensors["predictor.weight"].dtype.type),
        predictor_shift=description["predictor_shift"],
        first=layer("first"),
        blocks=tuple((layer(f"blocks.{i}.conv"), layer(f"blocks.{i}.project")) for i in blocks),
        out=layer("out"),
        tables=Tables(
            logistic=take("tables.logistic").astype(np.uint32),
            inverse_scale=take("tables.inverse_scale").astype(np.int32),
            weight=take("tables.weight").astype(np.int64),
            log2=take("tables.log2").astype(np.int64),
        ),
        orders=tuple(map(str, description["orders"])),
        notes=notes,
    )
    if tensors:
        raise ModelError(f"unknown tensor {min(tensors)}")
    return network


def _check_tables(tables: Tables) -> None:
    sizes = {
        "logistic": (TABLE_SIZE, TABLE_SIZE),
        "inverse_scale": (1, MAX_TABLE),
        "weight": (1, MAX_TABLE),
        "log2": (LOG2_SIZE, LOG2_SIZE),
    }
    for name, (least, most) in sizes.items():
        table = getattr(tables, name)
        _check_integers(f"the table {name}", table)
        if table.ndim != 1 or not least <= table.size <= most:
            raise ModelError(f"the table {name} has the shape {table.shape}")
    logistic = tables.logistic.astype(np.int64)
    if logistic.size != TABLE_SIZE or (np.diff(logistic) < 0).any():
        raise ModelError("the table of the logistic function must rise over 2^14 entries")
    if logistic[0] < 0 or logistic[-1] > 1 << CDF_BITS:
        raise ModelError("the table of the logistic function must stay within 0..2^16")
    if tables.inverse_scale.min() < 1 or tables.inverse_scale.max() > MAX_INVERSE_SCALE:
        raise ModelError(f"inverse scales must lie in 1..{MAX_INVERSE_SCALE}")
    if tables.weight.min() < 0 or tables.weight.max() > 1 << 16 or tables.weight[0] < 1:
        raise ModelError("the table of weights must lie in 0..2^16 and start above 0")
