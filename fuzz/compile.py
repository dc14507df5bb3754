"""Compiles every .pyx file of a source tree with clang's sanitizers: ``python -m fuzz.compile FOLDER -O1``.

Only what has changed since the last time is compiled again. It is translated with the directives of a release, so that
the sanitizers see what users run.
"""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path

RELEASE = Path(__file__).resolve().parents[1] / "proto" / "setup.py"
SANITIZERS = "-fsanitize=address,undefined,fuzzer-no-link"
FLAGS = [
    "-g1",
    "-fno-omit-frame-pointer",
    SANITIZERS,
    "-fno-sanitize-recover=undefined",
    "-fno-sanitize=function,vptr",  # C code calls through casted pointers everywhere in Python itself
    "-Wno-everything",
]


def compile_all(folder: Path, optimization: str) -> None:
    from Cython.Build import cythonize
    from setuptools import Extension, setup

    directives = runpy.run_path(str(RELEASE))["DIRECTIVES"]
    os.chdir(folder)
    sources = sorted(Path().rglob("*.pyx"))
    flags = [optimization, *FLAGS]
    extensions = [
        Extension(".".join(source.with_suffix("").parts), [source.as_posix()], extra_compile_args=flags)
        for source in sources
    ]
    jobs = os.cpu_count() or 1
    setup(
        name="sanitized",
        packages=[],
        ext_modules=cythonize(extensions, compiler_directives=directives, nthreads=jobs, quiet=True),
        script_args=["-q", "build_ext", "--inplace", f"--parallel={jobs}"],
    )


if __name__ == "__main__":
    compile_all(Path(sys.argv[1]), sys.argv[2])
