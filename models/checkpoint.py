"""What a training run keeps on disk: its whole state, and snapshots of its weights.

A checkpoint is a torch file of tensors and plain values, written whole or not at all and loaded
with `weights_only`, so that no file can run code. Its entries are `network`, `average`,
`optimisers` and `progress`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from lmzip.errors import LmzipError
from lmzip.models.optimise import OptimiserSet
from lmzip.models.weights import Network, average_networks, save_network
from lmzip.whole_files import replace_file


class TrainingError(LmzipError):
    """A run cannot start from the given state, or its loss is no longer a number."""


@dataclass
class Counters:
    """How far a run is: what a checkpoint holds besides tensors."""

    step: int = 0
    images: int = 0
    seconds: float = 0.0
    loss_sum: float = 0.0  # bpd, since the last regular row of metrics
    loss_count: int = 0
    decay_start: int | None = None  # the step at which a decay was asked for
    decay_steps: int = 0


@dataclass(frozen=True)
class State:
    """All that changes during a run: references to the tensors, not copies of them."""

    network: Network
    average: Network
    optimisers: OptimiserSet
    progress: Counters

    def save(self, path: Path) -> None:
        """Replace a checkpoint."""
        state = {
            "network": self.network.state_dict(),
            "average": self.average.state_dict(),
            "optimisers": self.optimisers.state_dict(),
            "progress": asdict(self.progress),
        }
        with replace_file(path) as file:
            torch.save(state, file)

    def load(self, path: Path) -> None:
        """Take over a checkpoint. Raises TrainingError if it is damaged or of another network."""
        state = _read(path)
        try:
            self.network.load_state_dict(state["network"])
            self.average.load_state_dict(state["average"])
            self.optimisers.load_state_dict(state["optimisers"])
            vars(self.progress).update(asdict(Counters(**state["progress"])))
        except (KeyError, ValueError, RuntimeError, TypeError) as error:
            reason = " ".join(str(error).split())[:300]
            raise TrainingError(f"{path}: no checkpoint of this recipe ({reason})") from None


def _read(path: Path) -> dict[str, Any]:
    try:
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise TrainingError(f"{path}: no such checkpoint") from None
    except Exception as error:  # torch raises whatever the damage leads to
        raise TrainingError(f"{path}: not a checkpoint ({type(error).__name__})") from None
    return state


class Snapshots:
    """The last few of a run's weights, saved at regular steps, to be averaged in the end.

    The paper averages the weights of the last 45 epochs of its CIFAR-10 model.
    """

    def __init__(self, folder: Path, count: int, every: int) -> None:
        self.folder, self.count, self.every = folder, count, every

    def offer(self, network: Network, step: int) -> None:
        """Save the weights if it is time to, and delete the oldest snapshot."""
        if self.count and step % self.every == 0:
            self.folder.mkdir(exist_ok=True)
            save_network(network, self.folder / f"{step:09d}.safetensors", {"step": step})
            for old in self.files(step)[: -self.count]:
                old.unlink()

    def files(self, step: int) -> list[Path]:
        """Return the snapshots up to a step: later ones belong to lost steps of a killed run."""
        files = sorted(self.folder.glob("*.safetensors"))
        return [file for file in files if int(file.stem) <= step]

    def average(self, step: int) -> Network | None:
        """Return the mean of the snapshots, if there are any."""
        files = self.files(step)
        return average_networks(files) if files else None
