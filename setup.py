"""Builds the kernels in C, where there is a compiler; everything else is in pyproject.toml.

Without a compiler the installation succeeds and numpy does the work. LMZIP_REQUIRE_NATIVE=1 makes a
failed build an error.
"""

import os
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

FOLDER = Path("lmzip/native")
LIMITED_API = "0x030b0000"  # CPython 3.11 and later


class BuildKernels(build_ext):
    """Builds with what each compiler calls its flags; never for one processor alone."""

    def build_extension(self, ext: Extension) -> None:
        if self.compiler.compiler_type == "msvc":
            ext.extra_compile_args = ["/O2", "/std:c11"]
        else:
            ext.extra_compile_args = ["-std=c11", "-O3", "-funroll-loops", "-fvisibility=hidden"]
            # GCC would load the next weights ahead, at the price of a copy of every sum.
            ext.extra_compile_args += ["-fno-tree-pre"]
        super().build_extension(ext)


kernels = Extension(
    "lmzip.native._kernels",
    sources=sorted(path.as_posix() for path in FOLDER.glob("*.c")),
    depends=sorted(path.as_posix() for path in FOLDER.glob("*.h")),
    define_macros=[("Py_LIMITED_API", LIMITED_API)],
    py_limited_api=True,
    optional=os.environ.get("LMZIP_REQUIRE_NATIVE", "0") in ("", "0"),
)

setup(
    ext_modules=[kernels],
    cmdclass={"build_ext": BuildKernels},
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
