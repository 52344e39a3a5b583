"""Recipes: a training run as a TOML file, read into frozen dataclasses.

    name = "thumb"
    orders = ["raster"]            # or "raster:*" for all eight variants
    seed = 0

    [network]                      # a named size, fields of the configuration, or both
    [optimiser]                    # OptimiserRecipe
    [schedule]                     # ScheduleRecipe
    [average]                      # AverageRecipe
    [[data]]                       # DataRecipe, one for each source; a batch comes from one source
    [[phase]]                      # PhaseRecipe: so many steps at a lower resolution, first to last
    [eval]                         # DataRecipe, and how often
    [log]                          # LogRecipe

Every mistake raises RecipeError and names the file, the key and the value.
"""

from __future__ import annotations

import tomllib
import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any

from lmzip.errors import InputError, LmzipError
from lmzip.models.weights import make_config
from lmzip.orders import Order, all_variants, parse_order


T = typing.TypeVar("T")


class RecipeError(InputError):
    """A recipe has a key or a value that cannot be used."""


def _require(condition: bool, key: str, value: object, what: str) -> None:
    if not condition:
        raise RecipeError(f"{key} = {value!r}: {what}")


@dataclass(frozen=True)
class OptimiserRecipe:
    """Adam, or Muon for the matrices of the blocks and Adam for everything else."""

    kind: str = "adam"
    rate: float = 2e-4  # of Adam
    matrix_rate: float = 0.02  # of Muon
    betas: tuple[float, float] = (0.9, 0.999)
    momentum: float = 0.95
    weight_decay: float = 0.0  # of Muon's matrices
    clip: float = 0.0  # largest norm of all gradients together; 0 is no limit

    def __post_init__(self) -> None:
        _require(self.kind in ("adam", "muon"), "kind", self.kind, "choose adam or muon")
        for key in ("rate", "matrix_rate"):
            _require(getattr(self, key) > 0, key, getattr(self, key), "must be positive")
        for beta in (*self.betas, self.momentum):
            _require(0 <= beta < 1, "betas or momentum", beta, "must be at least 0 and below 1")
        for key in ("weight_decay", "clip"):
            _require(getattr(self, key) >= 0, key, getattr(self, key), "must not be negative")


@dataclass(frozen=True)
class ScheduleRecipe:
    """`steps` at the full rate, then `decay_steps` of linear or cosine decay.

    With exponential decay the rate falls by `decay_factor` at each of `steps`.
    """

    steps: int
    warmup: int = 0
    decay: str = "none"
    decay_factor: float = 5e-6
    decay_steps: int = 0
    final: float = 0.0

    def __post_init__(self) -> None:
        kinds = ("none", "exponential", "linear", "cosine")
        _require(self.decay in kinds, "decay", self.decay, f"choose from {', '.join(kinds)}")
        for key in ("steps", "warmup", "decay_steps"):
            _require(getattr(self, key) >= 0, key, getattr(self, key), "must not be negative")
        for key in ("decay_factor", "final"):
            _require(0 <= getattr(self, key) < 1, key, getattr(self, key), "must be in [0, 1)")

    @property
    def total(self) -> int:
        """All steps, with those of the decay."""
        return self.steps + (self.decay_steps if self.decay in ("linear", "cosine") else 0)


@dataclass(frozen=True)
class AverageRecipe:
    """The exponential average of the weights, and how many snapshots to average at the end."""

    ema: float = 0.999
    snapshots: int = 0
    every: int = 1000  # steps from one snapshot to the next

    def __post_init__(self) -> None:
        _require(0 <= self.ema < 1, "ema", self.ema, "must be at least 0 and below 1")
        _require(self.snapshots >= 0, "snapshots", self.snapshots, "must not be negative")
        _require(self.every > 0, "every", self.every, "must be positive")


