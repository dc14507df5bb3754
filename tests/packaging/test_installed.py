"""Each distribution, installed alone in a clean environment with what it requires."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest

from tests.packaging.conftest import Built, Environment, make_environment

SIBLINGS = {"scaler-client", "scaler-scheduler", "scaler-worker", "scaler-gui"}

ALONE = {
    "scaler-protocol": ("scaler_protocol", ["scaler_keygen"]),
    "scaler-client": ("scaler", ["scaler"]),
    "scaler-scheduler": ("scaler_scheduler", ["scaler_scheduler", "scaler_top", "scaler_ui"]),
    "scaler-gui": ("scaler_gui", ["scaler_gui"]),
    "scaler-worker": (
        "scaler_worker",
        ["scaler_cluster", "scaler_worker", "scaler_worker_manager", "scaler_symphony_cluster"],
    ),
}

SAME_PROGRAM = {"scaler_worker": "scaler_cluster"}

COMBO = """
from scaler import Client, SchedulerClusterCombo
import math
cluster = SchedulerClusterCombo(n_workers=2, logging_paths=("/dev/stderr",))
client = Client(cluster.get_address())
print(client.submit(math.sqrt, 16.0).result(), client.map(abs, [-1, -2]))
client.disconnect()
cluster.shutdown()
"""

HINT = "pip install 'scaler-client[local]'"


@pytest.fixture(scope="module")
def installed_alone(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Environment]:
    folder = tmp_path_factory.mktemp("alone")
    return functools.cache(lambda name: make_environment(folder / name, built, name))


@pytest.mark.parametrize("name", ALONE)
def test_alone(installed_alone: Callable[[str], Environment], name: str) -> None:
    alone = installed_alone(name)
    package, commands = ALONE[name]
    assert alone.installed() & SIBLINGS <= {name}
    assert alone.run_python(f"import {package}; print({package}.__version__)").strip()
    for command in commands:
        shown = alone.command(command, "-h")
        assert (shown.returncode, shown.stderr) == (0, "")
        assert shown.stdout.startswith(f"usage: {SAME_PROGRAM.get(command, command)} ")
        wrong = alone.command(command, "--no-such-option")
        assert wrong.returncode == 2
        assert len(wrong.stderr.splitlines()) == 1


@pytest.fixture(scope="module")
def client_only(installed_alone: Callable[[str], Environment]) -> Environment:
    return installed_alone("scaler-client")


@pytest.mark.parametrize(
    "name",
    [
        "SchedulerClusterCombo",
        "LocalCluster",
        "SSHCluster",
        "SlurmCluster",
        "GridEngineCluster",
        "Scheduler",
        "Cluster",
    ],
)
def test_a_client_alone_says_what_a_local_cluster_needs(client_only: Environment, name: str) -> None:
    last = client_only.fail_python(f"from scaler import {name}\n{name}").splitlines()[-1]
    assert last.startswith("ImportError:") and HINT in last


def test_a_client_alone_has_its_names(client_only: Environment) -> None:
    client_only.run_python(
        "from scaler import Client, ScalerFuture, Serializer, ObjectReference\n"
        "from scaler.client.future import ScalerFuture\n"
        "from scaler.client.object_reference import ObjectReference\n"
        "from scaler.utility.exceptions import ScalerError\n"
    )


def test_a_local_cluster(built: Built, tmp_path_factory: pytest.TempPathFactory) -> None:
    environment = make_environment(tmp_path_factory.mktemp("local") / "local", built, "scaler-client[local]")
    assert environment.run_python(COMBO).strip() == "4.0 [1, 2]"


def test_the_web_monitor_alone_says_what_it_needs(installed_alone: Callable[[str], Environment]) -> None:
    done = installed_alone("scaler-scheduler").command("scaler_ui", "ipc:///tmp/nobody_monitor")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1 and "pip install 'scaler-scheduler[ui]'" in done.stderr


def test_the_web_monitor_has_its_page(built: Built, tmp_path_factory: pytest.TempPathFactory) -> None:
    environment = make_environment(tmp_path_factory.mktemp("ui") / "ui", built, "scaler-scheduler[ui]")
    code = """
import subprocess, sys, urllib.request
ui = subprocess.Popen([sys.prefix + "/bin/scaler_ui", "ipc:///tmp/nobody_monitor", "--port", "0"], stdout=-1, text=True)
base, _, token = ui.stdout.readline().split()[-1].partition("?")
for path in ("", "app.js", "style.css", "icon.svg", "vendor/uPlot.js", "vendor/inter.woff2", "vendor/inter.LICENSE"):
    assert len(urllib.request.urlopen(base + path + "?" + token).read()) > 100, path
ui.terminate()
print(ui.wait(10))
"""
    assert environment.run_python(code).strip() == "0"
