"""What can draw images: a model of the codec, or float weights if torch is there."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open

from lmzip import Model, Order, Progress, complete_image, load_model, measure_region
from lmzip.cli.torch_commands import INSTALL, MissingTorch

Pixels = npt.NDArray[np.uint8]  # (height, width, channels), or (images, ...)
Region = npt.NDArray[np.bool_]  # (height, width), true where hidden
_FLOAT_KINDS = ("compact", "paper")


class Generator(Protocol):
    """Draws hidden parts of images, and says what their true pixels cost."""

    name: str
    channels: int
    family: str  # of orders for completion

    def draw(
        self,
        pixels: Pixels,
        hidden: Region,
        count: int,
        order: Order,
        *,
        temperature: float,
        seed: int,
        progress: Progress | None,
    ) -> Pixels:
        """Return `count` images (N, H, W, C) whose hidden pixels are drawn."""

    def measure(self, pixels: Pixels, hidden: Region, order: Order) -> float:
        """Return the bits per dimension of the hidden pixels, given those before them."""


class ModelGenerator:
    """A model of the codec."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.name, self.channels = model.name, model.network.channels
        self.family = model.widest_family

    def draw(
        self,
        pixels: Pixels,
        hidden: Region,
        count: int,
        order: Order,
        *,
        temperature: float,
        seed: int,
        progress: Progress | None,
    ) -> Pixels:
        """Return `count` images (N, H, W, C) whose hidden pixels are drawn."""
        return complete_image(
            self._model, pixels, hidden, count,
            order=order, temperature=temperature, seed=seed, progress=progress,
        )  # fmt: skip

    def measure(self, pixels: Pixels, hidden: Region, order: Order) -> float:
        """Return the bits per dimension of the hidden pixels, given those before them."""
        (bits,) = measure_region(self._model, pixels[None], hidden, order=order)
        return float(bits) / (int(hidden.sum()) * pixels.shape[2])


def load_generator(name: str) -> Generator:
    """Load a model by name or file, or a file of float weights. Raises ModelError."""
    if Path(name).is_file() and _kind_of(Path(name)) in _FLOAT_KINDS:
        if importlib.util.find_spec("torch") is None:
            raise MissingTorch(INSTALL)
        from lmzip.cli.float_generator import FloatGenerator

        return FloatGenerator(Path(name))
    return ModelGenerator(load_model(name))


def _kind_of(path: Path) -> str | None:
    try:
        with safe_open(path, "numpy") as file:
            return (file.metadata() or {}).get("kind")
    except (OSError, SafetensorError):
        return None  # `load_model` says what is wrong
