"""Time and peak memory of the three forms of LMConv, forward and backward, as ratios in one run.

    python benchmarks/lmconv.py [--threads N] [--repeats N]

One layer as in the paper's networks: 3x3, 64 channels to 64, 32 images of 32x32. Times are the best
of several, the forms taken in turn so that other load on the machine meets all of them. Memory is
what a fresh process's peak resident size rises by (Linux), so it counts scratch space and whatever
the allocator does not give back.

Everything is compared with `listing`: the paper's forward pass as printed, im2col for the whole
batch, with gradients by autodiff. (The gradient that the paper prints in part recomputes im2col,
and is slower than autodiff by its own account.)
"""

from __future__ import annotations

import argparse
import multiprocessing
import re
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import torch

from lmzip.models.lmconv import FORMS, LMConv, MaskSet
from lmzip.order.masks import Kernel
from lmzip.order.orders import parse_order

IMAGES, CHANNELS, SIDE = 32, 64, 32
ORDERS = "raster", "s-curve", "hilbert"
SPEED_BARS = {"raster": 5.0, "s-curve": 5.0, "hilbert": 1.0}  # grouped against listing
MEMORY_BAR = 2.0  # efficient against listing


class Pass:
    """One forward and backward pass of a layer, ready to run."""

    def __init__(self, order: str, form: str, images: int = IMAGES) -> None:
        generator = torch.Generator().manual_seed(1)
        self.layer = LMConv(CHANNELS, CHANNELS, Kernel(3, 3), mask_conditioning=True, form=form)
        self.masks = MaskSet(parse_order(order).ranks(SIDE, SIDE))
        shape = images, CHANNELS, SIDE, SIDE
        self.x = torch.randn(shape, generator=generator).requires_grad_()
        self.gradient = torch.randn(shape, generator=generator)

    def run(self) -> None:
        self.x.grad = None
        self.layer.zero_grad()
        self.layer(self.x, self.masks).backward(self.gradient)


def measure_times(order: str, repeats: int) -> dict[str, float]:
    """Return the seconds of each form: the best of `repeats`."""
    passes = {form: Pass(order, form) for form in FORMS}
    best = dict.fromkeys(FORMS, float("inf"))
    for measured in passes.values():
        measured.run()  # the first pass makes masks and compiles kernels
    for _ in range(repeats):
        for form, measured in passes.items():
            start = time.perf_counter()
            measured.run()
            best[form] = min(best[form], time.perf_counter() - start)
    return best


def measure_peak(order: str, form: str, threads: int) -> int:
    """Return the bytes by which one pass raises this process's peak; run it in a fresh process."""
    torch.set_num_threads(threads)
    Pass(order, form, images=1).run()
    measured = Pass(order, form)
    Path("/proc/self/clear_refs").write_text("5")  # the peak so far is forgotten
    before = _read_peak()
    measured.run()
    return _read_peak() - before


def _read_peak() -> int:
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None, "the kernel does not report peaks"
    return int(found[1]) * 1024


def measure_peaks(order: str, threads: int) -> dict[str, int]:
    """Return the peak bytes of each form, each in a process of its own."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context, max_tasks_per_child=1) as pool:
        return {form: pool.submit(measure_peak, order, form, threads).result() for form in FORMS}


def describe_bar(name: str, ratio: float, bar: float) -> str:
    verdict = "met" if ratio >= bar else "MISSED"
    return f"  {name:<30} {ratio:5.1f}x   bar {bar:.0f}x   {verdict}"


def main() -> None:
    parser = argparse.ArgumentParser(description="compare the three forms of LMConv")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--repeats", type=int, default=10)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)

    print(f"{IMAGES} images of {SIDE}x{SIDE}, {CHANNELS} channels, 3x3, forward and backward")
    print(f"torch {torch.__version__}, {options.threads} threads, best of {options.repeats}\n")
    print(f"{'order':<10}{'form':<12}{'ms':>8}{'speed':>10}{'peak MB':>10}{'saving':>10}")
    bars = []
    for order in ORDERS:
        times = measure_times(order, options.repeats)
        peaks = measure_peaks(order, options.threads)
        speed = {form: times["listing"] / times[form] for form in FORMS}
        saving = {form: peaks["listing"] / peaks[form] for form in FORMS}
        for form in FORMS:
            print(
                f"{order:<10}{form:<12}{1e3 * times[form]:8.1f}{speed[form]:9.2f}x"
                f"{peaks[form] / 1e6:10.1f}{saving[form]:9.2f}x"
            )
        bars.append(describe_bar(f"{order}: memory, efficient", saving["efficient"], MEMORY_BAR))
        bars.append(describe_bar(f"{order}: speed, grouped", speed["grouped"], SPEED_BARS[order]))
    print("\n" + "\n".join(bars))


if __name__ == "__main__":
    main()
