"""For every test: a SCALER_HOME of its own run, and proof that a module of tests leaves nothing behind."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Generator, Iterator

import pytest

from tests.support import leftovers
from tests.support.watchdog import Watchdog

FIRST_FILES = (
    "fuzz/test_sanitizers.py",
    "cluster/test_gridengine_manager.py",
    "cluster/test_slurm_manager.py",
    "packaging/test_archives.py",
    "cluster/test_ssh_manager.py",
    "cluster/test_kubernetes_manager.py",
    "cluster/test_events.py",
    "cluster/test_impostors.py",
    "cluster/test_keys.py",
    "packaging/test_installed.py",
)
"""The fuzzers take minutes and all cores. The tests that run meanwhile mostly wait for other systems.
Long files do not come last, when the other processes would have nothing to do."""
LONGEST_TEMPORARY_FOLDER = 24
"""The path of a socket has at most 107 bytes, and folders of tests have long names."""


def pytest_configure(config: pytest.Config) -> None:
    """Before any test module is imported: nothing may touch the user's own ~/.scaler."""
    if len(tempfile.gettempdir()) > LONGEST_TEMPORARY_FOLDER:
        tempfile.tempdir = os.environ["TMPDIR"] = "/tmp"
    os.environ["SCALER_HOME"] = tempfile.mkdtemp(prefix="scaler-home-")
    os.environ.pop("XDG_RUNTIME_DIR", None)
    _keep_bytecode()
    commands = "SCALER_SCHEDULER_", "SCALER_CLUSTER_", "SCALER_SYMPHONY_"
    for name in [name for name in os.environ if name.startswith(commands)]:
        del os.environ[name]
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # in the background of a script; children would inherit that
        signal.signal(signal.SIGINT, signal.default_int_handler)
    leftovers.adopt_orphans()
    if not config.getoption("usepdb"):
        config.pluginmanager.register(Watchdog(config))


def _keep_bytecode() -> None:
    """The tests start thousands of processes. Many containers set this variable, and each process would then compile
    all modules again, which takes more time than what it is started for."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False


def pytest_unconfigure(config: pytest.Config) -> None:
    shutil.rmtree(os.environ["SCALER_HOME"], ignore_errors=True)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Thousands of tests are millions of objects, which stay. Garbage is not looked for while they are made, nor among
    them afterwards: each ``gc.collect()`` of a test would take a quarter of a second, and some tests call it often."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = {name: place for place, name in enumerate(FIRST_FILES)}
    items.sort(key=lambda item: places.get(f"{item.path.parent.name}/{item.path.name}", len(places)))


@pytest.fixture(scope="module", autouse=True)
def nothing_left_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    """Per module, so that its tests may share a cluster."""
    before = leftovers.present()
    yield
    left = leftovers.left_since(before)
    leftovers.sweep(left)
    if left:
        pytest.fail(f"{request.node.name} left behind: " + "; ".join(sorted(left.values())), pytrace=False)
