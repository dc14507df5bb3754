"""Compiles every .pyx file under src. There is no pure-Python fallback: a failed compile fails the build."""

from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup


def extension(source: Path) -> Extension:
    module = ".".join(source.relative_to("src").with_suffix("").parts)
    return Extension(module, [source.as_posix()], extra_compile_args=["-O3", "-g0"])


DIRECTIVES = {"language_level": 3, "nonecheck": True}
"""A None where an object is expected raises AttributeError; without nonecheck the process would read address 0."""

sources = sorted(Path("src").rglob("*.pyx"))
setup(
    ext_modules=cythonize([extension(source) for source in sources], compiler_directives=DIRECTIVES) if sources else [],
    options={"build_ext": {"parallel": True}},  # as many compilers as cores
)
