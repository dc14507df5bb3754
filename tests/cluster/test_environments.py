"""Tasks that run in the environment of their client."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from scaler import AsyncClient, Client, Environment, SchedulerClusterCombo
from scaler.utility.exceptions import NoWorkerError
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


def test_asynchronous_clients_have_one(address: str) -> None:
    async def main() -> str | None:
        async with AsyncClient(address, environment=RED) as client:
            return await client.submit(color)

    assert asyncio.run(main()) == "red"


def test_a_directory_that_is_not_there(address: str, tmp_path: Path) -> None:
    path = tmp_path / "later"
    with Client(address, environment=Environment(working_directory=str(path))) as client:
        with pytest.raises(NoWorkerError, match=f"Cannot use the working directory {path} .*: No such file"):
            client.submit(color).result()
        path.mkdir()
        assert client.submit(os.getcwd).result() == str(path)


def test_processes_end_with_the_last_client(address: str) -> None:
    with Client(address) as client:
        with Client(address, environment=RED) as red:
            number = red.submit(pid).result()
        wait_until(lambda: client.submit(len, "a").result() == 1 and not os.path.exists(f"/proc/{number}"), 20)


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
        (lambda: Environment.from_text("{"), ValueError, "Expecting"),
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
