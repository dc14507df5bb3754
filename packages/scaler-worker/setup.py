"""Compiles every .pyx file under src. There is no pure-Python fallback: a failed compile fails the build."""

import os
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup


def extension(source: Path) -> Extension:
    module = ".".join(source.relative_to("src").with_suffix("").parts)
    return Extension(module, [source.as_posix()], extra_compile_args=["-O3", "-g0"])


DIRECTIVES = {"language_level": 3, "nonecheck": True}
"""A None where an object is expected raises AttributeError; without nonecheck the process would read address 0."""


def setup_all(sources: list[Path]) -> None:
    """Translate and compile with as many processes as there are cores."""
    extensions = [extension(source) for source in sources]
    setup(
        ext_modules=cythonize(extensions, nthreads=os.cpu_count() or 1, compiler_directives=DIRECTIVES),
        options={"build_ext": {"parallel": True}},
    )


if __name__ == "__main__":  # Python 3.14 imports this file in each process that translates
    setup_all(sorted(Path("src").rglob("*.pyx")))
