"""Known answers: numpy gives them, every kernel gives them, and a wrong kernel does not."""

from __future__ import annotations

import importlib.util
import platform
import shlex
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import lmzip.native
from lmzip.errors import InputError, ModelError
from lmzip.native import backends, packing
from lmzip.native.backends import describe_backend, find_backend, list_kernels
from lmzip.native.known_answers import (
    ADAPTIVE_ANSWERS,
    DEEP_ANSWERS,
    KNOWN_ANSWERS,
    Cells,
    find_answers,
    gives_known_answers,
)
from lmzip.native.packing import Kernel
from lmzip.network.adaptation import Adaptation, Manner
from lmzip.network.backend import NumpyBackend, get_backend
from lmzip.network.integer_network import IntegerNetwork
from lmzip.order.schedule import Schedule
from lmzip.stream import encoder
from lmzip.stream.depths import Depth, choose_depth
from lmzip.stream.precision import LINEAR, Precision
from lmzip.stream.steps import ArraySteps

SOURCES = Path(__file__).parents[2] / "lmzip" / "native"
PORTABLE = Kernel("portable", False, 0)
# Compiles and links a module in one go: -shared, or what macOS calls it. Windows has none.
LINKER = shlex.split(sysconfig.get_config_var("LDSHARED") or "")

