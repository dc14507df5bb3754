"""The sanitizer build: an environment and a copy of the sources of its own in ``.fuzz``, apart from the normal build.

``prepare`` makes it when it is missing and brings it up to date when a source has changed. Only the standard library is
used here, since this runs before there is an environment.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path

from fuzz.mode import Mode

REPOSITORY = Path(__file__).resolve().parents[1]
FOLDER = REPOSITORY / ".fuzz" / f"python{sys.version_info.major}.{sys.version_info.minor}"
OPTIMIZATION = os.environ.get("SCALER_FUZZ_OPTIMIZATION", "1")
"""The level of clang's -O. 0 compiles in a quarter of the time, for short runs. Each level has a build of its own."""

SOURCES = FOLDER / f"src-O{OPTIMIZATION}"
PYTHON = FOLDER / "environment" / "bin" / "python"
REQUIREMENTS = REPOSITORY / "fuzz" / "requirements.txt"
NEWEST_PYTHON = (3, 13)
"""Atheris changes bytecode, so each release of it knows the versions of Python up to one."""

_GENERATED = shutil.ignore_patterns("*.so", "*.c", "*.pyc", "__pycache__", "*.egg-info")


class Unavailable(Exception):
    """The reason why there can be no sanitizer build here, as one sentence."""


def prepare() -> None:
    """Make the build, or bring it up to date. Raises Unavailable."""
    _check_machine()
    _install()
    _copy_sources()
    _compile()


QUARANTINES = {
    Mode.GUIDED: "quarantine_size_mb=32",
    Mode.VOLUME: "quarantine_size_mb=1:thread_local_quarantine_size_kb=64",
}
"""Freed memory that is not used again, so that a late access is seen. That of many inputs costs the caches of the
processor; where many are tried, that of the last one is enough."""


def environment(mode: Mode = Mode.GUIDED) -> dict[str, str]:
    """The environment variables of a process that uses the build."""
    runtime = next((FOLDER / "environment").glob("lib/python*/site-packages/asan_with_fuzzer.so"))
    symbolizer = shutil.which("llvm-symbolizer") or ""
    return {
        **os.environ,
        "LD_PRELOAD": str(runtime),
        "PYTHONPATH": os.pathsep.join([str(SOURCES), str(REPOSITORY)]),
        "PYTHONMALLOC": "malloc",  # the sanitizer sees each object by itself
        "PYTHONHASHSEED": "0",
        "ASAN_OPTIONS": f"detect_leaks=0:allocator_may_return_null=1:handle_segv=1:{QUARANTINES[mode]}",
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
        **({"ASAN_SYMBOLIZER_PATH": symbolizer} if symbolizer else {}),
    }


def _check_machine() -> None:
    if sys.platform != "linux":
        raise Unavailable("The sanitizer build is for Linux.")
    if sys.version_info[:2] > NEWEST_PYTHON:
        newest = ".".join(map(str, NEWEST_PYTHON))
        raise Unavailable(f"Atheris runs on Python 3.11 to {newest}. Set PYTHON to one of them.")
    if shutil.which("clang") is None:
        raise Unavailable("clang is not installed. Run: apt install clang llvm")


def _install() -> None:
    stamp = FOLDER / "installed"
    if stamp.exists() and stamp.read_bytes() == REQUIREMENTS.read_bytes() and PYTHON.exists():
        return
    print(f"installing the fuzzer into {FOLDER.relative_to(REPOSITORY)}", flush=True)
    try:
        venv.create(FOLDER / "environment", with_pip=True, clear=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise Unavailable(f"An environment cannot be made: {error}") from None
    _run([str(PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", str(REQUIREMENTS)])
    stamp.write_bytes(REQUIREMENTS.read_bytes())


def _packages() -> Iterator[Path]:
    for folder in [REPOSITORY / "proto" / "src", *sorted(REPOSITORY.glob("packages/*/src"))]:
        yield from (each for each in sorted(folder.iterdir()) if (each / "__init__.py").exists())


def _copy_sources() -> None:
    """Files that are the same keep their times, so that they are not compiled again."""
    SOURCES.mkdir(parents=True, exist_ok=True)
    for package in _packages():
        copied = SOURCES / package.name
        shutil.copytree(package, copied, ignore=_GENERATED, copy_function=_copy_changed, dirs_exist_ok=True)
        _remove_others(package, copied)
        _copy_translations(package, copied)


def _copy_changed(source: str, target: str) -> None:
    if not os.path.exists(target) or Path(source).read_bytes() != Path(target).read_bytes():
        shutil.copyfile(source, target)


def _copy_translations(package: Path, copied: Path) -> None:
    """C that the normal build has translated from these sources need not be translated again."""
    compiled_sources = [path for path in package.rglob("*") if path.suffix in (".pyx", ".pxd")]
    changed = max((path.stat().st_mtime for path in compiled_sources), default=0.0)
    for path in package.rglob("*.c"):
        target = copied / path.relative_to(package)
        known = target.stat().st_mtime if target.exists() else 0.0
        if path.stat().st_mtime > max(changed, known):
            shutil.copyfile(path, target)


def _remove_others(package: Path, copied: Path) -> None:
    """Files that were removed from the sources since the last copy."""
    for path in list(copied.rglob("*")):
        original = package / path.relative_to(copied)
        if path.suffix in (".py", ".pyx", ".pyi", ".pxd") and not original.exists():
            path.unlink()
            for compiled in path.parent.glob(f"{path.stem}.*.so"):
                compiled.unlink()


def _compile() -> None:
    """clang must not link its sanitizers in: they are preloaded, with the fuzzer among them."""
    print("compiling with sanitizers (a few minutes the first time)", flush=True)
    _run(
        [str(PYTHON), "-m", "fuzz.compile", str(SOURCES), f"-O{OPTIMIZATION}"],
        {**os.environ, "CC": "clang", "LDSHARED": "clang -shared", "PYTHONPATH": str(REPOSITORY)},
    )


def _run(command: list[str], environment: dict[str, str] | None = None) -> None:
    done = subprocess.run(command, cwd=REPOSITORY, env=environment, check=False)
    if done.returncode:
        raise Unavailable(f"This failed: {' '.join(command[1:])}")
