"""A bank of tunings for a model, learnt from pictures of many kinds (FORMAT.md, "Banks").

    python -m lmzip.models.bank photo --data photos/mixed --data photos/crops -o photo.tunings

Each kind is the pictures of one folder as they are, or what `lmzip.models.kinds` makes of them all.
A tuning is learnt from each; then every crop goes to the tuning that codes it best, and the tunings
learn again from what they were given, as clusters do. Pictures that took no part decide which
tunings are kept: those without which the bank would be worse.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from lmzip.container.tuning_bank import BankEntry, pack_bank, tune_model
from lmzip.container.tuning_block import write_tuning
from lmzip.errors import InputError
from lmzip.formats import read_picture
from lmzip.models.kinds import KINDS, make_crop
from lmzip.models.tune import learn_tuning
from lmzip.models.tuned_layers import Plan
from lmzip.network.registry import Choice, Model, load_model
from lmzip.options import Options
from lmzip.order.orders import parse_order
from lmzip.parallel.workers import count_threads
from lmzip.selection import measure_choices
from lmzip.whole_files import replace_file

Crops = npt.NDArray[np.uint8]  # (images, height, width, 3)

CROP = 128  # the side of what is learnt from
MEASURED = 64  # the side of its middle, by which tunings are compared
HELD_OUT = 4  # one picture in so many takes no part in learning
LEAST = 5e-4  # of all bits: what a tuning must save beyond all others to be kept
RASTER = parse_order("raster")
# Gains and biases only: a bank is to be small, and to suit pictures that it has not seen.
PLAN = Plan(weight_rate=0.0, price=0.25)


@dataclass(frozen=True)
class Kind:
    """Crops of one kind: what is learnt from, and what is judged by."""

    name: str
    learnt: Crops
    held_out: Crops


def gather_kinds(
    folders: Sequence[Path], crops: int, names: Sequence[str] = tuple(KINDS), seed: int = 0
) -> list[Kind]:
    """Return the kinds that folders of pictures give, with so many crops each to learn from."""
    rng = np.random.default_rng(seed)
    kinds, everything = [], []
    for folder in folders:
        pictures = _read_folder(folder)
        everything += pictures
        kinds.append(_make_kind(folder.name, None, pictures, crops, rng))
    return kinds + [_make_kind(name, name, everything, crops, rng) for name in names]


def learn_bank(
    model: Model, kinds: Sequence[Kind], rounds: int, seconds: float
) -> list[tuple[str, bytes]]:
    """Return the names and the bytes of a tuning for each kind, refined so many times."""
    names = [kind.name for kind in kinds]
    crops = np.concatenate([kind.learnt for kind in kinds])
    found = _learn_all(model, names, [kind.learnt for kind in kinds], seconds)
    for _ in range(rounds):
        if not found:
            break
        owners = measure_bank(model, [data for _, data in found], crops)[:, 1:].argmin(1)
        owned = [crops[owners == place] for place in range(len(found))]
        found = _learn_all(model, [name for name, _ in found], owned, seconds)
    return found


def measure_bank(model: Model, tunings: Sequence[bytes], crops: Crops) -> npt.NDArray[np.int64]:
    """Return what each crop costs: (crops, 1 + tunings), the model as it is first."""
    models = [model, *(tune_model(model, tuning) for tuning in tunings)]
    choices, options = [Choice(each, RASTER) for each in models], Options()
    edge = max(0, crops.shape[1] - MEASURED) // 2
    middles = crops[:, edge : edge + MEASURED, edge : edge + MEASURED]
    return np.array([measure_choices(crop[None], choices, options) for crop in middles])


def keep_useful(costs: npt.NDArray[np.int64]) -> list[int]:
    """Return the tunings without which the best choices would cost more, by costs of crops.

    The least useful goes first, and the others are judged again without it.
    """
    kept = list(range(1, costs.shape[1]))

    def total(columns: Sequence[int]) -> int:
        return int(costs[:, [0, *columns]].min(1).sum())

    while kept:
        without = {column: total([c for c in kept if c != column]) for column in kept}
        least = min(without, key=lambda column: without[column])
        if without[least] - total(kept) >= LEAST * costs[:, 0].sum():
            break
        kept.remove(least)
    return [column - 1 for column in kept]


def describe_gains(kinds: Sequence[Kind], costs: npt.NDArray[np.int64]) -> list[str]:
    """Return, for each kind, by how much the best choices are smaller on what was held out."""
    lines, start = [], 0
    for kind in kinds:
        mine = costs[start : start + len(kind.held_out)]
        start += len(kind.held_out)
        change = 100 * (mine.min(1).sum() / mine[:, 0].sum() - 1)
        lines.append(f"{kind.name:<16} {change:+.2f} %")
    return lines


def _read_folder(folder: Path) -> list[Crops]:
    pictures = [read_picture(path.read_bytes()).picture for path in sorted(folder.iterdir())
                if path.suffix in (".png", ".webp")]  # fmt: skip
    fitting = [p.samples for p in pictures if p.mode.name == "RGB"]
    fitting = [samples for samples in fitting if min(samples.shape[:2]) >= CROP]
    if not fitting:
        raise InputError(f"{folder}: no RGB pictures of {CROP}x{CROP} pixels")
    return fitting


def _make_kind(
    name: str,
    kind: str | None,
    pictures: Sequence[Crops],
    crops: int,
    rng: np.random.Generator,
) -> Kind:
    def cut(some: Sequence[Crops], count: int) -> Crops:
        chosen = rng.permutation(np.arange(count) % len(some))
        return np.stack([make_crop(some[number], CROP, kind, rng) for number in chosen])

    learnt = [picture for number, picture in enumerate(pictures) if number % HELD_OUT]
    return Kind(name, cut(learnt or pictures, crops), cut(pictures[::HELD_OUT], crops // HELD_OUT))


def _learn_all(
    model: Model, names: Sequence[str], crops: Sequence[Crops], seconds: float
) -> list[tuple[str, bytes]]:
    """Return names and bytes of the tunings that are learnt, each from crops of its own."""
    found, learn = [], partial(_learn, model, seconds)
    # One core for each tuning is faster than sharing every step of one.
    with ThreadPoolExecutor(count_threads(0), initializer=_use_one_thread) as threads:
        for name, data in zip(names, threads.map(learn, crops), strict=True):
            print(f"{name}: {len(data)} bytes" if data else f"{name}: nothing", flush=True)
            if data:
                found.append((name, data))
    return found


def _use_one_thread() -> None:
    torch.set_num_threads(1)


def _learn(model: Model, seconds: float, crops: Crops) -> bytes | None:
    """Return the bytes of a tuning learnt from crops, None if there is nothing to learn."""
    if not len(crops):
        return None
    tuning = learn_tuning(model.network, RASTER, list(crops), seconds, None, PLAN)
    return None if tuning is None else write_tuning(tuning, model.network)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("model", help="a released model's name, or a model file")
    parser.add_argument("--data", type=Path, action="append", required=True, metavar="FOLDER")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="BANK")
    parser.add_argument("--kind", choices=KINDS, action="append", help="all, if none is given")
    parser.add_argument("--crops", type=int, default=200, help="of each kind, to learn from")
    parser.add_argument("--rounds", type=int, default=2, help="of refinement")
    parser.add_argument("--minutes", type=float, default=5.0, help="for each tuning in a round")
    arguments = parser.parse_args()
    model = load_model(arguments.model)
    kinds = gather_kinds(arguments.data, arguments.crops, arguments.kind or tuple(KINDS))
    found = learn_bank(model, kinds, arguments.rounds, 60 * arguments.minutes)
    held_out = np.concatenate([kind.held_out for kind in kinds])
    costs = measure_bank(model, [data for _, data in found], held_out)
    kept = keep_useful(costs)
    entries = []
    for number, place in enumerate(kept, 1):
        name, data = found[place]
        check = bytes.fromhex(tune_model(model, data).fingerprint)[:4]
        entries.append(BankEntry(number, name, data, check))
    with replace_file(arguments.output) as file:
        file.write(pack_bank(entries, model))
    chosen = costs[:, [0, *(place + 1 for place in kept)]]
    print(f"{len(entries)} of {len(found)} tunings kept, {arguments.output.stat().st_size} bytes")
    print("held-out crops, the best choice for each:")
    print("\n".join(describe_gains(kinds, chosen)))


if __name__ == "__main__":
    main()