# Each a mistake that a kernel could make: file, what it says, what the wrong one says.
MISTAKES = {
    "rounds halves down": ("kernel_portable.c", "(value >> down) & odd.v[o]", "0u & odd.v[o]"),
    "forgets a tap": ("loops.h", "for (int u = 0; u < in->used", "for (int u = 1; u < in->used"),
    "saturates early": ("network.c", "network->activation_max};", "network->activation_max - 1};"),
    "keeps the prior": (
        "mixture.c",
        "if ((run->deep ? weigh_deep : weigh)",
        "if (0 && (run->deep ? weigh_deep : weigh)",
    ),
    "trusts an estimate": ("mixture.h", "return estimate + ", "return estimate + 0 * "),
    "trusts one of a nibble": ("mixture_loops.h", "estimate + 1 - ", "estimate + 0 * "),
    "closes the last bin": (
        "mixture_loops.h",
        "if (level == LEVELS)\n        return lanes_set(1 <<",
        "if (0)\n        return lanes_set(1 <<",
    ),
    "sees no fraction": ("network.c", "- (1 << RANGE_BITS);", "- (1 << RANGE_BITS) & ~4095;"),
    "does not interpolate": ("mixture_loops.h", "lanes_and(entry, within)", "lanes_set(0)"),
    "is as sharp as before": ("mixture_deep.c", "* run->deep->sharpness", "* 16"),
    "agrees with two": ("mixture.c", "AGREEING = 3", "AGREEING = 2"),
    "agrees for ever": ("mixture.c", "agreed[run->channel] != known", "0"),
    "closes the last cell": ("mixture_deep.c", "samples[j] >= beyond ? WHOLE", "0 ? WHOLE"),
    "leaves the ring": ("network.c", "own < back ? hidden", "own < back ? hidden - images"),
    "confuses the images": (
        "network.c",
        "(uint32_t)place * images + run->image[i]",
        "(uint32_t)place * images",
    ),
    "does not adapt": ("adaptation.c", "->seen >= WAIT", "->seen < 0"),
    "waits for too long": ("adaptation.c", "->seen >= WAIT", "->seen > WAIT"),
    "adapts but for the constant": ("adaptation_loops.h", "ONE * of_constant[o]", "0"),
    "has learnt nothing of odd features": (
        "adaptation_loops.h",
        "lanes_narrow(to + LANES, second);",
        "",
    ),
    "confuses the weights": ("adaptation_loops.h", "lanes_load(from->prior + k)", "posterior"),
    "lets a mean alone": ("adaptation_loops.h", "lanes_subtract(means[e],", "lanes_add(means[e],"),
    "sees no errors": ("adaptation.c", "(int16_t)(sum >> ERROR_BITS)", "0"),
    "sees its own errors": ("adaptation.c", ": at[tap];", ": (size_t)run->place[i];"),
    "rounds errors down": (
        "adaptation.c",
        "int32_t sum = 1 << (ERROR_BITS - 1);",
        "int32_t sum = 0;",
    ),
    "knows no limits": ("adaptation_loops.h", "lanes_set(-LARGEST_GRADIENT)", "lanes_set(-3000)"),
    "forgets nothing": ("adaptation_loops.h", "before - (before >> FORGET)", "before"),
    "knows no unit": ("mixture_loops.h", "(DISTANCE_BITS - 1)) - UNIT", "(DISTANCE_BITS - 1))"),
    "has no residual": (
        "adaptation_loops.h",
        "lanes_subtract(lanes_set(from->levels[e]), mean)",
        "mean",
    ),
}


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Forget what was found and laid out before, and again after the test."""
    monkeypatch.setattr(packing, "_packed", {})
    monkeypatch.delenv("LMZIP_KERNEL", raising=False)
    backends._find.cache_clear()
    yield
    backends._find.cache_clear()


def build(folder: Path) -> ModuleType:
    """Build the module from the sources in a folder, and load it."""
    target = folder / f"_kernels{sysconfig.get_config_var('EXT_SUFFIX')}"
    command = [
        *LINKER,
        *("-std=c11", "-O1", "-fPIC", "-DPy_LIMITED_API=0x030b0000"),
        f"-I{sysconfig.get_paths()['include']}",
        *map(str, sorted(folder.glob("*.c"))),
        *("-o", str(target)),
    ]
    subprocess.run(command, check=True)
    spec = importlib.util.spec_from_file_location("_kernels", target)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_numpy_gives_the_known_answers() -> None:
    backend = get_backend()

    def choose(
        network: IntegerNetwork, schedule: Schedule, cells: Cells | None, adapts: bool
    ) -> Depth:
        precision = None
        if cells:
            precision = Precision(cells.depth, LINEAR, cells.sharpness, cells.flatness)
            assert precision.symbols == cells.symbols
            assert np.array_equal(precision.boundaries, cells.boundaries)
        return choose_depth(network, schedule, precision, adapts)

    def make_steps(
        network: IntegerNetwork,
        schedule: Schedule,
        groups: Any,
        coded: int,
        cells: Cells | None,
        manner: Manner | None,
    ) -> ArraySteps:
        depth = choose(network, schedule, cells, manner is not None)
        adaptation = Adaptation(network, manner, schedule) if manner else None
        return ArraySteps(backend, depth, schedule, groups, coded, adaptation)

    def find_intervals(network: IntegerNetwork, schedule: Schedule, *others: Any) -> Any:
        samples, groups, span, check, cells, manner = others
        depth = choose(network, schedule, cells, manner is not None)
        adaptation = Adaptation(network, manner, schedule) if manner else None
        return encoder._find_intervals(
            backend, depth, schedule, samples, groups, span, check, adaptation
        )

    assert find_answers(make_steps, find_intervals) == KNOWN_ANSWERS
    assert find_answers(make_steps, find_intervals, Cells()) == DEEP_ANSWERS
    for manner, answers in ADAPTIVE_ANSWERS.items():
        assert find_answers(make_steps, find_intervals, manner=manner) == answers


@pytest.mark.parametrize("kernel", list_kernels(), ids=lambda kernel: kernel.name)
def test_kernels_give_the_known_answers(kernel: Kernel) -> None:
    assert gives_known_answers(kernel)


@pytest.mark.skipif(not LINKER, reason="Python names no compiler that takes GCC's options")
@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_wrong_kernel_is_refused(
    mistake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in SOURCES.glob("*.[ch]"):
        shutil.copy(path, tmp_path)
    file, right, wrong = MISTAKES[mistake]
    text = (tmp_path / file).read_text()
    assert text.count(right) == 1
    (tmp_path / file).write_text(text.replace(right, wrong))
    monkeypatch.setattr(lmzip.native, "_kernels", build(tmp_path), raising=False)
    monkeypatch.setattr(backends, "list_kernels", lambda: (PORTABLE,))
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    assert not gives_known_answers(PORTABLE)
    with pytest.raises(ModelError, match="'portable' does not compute exactly"):
        find_backend("portable")
    with pytest.warns(UserWarning, match="'portable' is wrong"):
        assert isinstance(find_backend(), NumpyBackend)


@pytest.mark.usefixtures("fresh")
def test_the_environment_chooses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")  # where any kernel is welcome
    assert describe_backend() == f"the {list_kernels()[0].name} kernel"
    monkeypatch.setenv("LMZIP_KERNEL", "portable")
    assert find_backend() == PORTABLE
    monkeypatch.setenv("LMZIP_KERNEL", "numpy")
    assert describe_backend() == "numpy"
    monkeypatch.setenv("LMZIP_KERNEL", "neon" if find_other("neon") else "avx2")
    with pytest.raises(InputError, match="cannot run here"):
        find_backend()
    monkeypatch.setenv("LMZIP_KERNEL", "abacus")
    with pytest.raises(InputError, match="abacus"):
        find_backend()


def find_other(name: str) -> bool:
    return name not in [kernel.name for kernel in list_kernels()]


@pytest.mark.usefixtures("fresh")
def test_without_a_kernel_numpy_does_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "list_kernels", lambda: ())
    assert isinstance(find_backend(), NumpyBackend)


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize(
    ("machine", "chosen"),
    [("x86_64", "numpy"), ("AMD64", "numpy"), ("riscv64", "the portable kernel")],
)
def test_plain_c_is_for_machines_where_numpy_is_not_faster(
    machine: str, chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backends, "list_kernels", lambda: (PORTABLE,))
    monkeypatch.setattr(platform, "machine", lambda: machine)
    assert describe_backend() == chosen
    monkeypatch.setenv("LMZIP_KERNEL", "portable")
    assert describe_backend() == "the portable kernel"
