from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

Buffer = npt.NDArray[Any]

Capsule = Any

def kernels() -> list[tuple[str, bool, int]]: ...
def make_network(
    kernel: str,
    numbers: tuple[int, ...],
    layers: Sequence[tuple[tuple[int, int, int, int], Buffer, Buffer, Buffer, Buffer]],
    predictor: Buffer,
    tables: tuple[tuple[int, int, int], Buffer, Buffer, Buffer, Buffer],
    /,
) -> Capsule: ...
def make_run(
    network: Capsule,
    sizes: tuple[int, ...],
    groups: Buffer,
    views: Sequence[tuple[tuple[int, int], Buffer, Buffer, Buffer]],
    view_of: Buffer,
    bases: Sequence[Buffer],
    sets: Buffer,
    predictor_taps: Buffer,
    frequencies: Buffer | None,
    samples: Buffer,
    deep: tuple[tuple[int, int, int, int, int], Buffer, Buffer] | None,
    manner: tuple[tuple[int, ...], int, Buffer] | None,
    /,
) -> Capsule: ...
def begin_step(run: Capsule, start: int, stop: int, /) -> None: ...
def refine_step(run: Capsule, nibbles: Buffer, /) -> None: ...
def finish_channel(run: Capsule, nibbles: Buffer, /) -> None: ...
def encode_span(
    run: Capsule,
    start: int,
    stop: int,
    steps: int,
    starts: Buffer,
    left: Buffer,
    right: Buffer,
    costs: Buffer,
    /,
) -> None: ...
def copy_changes(run: Capsule, room: Buffer, /) -> None: ...
