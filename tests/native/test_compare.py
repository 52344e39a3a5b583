"""The loops of each kernel against plain arithmetic, on this processor and on emulated ones."""

from __future__ import annotations

import platform
import shlex
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SOURCES = HERE.parents[1] / "lmzip" / "native"
LOOPS = [*sorted(SOURCES.glob("kernel_*.c")), SOURCES / "dispatch.c"]
COMPILER = shlex.split(sysconfig.get_config_var("CC") or "")
X86 = platform.machine().lower() in ("x86_64", "amd64")

needs_compiler = pytest.mark.skipif(
    not COMPILER, reason="Python names no compiler that takes GCC's options, as on Windows"
)


def compare(compiler: list[str], folder: Path, *options: str, sources: list[Path]) -> list[str]:
    """Build the program; return the command that runs it."""
    program = folder / "compare"
    flags = ["-std=c11", "-O3", "-Wall", "-Wextra", "-Werror", *options, f"-I{SOURCES}"]
    files = [HERE / "compare.c", *sources]
    subprocess.run([*compiler, *flags, *map(str, files), "-o", str(program)], check=True)
    return [str(program)]


def agreeing(command: list[str]) -> list[str]:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.split()


@needs_compiler
def test_kernels_of_this_processor(tmp_path: Path) -> None:
    command = compare(COMPILER, tmp_path, "-fsanitize=address,undefined", sources=LOOPS)
    assert "portable" in agreeing(command)


@needs_compiler
@pytest.mark.skipif(not X86, reason="kernel.h declares this kernel on x86-64 alone")
def test_avx512_with_its_operations_in_plain_c(tmp_path: Path) -> None:
    """What Intel's manual says of each operation stands in for the operation."""
    command = compare(
        COMPILER,
        tmp_path,
        "-DLMZIP_EMULATED",
        "-DKERNELS=(const Kernel *const[]){&avx512_kernel, 0}",
        f"-I{HERE / 'emulated'}",
        sources=[SOURCES / "kernel_avx512.c"],
    )
    assert agreeing(command) == ["avx512"]


@pytest.mark.skipif(
    not (shutil.which("aarch64-linux-gnu-gcc") and shutil.which("qemu-aarch64")),
    reason="needs gcc-aarch64-linux-gnu and qemu-user",
)
def test_neon_on_an_emulated_processor(tmp_path: Path) -> None:
    command = compare(["aarch64-linux-gnu-gcc"], tmp_path, "-static", sources=LOOPS)
    assert agreeing(["qemu-aarch64", *command]) == ["neon", "portable"]
