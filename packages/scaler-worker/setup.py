"""Compiles every .pyx file under src. There is no pure-Python fallback: a failed compile fails the build."""

import os
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext


def extension(source: Path) -> Extension:
    module = ".".join(source.relative_to("src").with_suffix("").parts)
    return Extension(module, [source.as_posix()], extra_compile_args=["-O3", "-g0"])


DIRECTIVES = {"language_level": 3, "nonecheck": True}
"""A None where an object is expected raises AttributeError; without nonecheck the process would read address 0."""


class TranslateAndCompile(build_ext):
    """Translates with as many processes as there are cores, and only for a build: metadata and archives need no C."""

    def run(self) -> None:
        translated = cythonize(self.extensions, nthreads=os.cpu_count() or 1, compiler_directives=DIRECTIVES)
        for each, with_c in zip(self.extensions, translated, strict=True):
            each.sources = with_c.sources
        super().run()


def setup_all(sources: list[Path]) -> None:
    setup(
        ext_modules=[extension(source) for source in sources],
        cmdclass={"build_ext": TranslateAndCompile},
        options={"build_ext": {"parallel": True}},
    )


if __name__ == "__main__":  # Python 3.14 imports this file in each process that translates
    setup_all(sorted(Path("src").rglob("*.pyx")))