@dataclass(frozen=True)
class DataRecipe:
    """A source of images, and what happens to them on their way into a batch."""

    kind: str
    path: str = ""  # below a data root; the data sets have their usual names by default
    split: str = "train"  # cifar10, mnist: train, test; binarized-mnist: train, valid, test
    limit: int = 0  # only so many images, from the first on; 0 is all
    weight: float = 1.0  # how often a batch comes from this source, relative to the others
    batch: int = 16
    flip: bool = False  # mirror every other image
    bits: int = 8  # depth: 5 for CelebA-HQ; binarized-mnist always has 1
    size: int = 0  # folder: scale every image to a square of this size
    crop: int = 0  # folder: cut random squares of this size
    scales: tuple[int, ...] = (1,)  # folder: average boxes of these sizes before cropping
    noise: float = 0.0  # folder: add Gaussian noise of up to so many levels

    def __post_init__(self) -> None:
        kinds = ("cifar10", "mnist", "binarized-mnist", "folder")
        _require(self.kind in kinds, "kind", self.kind, f"choose from {', '.join(kinds)}")
        _require(self.kind != "folder" or bool(self.path), "path", self.path, "name the folder")
        _require(self.kind != "folder" or bool(self.size or self.crop), "crop", self.crop,
                 "a folder needs a crop or a size")
        _require(self.split in ("train", "valid", "test"), "split", self.split,
                 "choose from train, valid, test")
        _require(1 <= self.bits <= 8, "bits", self.bits, "must be 1 to 8")
        _require(self.batch > 0, "batch", self.batch, "must be positive")
        for key in ("limit", "weight", "size", "crop", "noise"):
            _require(getattr(self, key) >= 0, key, getattr(self, key), "must not be negative")
        _require(bool(self.scales) and min(self.scales) >= 1, "scales", self.scales,
                 "must be whole numbers from 1 on")


@dataclass(frozen=True)
class PhaseRecipe:
    """So many steps on images whose boxes of `downscale` x `downscale` pixels are averaged."""

    steps: int
    downscale: int = 1

    def __post_init__(self) -> None:
        _require(self.steps > 0, "steps", self.steps, "must be positive")
        _require(self.downscale >= 1, "downscale", self.downscale, "must be at least 1")


@dataclass(frozen=True)
class EvalRecipe:
    """Held-out images, and after how many steps to measure them."""

    source: DataRecipe
    every: int = 5000
    orders: tuple[Order, ...] = ()

    def __post_init__(self) -> None:
        _require(self.every > 0, "every", self.every, "must be positive")


@dataclass(frozen=True)
class LogRecipe:
    """When to add a row of metrics (steps), and when to save a checkpoint (minutes, steps)."""

    every: int = 100
    checkpoint_minutes: float = 5.0
    checkpoint_steps: int = 0  # 0: by time alone

    def __post_init__(self) -> None:
        _require(self.every > 0, "every", self.every, "must be positive")
        for key in ("checkpoint_minutes", "checkpoint_steps"):
            _require(getattr(self, key) >= 0, key, getattr(self, key), "must not be negative")


@dataclass(frozen=True)
class Recipe:
    """A whole training run."""

    name: str
    network: Any  # a CompactConfig or a PaperConfig
    optimiser: OptimiserRecipe
    schedule: ScheduleRecipe
    data: tuple[DataRecipe, ...]
    orders: tuple[Order, ...]
    average: AverageRecipe = field(default_factory=AverageRecipe)
    phases: tuple[PhaseRecipe, ...] = ()
    held_out: EvalRecipe | None = None
    log: LogRecipe = field(default_factory=LogRecipe)
    seed: int = 0


def load_recipe(path: str | Path) -> Recipe:
    """Read a recipe file. Raises RecipeError, with the file's name, for any mistake."""
    path = Path(path)
    try:
        return parse_recipe(path.read_text(encoding="utf-8"), path.stem)
    except OSError as error:
        raise RecipeError(f"{path}: {error.strerror}") from None
    except LmzipError as error:
        raise RecipeError(f"{path}: {error}") from None


