"""Distributions are installed alone: what each may import."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.architecture.sources import SOURCE_FOLDERS, Import, Source, sources

PACKAGES = {"scaler", "scaler_protocol", "scaler_scheduler", "scaler_worker", "scaler_gui"}
JOINS_ALL = "scaler/cluster/"
"""The only folder that may import siblings, and only inside functions: it runs a whole cluster on this machine."""

OWNERS = {
    "aiohttp": ("scaler_scheduler/web/",),
    "capnp": ("scaler_protocol/monitor/",),
    "cloudpickle": (
        "scaler/client/",
        "scaler/compat/ray/remote_tasks.py",
        "scaler/integrations/joblib.py",
        "scaler/utility/private_apis.py",
        "scaler_worker/worker_process/",
        "scaler_worker/symphony/",
    ),
    "dask": (
        "scaler/integrations/dask.py",
        "scaler/integrations/dask_callbacks.py",
        "scaler/integrations/dask_collections.py",
        "scaler/integrations/dask_persistence.py",
        "scaler/utility/private_apis.py",
    ),
    "graphblas": ("scaler/integrations/graphblas.py",),
    "joblib": ("scaler/integrations/joblib.py",),
    "numpy": (
        "scaler/integrations/graphblas.py",
        "scaler/integrations/joblib.py",
        "scaler_gui/models/",
        "scaler_gui/views/",
    ),
    "pytest": ("scaler/integrations/pytest.py",),
    "prometheus_client": ("scaler_scheduler/metrics/",),
    "PySide6": ("scaler_gui/",),
    "psutil": ("scaler_scheduler/shell/", "scaler_worker/shell/"),
    "rich": ("scaler/client/progress.py",),
    "soamapi": ("scaler_worker/symphony/soam.py",),
    "pyqtgraph": ("scaler_gui/views/chart.py",),
    "tblib": ("scaler/client/", "scaler_worker/worker_process/", "scaler_worker/symphony/shim.py"),
    "tqdm": ("scaler/client/progress.py",),
    "uvloop": ("scaler_protocol/command/event_loop.py",),
    "zmq": (
        "scaler_gui/feeds.py",
        "scaler_protocol/transport/",
        "scaler_protocol/monitor/",
        "scaler_scheduler/metrics/process.py",
        "scaler_scheduler/shell/network_watchers.py",
        "scaler_scheduler/shell/publisher_service.py",
        "scaler_scheduler/top/",
        "scaler_scheduler/web/",
    ),
}
"""Third-party libraries and the modules that own them: all other modules use these."""

NOT_EVERYWHERE = {"curses", "fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "tty"}
"""Modules that only some systems have. A client runs on any."""

ALL = sources()


def test_no_distribution_imports_a_sibling() -> None:
    assert not [(source.name, each) for source in ALL for each in source.imports() if _is_of_a_sibling(source, each)]


def test_each_library_has_its_owner() -> None:
    found = [(source.name, each) for source in ALL for each in source.imports()]
    assert not [(name, each) for name, each in found if not _may_import(name, each.module.split(".")[0])]


def test_clients_import_what_every_system_has() -> None:
    clients = [source for source in ALL if source.distribution in ("scaler", "scaler_gui")]
    found = [(source.name, each) for source in clients for each in source.imports() if not each.inside_function]
    assert clients and not [(name, each) for name, each in found if each.module in NOT_EVERYWHERE]


@pytest.mark.parametrize("folder", ["top", "web"])
def test_a_monitor_command_stands_alone(folder: str) -> None:
    """scaler_top and scaler_ui ship with the scheduler so that a server has them, and share nothing with it."""
    own = f"scaler_scheduler.{folder}"
    found = [source for source in ALL if source.name.startswith(f"scaler_scheduler/{folder}/")]
    assert found
    for source in found:
        assert not [
            each
            for each in source.imports()
            if each.module.startswith("scaler_scheduler.") and not each.module.startswith(own)
        ]


@pytest.mark.parametrize("folder", SOURCE_FOLDERS, ids=lambda folder: folder.parent.name)
def test_packages_are_typed_and_ordinary(folder: Path) -> None:
    for package in [path for path in folder.iterdir() if path.is_dir() and path.name in PACKAGES]:
        assert (package / "py.typed").exists()
        for inner in {path.parent for path in package.rglob("*.py")}:
            assert (inner / "__init__.py").exists(), f"{inner} would be a namespace package"


def _is_of_a_sibling(source: Source, each: Import) -> bool:
    if each.only_types or (source.name.startswith(JOINS_ALL) and each.inside_function):
        return False
    return each.module.split(".")[0] in PACKAGES - {source.distribution, "scaler_protocol"}


def _may_import(name: str, library: str) -> bool:
    return library not in OWNERS or name.startswith(OWNERS[library] or "-")
