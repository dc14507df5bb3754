"""Tasks that run in the environment of their client."""

from __future__ import annotations

import asyncio
import importlib
import importlib.metadata
import os
import re
import signal
import socket
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from scaler import AsyncClient, Client, Environment, SchedulerClusterCombo
from scaler.utility.exceptions import NoWorkerError
from tests.support.commands import start_cluster, start_scheduler
from tests.support.ports import free_address
from tests.support.waiting import wait_until

RED, BLUE = Environment(variables={"COLOR": "red"}), Environment(variables={"COLOR": "blue"})


def color() -> str | None:
    return os.environ.get("COLOR")


def pid() -> int:
    return os.getpid()


def count_running(folder: str, seconds: float) -> int:
    """How many of these calls run at present."""
    mark = Path(folder, str(os.getpid()))
    mark.touch()
    count = len(list(Path(folder).iterdir()))
    time.sleep(seconds)
    mark.unlink()
    return count


def nested_color(environment: Environment | None) -> str | None:
    with Client(environment=environment) as client:
        return client.submit(color).result()


class Painter:
    def color(self) -> str | None:
        return color()


@pytest.fixture
def address(combo: SchedulerClusterCombo) -> str:
    return combo.get_address()


def test_variables_and_directory(address: str, tmp_path: Path) -> None:
    environment = Environment(variables={"COLOR": "red", "TZ": "UTC+3"}, working_directory=str(tmp_path))
    with Client(address, environment=environment) as client:
        assert client.submit(color).result() == "red"
        assert client.submit(os.getcwd).result() == str(tmp_path)
        assert client.submit(lambda: time.timezone).result() == 3 * 3600
        assert client.map(lambda number: (number, color()), range(5)) == [(number, "red") for number in range(5)]
        assert client.submit(str, client.submit(color)).result() == "red"


def test_each_environment_has_processes_of_its_own(single_combo: SchedulerClusterCombo) -> None:
    address = single_combo.get_address()
    with Client(address) as plain, Client(address, environment=RED) as red, Client(address, environment=BLUE) as blue:
        clients = {None: plain, "red": red, "blue": blue}
        pids = set()
        for _ in range(3):
            for expected, client in clients.items():
                assert client.submit(color).result() == expected
                pids.add((expected, client.submit(pid).result()))
        assert len({number for _, number in pids}) == len(pids)


def test_equal_environments_share_processes(single_combo: SchedulerClusterCombo) -> None:
    address = single_combo.get_address()
    with Client(address, environment=RED) as first, Client(address, modules=["tests"], environment=RED) as second:
        assert first.submit(pid).result() == second.submit(pid).result()


def test_no_more_tasks_run_than_there_are_workers(address: str, tmp_path: Path) -> None:
    with Client(address) as plain, Client(address, environment=RED) as red, Client(address, environment=BLUE) as blue:
        clients = [plain, red, blue]
        futures = [each.submit(count_running, str(tmp_path), 0.02) for _ in range(20) for each in clients]
        assert max(future.result() for future in futures) <= 2


def test_clients_inside_tasks_inherit_it(address: str) -> None:
    with Client(address, environment=RED) as client:
        assert client.submit(nested_color, None).result() == "red"
        assert client.submit(nested_color, BLUE).result() == "blue"
        assert client.submit(nested_color, Environment()).result() is None


def test_actors_and_graphs(address: str) -> None:
    with Client(address, environment=RED) as client:
        actor = client.actor(Painter)
        assert actor.color().result() == "red"
        assert client.get({"a": (color,), "b": (str, "a")}, ["b"]) == {"b": "red"}


def call_painter(painter: object) -> tuple[str | None, str | None]:
    return painter.color().result(), color()  # type: ignore[attr-defined]


def test_calls_run_in_the_environment_of_their_actor(address: str) -> None:
    with Client(address, environment=RED) as red, Client(address, environment=BLUE) as blue:
        assert blue.submit(call_painter, red.actor(Painter)).result() == ("red", "blue")


def test_asynchronous_clients_have_one(address: str) -> None:
    async def main() -> str | None:
        async with AsyncClient(address, environment=RED) as client:
            return await client.submit(color)

    assert asyncio.run(main()) == "red"


