"""Recipes: a training run as a TOML file, read into frozen dataclasses.

    name = "thumb"
    orders = ["raster"]            # or "raster:*" for all eight variants
    seed = 0

    [network]                      # a named size, fields of the configuration, or both
    [optimiser]                    # OptimiserRecipe
    [schedule]                     # ScheduleRecipe
    [average]                      # AverageRecipe
    [[data]]                       # DataRecipe, one for each source; a batch comes from one source
    [completion]                   # CompletionRecipe: batches that visit a region last
    [[phase]]                      # PhaseRecipe: steps at a lower resolution, first to last
    [eval]                         # DataRecipe, and how often
    [log]                          # LogRecipe

Every mistake raises RecipeError and names the file, the key and the value.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path

from lmzip.errors import LmzipError
from lmzip.models.alterations import ALTERATIONS
from lmzip.models.compact import CompactConfig
from lmzip.models.data_files import DATA_SETS
from lmzip.models.recipe_tables import RecipeError, as_list, as_table, read_table, require
from lmzip.models.weights import Config, make_config
from lmzip.order.orders import Order, expand_orders

RECIPES = Path(__file__).parent / "recipes"


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
        require(self.kind in ("adam", "muon"), "kind", self.kind, "choose adam or muon")
        for key in ("rate", "matrix_rate"):
            require(getattr(self, key) > 0, key, getattr(self, key), "must be positive")
        for beta in (*self.betas, self.momentum):
            require(0 <= beta < 1, "betas or momentum", beta, "must be at least 0 and below 1")
        for key in ("weight_decay", "clip"):
            require(getattr(self, key) >= 0, key, getattr(self, key), "must not be negative")


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
        require(self.decay in kinds, "decay", self.decay, f"choose from {', '.join(kinds)}")
        for key in ("steps", "warmup", "decay_steps"):
            require(getattr(self, key) >= 0, key, getattr(self, key), "must not be negative")
        for key in ("decay_factor", "final"):
            require(0 <= getattr(self, key) < 1, key, getattr(self, key), "must be in [0, 1)")

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
        require(0 <= self.ema < 1, "ema", self.ema, "must be at least 0 and below 1")
        require(self.snapshots >= 0, "snapshots", self.snapshots, "must not be negative")
        require(self.every > 0, "every", self.every, "must be positive")


@dataclass(frozen=True)
class DataRecipe:
    """A source of images, and what happens to them on their way into a batch."""

    kind: str
    path: str = ""  # below a data root; the data sets have their usual names by default
    split: str = "train"  # or test; binarized-mnist also has valid
    skip: int = 0  # leave out the first images, which are held back
    limit: int = 0  # use only the next ones; 0 means all
    weight: float = 1.0  # how often a batch comes from this source, relative to the others
    batch: int = 16
    flip: bool = False  # mirror every other image
    grey: bool = False  # use only their luma; for compact networks, of three channels too
    noise: float = 0.0  # the largest strength of added Gaussian noise, in levels of 256
    bits: int = 8  # depth: 5 for CelebA-HQ; binarized-mnist has 1 in any case
    size: int = 0  # folder: scale every image to a square of this size
    crop: int = 0  # folder: cut random squares of this size
    scales: tuple[int, ...] = (1,)  # folder, with a crop: average boxes of these sizes first
    alter: tuple[str, ...] = ()  # folder, with a crop: to each crop, one of these or nothing

    def __post_init__(self) -> None:
        kinds = (*DATA_SETS, "folder")
        splits = ("train", "valid", "test")
        require(self.kind in kinds, "kind", self.kind, f"choose from {', '.join(kinds)}")
        require(self.split in splits, "split", self.split, f"choose from {', '.join(splits)}")
        require(1 <= self.bits <= 8, "bits", self.bits, "must be 1 to 8")
        require(self.batch > 0, "batch", self.batch, "must be positive")
        for key in ("skip", "limit", "weight", "size", "crop", "noise"):
            require(getattr(self, key) >= 0, key, getattr(self, key), "must not be negative")
        require(bool(self.scales), "scales", self.scales, "must not be empty")
        require(min(self.scales) >= 1, "scales", self.scales, "must be at least 1")
        if self.kind == "folder":
            require(bool(self.path), "path", self.path, "must name the folder")
            require(self.size + self.crop > 0, "crop", self.crop, "a folder needs it, or a size")
        else:
            require(not self.size, "size", self.size, "is for folders only")
            require(not self.crop, "crop", self.crop, "is for folders only")
        require(self.scales == (1,) or self.crop > 0, "scales", self.scales, "need a crop")
        require(not self.alter or self.crop > 0, "alter", self.alter, "needs a crop")
        for name in self.alter:
            known = f"choose from {', '.join(ALTERATIONS)}"
            require(name in ALTERATIONS, "alter", name, known)
        in_colour = self.kind in ("cifar10", "folder")
        require(in_colour or not self.grey, "grey", self.grey, f"{self.kind} has no colours")

    @property
    def depth(self) -> int:
        """The bits of a sample as the network sees it."""
        return 1 if self.kind == "binarized-mnist" else self.bits


@dataclass(frozen=True)
class PhaseRecipe:
    """Steps on images whose boxes of `downscale` x `downscale` pixels are averaged."""

    steps: int
    downscale: int = 1

    def __post_init__(self) -> None:
        require(self.steps > 0, "steps", self.steps, "must be positive")
        require(self.downscale >= 1, "downscale", self.downscale, "must be at least 1")


@dataclass(frozen=True)
class CompletionRecipe:
    """Which share of the batches moves a random rectangle to the end of their order.

    So a network learns what completion asks of it: pixels that see others on all sides.
    """

    share: float = 0.0

    def __post_init__(self) -> None:
        require(0 <= self.share <= 1, "share", self.share, "must be in [0, 1]")


@dataclass(frozen=True)
class EvalRecipe:
    """Held-out images, and after how many steps to measure them."""

    source: DataRecipe
    every: int
    orders: tuple[Order, ...]


@dataclass(frozen=True)
class LogRecipe:
    """When to add a row of metrics (steps), and when to save a checkpoint (minutes, steps)."""

    every: int = 100
    checkpoint_minutes: float = 5.0
    checkpoint_steps: int = 0  # 0: by time alone

    def __post_init__(self) -> None:
        require(self.every > 0, "every", self.every, "must be positive")
        for key in ("checkpoint_minutes", "checkpoint_steps"):
            require(getattr(self, key) >= 0, key, getattr(self, key), "must not be negative")


@dataclass(frozen=True)
class Recipe:
    """A whole training run."""

    name: str
    network: Config
    optimiser: OptimiserRecipe
    schedule: ScheduleRecipe
    data: tuple[DataRecipe, ...]
    orders: tuple[Order, ...]
    average: AverageRecipe = field(default_factory=AverageRecipe)
    completion: CompletionRecipe = field(default_factory=CompletionRecipe)
    phases: tuple[PhaseRecipe, ...] = ()
    held_out: EvalRecipe | None = None
    log: LogRecipe = field(default_factory=LogRecipe)
    seed: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.network, CompactConfig):
            for source in self.data:
                require(not source.grey, "[[data]] grey", True, "is for compact networks")


def load_recipe(path: str | Path) -> Recipe:
    """Read a recipe file, or one of lmzip's own by its name, such as "thumb".

    Raises RecipeError, with the file's name, for any mistake.
    """
    own = {file.stem: file for file in RECIPES.glob("*.toml")}
    path = own.get(str(path), Path(path))
    try:
        return parse_recipe(path.read_text(encoding="utf-8"), path.stem)
    except OSError as error:
        known = ", ".join(sorted(own))
        raise RecipeError(f"{path}: {error.strerror} (and not one of {known})") from None
    except LmzipError as error:
        raise RecipeError(f"{path}: {error}") from None


def parse_recipe(text: str, name: str = "recipe") -> Recipe:
    """Read a recipe from TOML text."""
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise RecipeError(f"not TOML: {error}") from None
    for key, value in tables.items():
        require(key in _KEYS, key, value, f"no such key among {', '.join(_KEYS)}")
    for key in ("network", "schedule", "data"):
        if key not in tables:
            raise RecipeError(f"{key} is missing")
    seed = tables.get("seed", 0)
    require(type(seed) is int and seed >= 0, "seed", seed, "must be a whole number from 0 on")
    orders = _read_orders(tables.get("orders", ["raster"]))
    phases = tables.get("phase", [])
    return Recipe(
        name=str(tables.get("name", name)),
        network=_read_network(tables["network"]),
        optimiser=read_table(OptimiserRecipe, tables.get("optimiser", {}), "[optimiser]"),
        schedule=read_table(ScheduleRecipe, tables["schedule"], "[schedule]"),
        data=_read_data(tables["data"]),
        orders=orders,
        average=read_table(AverageRecipe, tables.get("average", {}), "[average]"),
        completion=read_table(CompletionRecipe, tables.get("completion", {}), "[completion]"),
        phases=tuple(read_table(PhaseRecipe, phase, "[[phase]]") for phase in phases),
        held_out=_read_eval(tables["eval"], orders) if "eval" in tables else None,
        log=read_table(LogRecipe, tables.get("log", {}), "[log]"),
        seed=seed,
    )


_KEYS = (
    *("name", "seed", "orders", "network", "optimiser", "schedule", "average", "data"),
    *("completion", "phase", "eval", "log"),
)


def _read_orders(names: object) -> tuple[Order, ...]:
    """Read names of orders; `family:*` stands for all variants of a family."""
    for name in as_list(names, "orders"):
        require(isinstance(name, str), "orders", name, "must be names")
    return expand_orders(as_list(names, "orders"))


def _read_network(table: object) -> Config:
    settings = dict(as_table(table, "network"))
    try:
        return make_config(settings.pop("kind", "compact"), settings)
    except LmzipError as error:
        raise RecipeError(f"[network] {error}") from None


def _read_data(tables: object) -> tuple[DataRecipe, ...]:
    data = tuple(read_table(DataRecipe, table, "[[data]]") for table in as_list(tables, "data"))
    require(sum(source.weight for source in data) > 0, "[[data]] weight", 0, "for all sources")
    return data


def _read_eval(table: object, orders: tuple[Order, ...]) -> EvalRecipe:
    """Read a source with two more keys; the order is the first one trained unless it is given."""
    settings = dict(as_table(table, "eval"))
    every = settings.pop("every", 5000)
    require(type(every) is int and every > 0, "[eval] every", every, "must be a positive number")
    chosen = _read_orders(settings.pop("orders")) if "orders" in settings else orders[:1]
    return EvalRecipe(read_table(DataRecipe, settings, "[eval]"), every, chosen)
