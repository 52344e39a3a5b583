"""Which backend computes: a kernel in C, numpy, or torch. All give the same bytes.

The environment variable LMZIP_KERNEL chooses where the caller does not: numpy, or one of the
kernels. Otherwise it is the best kernel that this processor can run and that gives the known
answers, or numpy where none could be built or none is faster.
"""

from __future__ import annotations

import os
import platform
import warnings
from functools import cache

from lmzip.errors import InputError, ModelError
from lmzip.native.known_answers import gives_known_answers
from lmzip.native.packing import Kernel
from lmzip.network.backend import Backend, get_backend

AUTO = "auto"
NUMPY = "numpy"
VARIABLE = "LMZIP_KERNEL"
PORTABLE = "portable"
KERNELS = ("avx512", "avx2", "neon", PORTABLE)  # all there are


def find_backend(name: str = AUTO) -> Backend | Kernel:
    """Return a backend by name, checked.

    "auto", "numpy", "torch", "torch:DEVICE" (torch:cuda), or a kernel's name. Raises InputError if
    there is no such thing here, and ModelError if it does not compute exactly.
    """
    if name == AUTO:
        name = os.environ.get(VARIABLE) or AUTO
    return _find(name)


@cache
def list_kernels() -> tuple[Kernel, ...]:
    """Return the kernels that this processor can run, best first; none if none was built."""
    try:
        from lmzip.native import _kernels
    except ImportError:
        return ()
    return tuple(Kernel(*found) for found in _kernels.kernels())


def describe_backend(name: str = AUTO) -> str:
    """Return what computes, in words: "numpy", "the avx2 kernel", "torch on cuda"."""
    backend = find_backend(name)
    return f"the {backend.name} kernel" if isinstance(backend, Kernel) else backend.name


@cache
def _find(name: str) -> Backend | Kernel:
    kernels = {kernel.name: kernel for kernel in list_kernels()}
    if name == AUTO:
        for kernel in filter(_outruns_numpy, kernels.values()):
            if gives_known_answers(kernel):
                return kernel
            warnings.warn(f"the kernel {kernel.name!r} is wrong on this machine", stacklevel=3)
        return get_backend(NUMPY)
    if name in kernels:
        if not gives_known_answers(kernels[name]):
            raise ModelError(f"the kernel {name!r} does not compute exactly on this machine")
        return kernels[name]
    if name in KERNELS:
        here = ", ".join([NUMPY, *kernels])
        raise InputError(
            f"the kernel {name!r} was not built or cannot run here: choose from {here}"
        )
    return get_backend(name)


def _outruns_numpy(kernel: Kernel) -> bool:
    """Return whether a kernel is faster than numpy, whose products choose their instructions too.

    Plain C compiled for any x86-64 takes two to three times as long as numpy over a photograph.
    """
    return kernel.name != PORTABLE or platform.machine().lower() not in ("x86_64", "amd64")