def test_a_directory_that_is_not_there(address: str, tmp_path: Path) -> None:
    path = tmp_path / "later"
    with Client(address, environment=Environment(working_directory=str(path))) as client:
        reason = f"Cannot use the working directory {path} on {socket.gethostname()}: No such file"
        with pytest.raises(NoWorkerError, match=re.escape(reason)):
            client.submit(color).result()
        path.mkdir()
        assert client.submit(os.getcwd).result() == str(path)


def test_processes_end_with_the_last_client(address: str) -> None:
    with Client(address) as client:
        with Client(address, environment=RED) as red:
            number = red.submit(pid).result()
        wait_until(lambda: client.submit(len, "a").result() == 1 and not os.path.exists(f"/proc/{number}"))


# ---- packages --------------------------------------------------------------------------------------------------


def write_wheel(
    folder: Path, name: str, version: str, source: str, *requirements: str, tag: str = "py3-none-any"
) -> None:
    """A package of one module."""
    information = f"{name}-{version}.dist-info"
    needs = "".join(f"Requires-Dist: {each}\n" for each in requirements)
    with zipfile.ZipFile(folder / f"{name}-{version}-{tag}.whl", "w") as archive:
        archive.writestr(f"{name}.py", source)
        archive.writestr(f"{information}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}")
        archive.writestr(f"{information}/WHEEL", f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n")
        archive.writestr(f"{information}/RECORD", f"{name}.py,,\n{information}/RECORD,,\n")


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packages that the host's pip is configured to find."""
    folder = tmp_path_factory.mktemp("index")
    write_wheel(folder, "scaler_painter", "1.0", "VERSION = 1\nimport scaler_brush\n", "scaler_brush")
    write_wheel(folder, "scaler_painter", "2.0", "VERSION = 2\n")
    write_wheel(folder, "scaler_brush", "1.0", "SIZE = 3\n")
    write_wheel(folder, "scaler_foreign", "1.0", "", tag="cp27-cp27m-win32")
    return folder


@pytest.fixture(scope="module")
def package_address(index: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A cluster whose host has a configuration of pip, no uv, and a cache of its own."""
    home = tmp_path_factory.mktemp("home")
    (home / "pip.conf").write_text(f"[global]\nno-index = true\nfind-links = {index}\n")
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("PIP_")]:
            patch.delenv(name)
        patch.setenv("PIP_CONFIG_FILE", str(home / "pip.conf"))
        patch.setenv("TMPDIR", str(home))
        patch.setenv("PATH", os.path.dirname(sys.executable))
        with SchedulerClusterCombo(2) as running:
            yield running.get_address()


def painter_version() -> int:
    return int(importlib.import_module("scaler_painter").VERSION)


def version_in_subprocess() -> str:
    command = [sys.executable, "-c", "import scaler_painter; print(scaler_painter.VERSION)"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_packages_are_installed(package_address: str) -> None:
    old, new = Environment(["scaler_painter==1.0"]), Environment(["scaler-painter>1"])
    with Client(package_address, environment=old) as first, Client(package_address, environment=new) as second:
        assert first.map(painter_version, [()] * 6) == [1] * 6
        assert second.map(painter_version, [()] * 6) == [2] * 6
        assert first.submit(version_in_subprocess).result() == "1"
        assert first.submit(lambda: importlib.metadata.version("scaler_brush")).result() == "1.0"
    with Client(package_address) as plain, pytest.raises(ModuleNotFoundError):
        plain.submit(painter_version).result()


def test_installed_packages_are_found_again_quickly(package_address: str) -> None:
    environment = Environment(["scaler_painter==1.0"])
    with Client(package_address, environment=environment) as client:
        place = client.submit(lambda: importlib.import_module("scaler_painter").__file__).result()
        made = os.stat(place).st_ino
    with Client(package_address, environment=environment) as client:
        assert client.submit(painter_version).result() == 1
        assert os.stat(place).st_ino == made


def test_others_run_while_packages_are_installed(package_address: str, index: Path, tmp_path: Path) -> None:
    """An installation that takes as long as the test wants: it reads from a pipe."""
    pipe = tmp_path / "scaler_slow-1.0-py3-none-any.whl"
    os.mkfifo(pipe)
    with Client(package_address) as plain, Client(package_address, environment=Environment([str(pipe)])) as slow:
        waiting = [slow.submit(pid) for _ in range(100)]
        assert plain.map(len, ["abc"] * 50) == [3] * 50
        assert not any(future.done() for future in waiting)
        waiting[0].cancel()
        assert waiting[0].cancelled() and plain.submit(len, "abc").result() == 3
    assert all(future.done() for future in waiting)


def test_an_installer_ends_with_its_agent(tmp_path: Path) -> None:
    pipe = tmp_path / "scaler_slow-1.0-py3-none-any.whl"
    os.mkfifo(pipe)

    def installers() -> list[psutil.Process]:
        return [each for each in psutil.process_iter(["cmdline"]) if str(pipe) in (each.info["cmdline"] or ())]

    address = free_address()
    with start_scheduler(address), start_cluster(address, "-n", 1, TMPDIR=str(tmp_path)) as agent:
        with Client(address, environment=Environment([str(pipe)])) as client:
            client.submit(pid)
            wait_until(lambda: len(installers()) == 2)
            os.kill(agent.pid, signal.SIGKILL)
            wait_until(lambda: not installers())


@pytest.mark.parametrize(
    ("requirement", "reason"),
    [
        ("scaler_painter==3.0", "No matching distribution found for scaler_painter==3.0"),
        ("scaler_nothing", "No matching distribution found for scaler_nothing"),
        ("scaler_foreign", "No matching distribution found for scaler_foreign"),
        ("{index}/scaler_foreign-1.0-cp27-cp27m-win32.whl", "is not a supported wheel on this platform"),
        ("not a requirement", "Invalid requirement"),
        (
            "scaler_painter @ http://127.0.0.1:1/scaler_painter-1.0-py3-none-any.whl",
            "Max retries exceeded|Connection refused",
        ),
    ],
)
def test_packages_that_cannot_be_installed(package_address: str, index: Path, requirement: str, reason: str) -> None:
    environment = Environment([requirement.replace("{index}", str(index))])
    with Client(package_address, environment=environment) as client:
        futures = [client.submit(painter_version) for _ in range(3)]
        for future in futures:
            with pytest.raises(NoWorkerError, match=reason) as caught:
                future.result()
            assert str(caught.value).startswith("Cannot install") and "\n" not in str(caught.value)


def test_an_installation_is_tried_again_for_later_calls(package_address: str, index: Path) -> None:
    with Client(package_address, environment=Environment(["scaler_late"])) as client:
        with pytest.raises(NoWorkerError, match="No matching distribution"):
            client.submit(pid).result()
        write_wheel(index, "scaler_late", "1.0", "")
        assert client.submit(pid).result()


# ---- values ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: Environment("numpy"), TypeError, "a list of requirements"),
        (lambda: Environment([1]), TypeError, "must be a text"),
        (lambda: Environment(["--index-url=x"]), ValueError, "it is an option"),
        (lambda: Environment([" "]), ValueError, "not a requirement"),
        (lambda: Environment(variables={"A": 1}), TypeError, "so must its value"),
        (lambda: Environment(variables={"A=B": "1"}), ValueError, "neither '='"),
        (lambda: Environment(variables={"SCALER_PARENT": "1"}), ValueError, "belongs to Scaler"),
        (lambda: Environment(working_directory="here"), ValueError, "not an absolute path"),
        (lambda: Environment(variables={"A": "1" * 20_000}).to_text(), ValueError, "more than 16384 bytes"),
        (lambda: Environment.from_text("{"), ValueError, "Cannot read"),
        (lambda: Environment.from_text("[]"), ValueError, "Cannot read"),
        (lambda: Environment.from_text('{"variables": {"A":"1"}}'), ValueError, "usual form"),
        (lambda: Client("tcp://127.0.0.1:1", environment="red"), TypeError, "must be a scaler.Environment"),
    ],
)
def test_what_is_no_environment(make: Callable[[], object], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        make()


def test_equal_environments_have_equal_texts() -> None:
    first = Environment(["b", "a ", "a"], {"B": "1", "A": "2"})
    assert first == Environment(("a", "b"), {"A": "2", "B": "1"})
    assert first.to_text() == '{"requirements":["a","b"],"variables":{"A":"2","B":"1"}}'
    assert Environment.from_text(first.to_text()) == first
    assert Environment().to_text() == ""