def parse_recipe(text: str, name: str = "recipe") -> Recipe:
    """Read a recipe from TOML text."""
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise RecipeError(f"not TOML: {error}") from None
    known = ("name", "seed", "orders", "network", "optimiser", "schedule", "average", "data",
             "phase", "eval", "log")
    for key in tables:
        _require(key in known, key, tables[key], f"unknown key, choose from {', '.join(known)}")
    for key in ("network", "schedule", "data"):
        _require(key in tables, key, None, "is missing")
    seed = tables.get("seed", 0)
    _require(type(seed) is int and seed >= 0, "seed", seed, "must be a whole number from 0 on")
    orders = _read_orders(tables.get("orders", ["raster"]))
    return Recipe(
        name=str(tables.get("name", name)),
        network=_read_network(tables["network"]),
        optimiser=_read(OptimiserRecipe, tables.get("optimiser", {}), "[optimiser]"),
        schedule=_read(ScheduleRecipe, tables["schedule"], "[schedule]"),
        data=tuple(_read(DataRecipe, t, "[[data]]") for t in _list(tables["data"], "data")),
        orders=orders,
        average=_read(AverageRecipe, tables.get("average", {}), "[average]"),
        phases=tuple(
            _read(PhaseRecipe, t, "[[phase]]") for t in _list(tables.get("phase", []), "phase")
        ),
        held_out=_read_eval(tables["eval"], orders) if "eval" in tables else None,
        log=_read(LogRecipe, tables.get("log", {}), "[log]"),
        seed=seed,
    )


def _read_orders(names: object) -> tuple[Order, ...]:
    _require(isinstance(names, list) and bool(names), "orders", names, "must be a list of names")
    orders: list[Order] = []
    for name in typing.cast(list[object], names):
        _require(isinstance(name, str), "orders", name, "must be a name")
        family, _, variant = str(name).partition(":")
        if variant == "*":
            orders.extend(all_variants(parse_order(family).family))
        else:
            orders.append(parse_order(str(name)))
    return tuple(orders)


def _read_network(table: object) -> Any:
    _require(isinstance(table, dict), "network", table, "must be a table")
    settings = dict(typing.cast(dict[str, Any], table))
    try:
        return make_config(settings.pop("kind", "compact"), settings)
    except InputError as error:
        raise RecipeError(f"[network] {error}") from None


def _read_eval(table: object, orders: tuple[Order, ...]) -> EvalRecipe:
    """Read a source with two more keys; the order is the first one trained unless it is given."""
    _require(isinstance(table, dict), "eval", table, "must be a table")
    settings = dict(typing.cast(dict[str, Any], table))
    every = settings.pop("every", 5000)
    _require(type(every) is int, "[eval] every", every, "must be a whole number")
    chosen = _read_orders(settings.pop("orders")) if "orders" in settings else orders[:1]
    return EvalRecipe(_read(DataRecipe, settings, "[eval]"), every, chosen)


def _list(tables: object, key: str) -> list[Any]:
    _require(isinstance(tables, list), key, tables, f"write [[{key}]]")
    return typing.cast(list[Any], tables)


def _read(cls: type[T], table: Mapping[str, Any], where: str) -> T:
    """Make a dataclass of a table: known keys only, all that are needed, of the right types."""
    _require(isinstance(table, dict), where, table, "must be a table")
    hints = typing.get_type_hints(cls)
    known = {f.name: f for f in fields(cls)}  # type: ignore[arg-type]
    values = {}
    for key, value in table.items():
        _require(key in known, f"{where} {key}", value,
                 f"unknown key, choose from {', '.join(known)}")
        values[key] = _convert(value, hints[key], f"{where} {key}")
    for key, known_field in known.items():
        _require(key in values or known_field.default is not MISSING, f"{where} {key}", None,
                 "is missing")
    try:
        return cls(**values)
    except RecipeError as error:
        raise RecipeError(f"{where} {error}") from None


_TYPE_NAMES = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}


def _convert(value: object, hint: Any, where: str) -> Any:
    if isinstance(hint, types.GenericAlias):  # tuple[int, ...] or tuple[float, float]
        _require(isinstance(value, list), where, value, "must be a list")
        items, kinds = typing.cast(list[object], value), typing.get_args(hint)
        if kinds[-1] is Ellipsis:
            kinds = (kinds[0],) * len(items)
        _require(len(items) == len(kinds), where, value, f"must have {len(kinds)} entries")
        return tuple(_convert(v, kind, where) for v, kind in zip(items, kinds, strict=True))
    if hint is float and type(value) is int:
        return float(value)
    _require(type(value) is hint, where, value, f"must be {_TYPE_NAMES[hint]}")
    return value
