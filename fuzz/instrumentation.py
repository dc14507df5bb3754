"""Keeps the bytecode that Atheris has instrumented, for the next process that imports the same module.

Instrumenting the modules of a core takes far longer than importing them. Instrumented code refers to Atheris itself and
to counters of the process, so the kept code has marks in their place. This module replaces private functions of
Atheris, which ``fuzz/requirements.txt`` therefore limits to one minor version.
"""

from __future__ import annotations

import contextlib
import hashlib
import marshal
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType

import atheris
from atheris import import_hook, instrument_bytecode

FOLDER = Path(sys.prefix) / "instrumented"
_MARK = "of this process"
_MODULE = (_MARK, -1)


@contextlib.contextmanager
def instrumented_imports(packages: list[str]) -> Iterator[None]:
    """Do what ``atheris.instrument_imports`` does."""
    FOLDER.mkdir(exist_ok=True)
    original = import_hook.patch_code
    import_hook.patch_code = _instrumented
    try:
        with atheris.instrument_imports(include=packages):
            yield
    finally:
        import_hook.patch_code = original


def _instrumented(code: CodeType, trace_dataflow: bool) -> CodeType:
    kept = _kept_path(code)
    try:
        count, marked = marshal.loads(kept.read_bytes())
    except (OSError, EOFError, ValueError, TypeError):
        count, marked = _instrument(code, trace_dataflow)
        _write(kept, marshal.dumps((count, marked)))
    counters = [atheris._reserve_counter() for _ in range(count)]
    return _replace(marked, lambda constant: _bound(constant, counters))


def _kept_path(code: CodeType) -> Path:
    """The file for this version of a source file, which its time and size identify, as they do for .pyc files."""
    status = os.stat(code.co_filename)
    version = f"{code.co_filename} {status.st_mtime_ns} {status.st_size}"
    return FOLDER / hashlib.sha1(version.encode()).hexdigest()


def _instrument(code: CodeType, trace_dataflow: bool) -> tuple[int, CodeType]:
    """Return the number of counters, and code with marks."""
    marks: list[tuple[str, int]] = []

    def reserve() -> tuple[str, int]:
        marks.append((_MARK, len(marks)))
        return marks[-1]

    original = atheris._reserve_counter
    atheris._reserve_counter = reserve
    try:
        patched = instrument_bytecode.patch_code(code, trace_dataflow)
    finally:
        atheris._reserve_counter = original
    return len(marks), _replace(patched, lambda constant: _MODULE if constant is atheris else constant)


def _bound(constant: object, counters: list[int]) -> object:
    if not (isinstance(constant, tuple) and len(constant) == 2 and constant[0] == _MARK):
        return constant
    return atheris if constant == _MODULE else counters[constant[1]]


def _replace(code: CodeType, replacement: Callable[[object], object]) -> CodeType:
    """Return the code with other constants, also in the functions inside."""
    constants = (
        _replace(constant, replacement) if isinstance(constant, CodeType) else replacement(constant)
        for constant in code.co_consts
    )
    return code.replace(co_consts=tuple(constants))


def _write(path: Path, data: bytes) -> None:
    """Several processes may write the same file at a time."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    temporary.write_bytes(data)
    temporary.replace(path)
