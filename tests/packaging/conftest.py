"""Wheels of every distribution, built once, and clean environments to install them in."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
FOLDERS = {
    "scaler-protocol": REPOSITORY / "proto",
    "scaler-client": REPOSITORY / "packages" / "scaler-client",
    "scaler-scheduler": REPOSITORY / "packages" / "scaler-scheduler",
    "scaler-gui": REPOSITORY / "packages" / "scaler-gui",
    "scaler-worker": REPOSITORY / "packages" / "scaler-worker",
}
GENERATED = ("build", "dist", "*.egg-info", "*.so", "*.c", "*.cpp", "__pycache__")
KEPT_WHEELS = Path(sys.prefix) / "wheels"
"""``scripts/test`` keeps there what it has built and installed in this environment."""

TIMEOUT_SECONDS = 1500
"""Five distributions are compiled first: two minutes on a quiet machine, ten on a busy one."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    folder = Path(__file__).parent
    own = {path for path in {item.path for item in items} if folder in path.parents}
    for item in items:
        if item.path in own:
            item.add_marker(pytest.mark.timeout(TIMEOUT_SECONDS))


def run(*command: object, cwd: Path | None = None, text: str | None = None, **environment: str) -> str:
    """Output of a command that must succeed."""
    done = try_to_run(*command, cwd=cwd, text=text, **environment)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def try_to_run(
    *command: object, cwd: Path | None = None, text: str | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    words = [str(word) for word in command]
    clean = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(Path.home()), **_pip_environment(), **environment}
    return subprocess.run(
        words, cwd=cwd, input=text, env=clean, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False
    )


def _pip_environment() -> dict[str, str]:
    kept = ("PIP_", "SCALER_HOME", "SSL_CERT", "REQUESTS_CA", "HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")
    return {name: value for name, value in os.environ.items() if name.startswith(kept)}


def sources(name: str) -> set[Path]:
    """Files of a distribution that no build has made, relative to its folder."""
    files = {path.relative_to(FOLDERS[name]) for path in FOLDERS[name].rglob("*") if path.is_file()}
    return {path for path in files if not any(fnmatch(part, each) for part in path.parts for each in GENERATED)}


def source_archive(name: str, folder: Path) -> Path:
    """Copies the sources only, and packs them as for the package index."""
    return pack(copy_sources(name, folder))


def copy_sources(name: str, folder: Path) -> Path:
    copy = folder / name
    shutil.copytree(FOLDERS[name], copy, ignore=shutil.ignore_patterns(*GENERATED))
    return copy


def pack(copy: Path) -> Path:
    run(sys.executable, "-c", "import setuptools.build_meta as b; b.build_sdist('dist')", cwd=copy)
    return next((copy / "dist").glob("*.tar.gz"))


def build_wheel(archive: Path, wheels: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    pip = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-cache-dir"]
    return try_to_run(*pip, "--wheel-dir", wheels, archive, **environment)


def hasty_compiler(folder: Path) -> Path:
    """Compiles in a sixth of the time: what is in a wheel and how it installs does not depend on how fast it runs."""
    script = folder / "cc"
    script.write_text('#!/bin/sh\nexec cc "$@" -O0\n')
    script.chmod(0o755)
    return script


@dataclass(frozen=True)
class Built:
    wheels: Path

    def wheel(self, name: str) -> Path:
        return next(self.wheels.glob(name.replace("-", "_") + "-*.whl"))

    def is_current(self, name: str) -> bool:
        """Whether there is a wheel that is newer than all that it was built from."""
        written = max((path.stat().st_mtime for path in self.wheels.glob(name.replace("-", "_") + "-*.whl")), default=0)
        return all((FOLDERS[name] / path).stat().st_mtime < written for path in sources(name))


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Those of ``scripts/test``. Elsewhere, the first of the processes that run the tests builds them for all, from
    source archives."""
    kept = Built(KEPT_WHEELS)
    if all(kept.is_current(name) for name in FOLDERS):
        return kept
    temporary = tmp_path_factory.getbasetemp()
    folder = (temporary.parent if "PYTEST_XDIST_WORKER" in os.environ else temporary) / "distributions"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            _build(folder)
            (folder / "complete").touch()
    return Built(folder / "wheels")


def _build(folder: Path) -> None:
    archives = [source_archive(name, folder) for name in FOLDERS]
    compiler = str(hasty_compiler(folder))
    with ThreadPoolExecutor(2) as pool:
        for done in pool.map(lambda archive: build_wheel(archive, folder / "wheels", CC=compiler), archives):
            assert done.returncode == 0, done.stdout + done.stderr


@dataclass(frozen=True)
class Environment:
    """A fresh virtual environment."""

    folder: Path
    wheels: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    def install(self, *requirements: str) -> None:
        pip = [sys.executable, "-m", "pip", "--python", self.python, "install", "--quiet", "--no-warn-script-location"]
        run(*pip, "--no-compile", "--find-links", self.wheels, *requirements)

    def installed(self) -> set[str]:
        code = "import importlib.metadata as m; print(*[d.metadata['Name'] for d in m.distributions()])"
        return set(self.run_python(code).split())

    def run_python(self, code: str) -> str:
        """Typed into ``python -``: without a file and without a main guard."""
        return run(self.python, "-", text=code, cwd=self.folder)

    def fail_python(self, code: str) -> str:
        done = try_to_run(self.python, "-", text=code, cwd=self.folder)
        assert done.returncode != 0
        return done.stderr

    def command(self, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return try_to_run(self.folder / "bin" / name, *arguments, cwd=self.folder)


def make_environment(folder: Path, built: Built, *requirements: str) -> Environment:
    run(sys.executable, "-m", "venv", "--without-pip", folder)
    environment = Environment(folder, built.wheels)
    environment.install(*requirements)
    return environment
