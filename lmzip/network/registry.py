"""Models by name, by file, or by the fingerprint that a compressed file carries."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from safetensors import safe_open

from lmzip.errors import FingerprintError, InputError, ModelError
from lmzip.network.integer_network import IntegerNetwork, load_integer_network
from lmzip.network.released import PURPOSES, RELEASED, Purpose
from lmzip.order.orders import Order
from lmzip.order.schedule import compile_schedule

UNIQUE_BYTES = 8  # of a fingerprint: no two models share so many by chance
WEIGHTS = Path(__file__).parents[1] / "weights"  # lmzip/weights


@dataclass(frozen=True, eq=False)  # loaded once, so identity is equality
class Model:
    """A network with its file and its fingerprint (hexadecimal).

    A tuned model is not that of its file: it has the bytes of its tuning, and the model as it was.
    """

    network: IntegerNetwork
    path: Path
    fingerprint: str
    tuning: bytes = b""
    base: Model | None = None
    bank_number: int = 0  # of the tuning, if it comes with the model
    plain_size: int = 0  # of the file without the tuning, if that was learnt from the pictures

    @property
    def name(self) -> str:
        return self.network.name

    @property
    def number(self) -> int:
        """The number of a released model, or 0."""
        if self.path.parent != WEIGHTS:
            return 0
        return next((number for number, name in RELEASED.items() if name == self.name), 0)

    @property
    def any_order(self) -> bool:
        """Whether the network was trained for many orders, and so predicts in any."""
        return _are_many(self.network.orders)

    @property
    def widest_family(self) -> str:
        """The family it was trained for whose pixels see most: S-curves, or else raster."""
        families = {order.partition(":")[0] for order in self.network.orders}
        return "s-curve" if "s-curve" in families else "raster"

    def count_steps(self, order: Order, height: int, width: int) -> int:
        """Return in how many steps the network goes through an image along an order."""
        return compile_schedule(order, height, width, self.network.layers).steps

    def predicts(self, order: Order) -> bool:
        """Whether the network was trained for an order, or for so many that it takes any."""
        return self.any_order or str(order) in self.network.orders

    def check_order(self, order: Order) -> None:
        """Raise InputError, which names what would work, unless it predicts in an order."""
        if self.predicts(order):
            return
        wrong = "a custom order" if order.permutation is not None else str(order)
        others = [entry.name for entry in list_models() if _are_many(entry.orders)]
        others_do = f"; {others[0]} predicts in any order" if others else ""
        raise InputError(
            f"model {self.name!r} predicts in {', '.join(self.network.orders)} only, "
            f"not in {wrong}{others_do}"
        )


class Choice(NamedTuple):
    """A model, and the order in which it is to predict."""

    model: Model
    order: Order


@dataclass(frozen=True)
class ModelEntry:
    """What the file of a released model says about it, read without loading the tensors."""

    name: str
    path: Path
    orders: tuple[str, ...]
    notes: Mapping[str, Any]

    @property
    def purpose(self) -> Purpose | None:
        return PURPOSES.get(self.name)


def list_models() -> list[ModelEntry]:
    """Return the released models, by name."""
    paths = sorted(WEIGHTS.glob("*.safetensors"), key=lambda path: path.stem)
    return [_read_entry(path) for path in paths]


def load_model(name_or_path: str | Path) -> Model:
    """Load a released model by name, or any model by the path of its file."""
    released = WEIGHTS / f"{name_or_path}.safetensors"
    path = Path(name_or_path)
    if released.is_file():
        return _load(released, released.stat().st_mtime_ns)
    if path.suffix == ".safetensors" or path.is_file():
        if not path.is_file():
            raise ModelError(f"{path}: no such model file")
        return _load(path.resolve(), path.stat().st_mtime_ns)
    names = ", ".join(entry.name for entry in list_models()) or "none"
    raise ModelError(f"unknown model {str(name_or_path)!r}: the released ones are {names}")


def find_model(name: str, prefix: bytes, given: str | Path | None = None) -> Model:
    """Return the model of a file that names it and carries a prefix of its fingerprint.

    Looks at the model that the caller gave, or else at the released ones. A short prefix is a check
    of the model of that name; a long one finds a model that has been renamed as well.
    """
    wanted = prefix.hex()
    if given is not None:
        model = load_model(given)
        if not model.fingerprint.startswith(wanted):
            raise FingerprintError(
                f"the file needs model {name!r} {wanted}, {model.path.name} is "
                f"{model.fingerprint[: len(wanted)]}"
            )
        return model
    for entry in sorted(list_models(), key=lambda entry: entry.name != name):
        if entry.name != name and len(prefix) < UNIQUE_BYTES:
            break
        model = load_model(entry.path)
        if model.fingerprint.startswith(wanted):
            return model
    raise FingerprintError(f"the file needs model {name!r} {wanted}, which is not installed")


def _are_many(orders: Sequence[str]) -> bool:
    """Whether a network trained for these orders predicts in any other too."""
    return any(order.endswith(":*") for order in orders)


@lru_cache(maxsize=8)
def _load(path: Path, changed: int) -> Model:
    """Load a model file as it is since it was last changed."""
    network = load_integer_network(path)
    return Model(network, path, network.fingerprint())


@lru_cache(maxsize=32)
def _read_entry(path: Path) -> ModelEntry:
    with safe_open(path, "numpy") as file:
        metadata = file.metadata()
    description = json.loads(metadata["network"])
    notes = json.loads(metadata["notes"])
    return ModelEntry(description["name"], path, tuple(description["orders"]), notes)
