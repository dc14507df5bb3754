"""Warnings raised in tasks are issued in the client, as if the tasks had run there."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator

import pytest

from scaler import Client, SchedulerClusterCombo
from tests.support.functions import warn_of


class OwnWarning(UserWarning):
    pass


class PickyWarning(Warning):
    def __init__(self, one: object, two: object) -> None:
        super().__init__(one, two)


@pytest.fixture
def shown() -> Iterator[list[warnings.WarningMessage]]:
    """What this process shows, with the filters of a new process."""
    with warnings.catch_warnings(record=True) as messages:
        warnings.resetwarnings()
        warnings.simplefilter("default")
        yield messages


def test_a_warning_has_its_category_message_file_and_line(client: Client, shown: list[warnings.WarningMessage]) -> None:
    assert client.submit(warn_of, "it is old", FutureWarning).result() == "it is old"
    (message,) = shown
    assert message.category is FutureWarning and str(message.message) == "it is old"
    assert message.filename.endswith("functions.py")
    with open(message.filename) as file:
        assert "warnings.warn" in file.read().splitlines()[message.lineno - 1]


def test_each_is_shown_once_whatever_task_and_process_raised_it(
    client: Client, shown: list[warnings.WarningMessage]
) -> None:
    client.map(warn_of, ["the same"] * 50)
    client.map(warn_of, [f"another {index % 3}" for index in range(50)])
    assert sorted(str(each.message) for each in shown) == ["another 0", "another 1", "another 2", "the same"]


def test_each_client_is_told(combo: SchedulerClusterCombo, shown: list[warnings.WarningMessage]) -> None:
    for _ in range(3):
        with Client(combo.get_address()) as client:
            client.map(warn_of, ["for everybody"] * 10)
    assert len(shown) == 3


def test_before_the_result_is_there(client: Client) -> None:
    for index in range(100):
        with pytest.warns(UserWarning, match=f"number {index}$"):
            client.submit(warn_of, f"number {index}").result()


def test_of_a_task_that_fails(client: Client, shown: list[warnings.WarningMessage]) -> None:
    def fail() -> None:
        warnings.warn("it will fail", stacklevel=1)
        raise ValueError("it has failed")

    with pytest.raises(ValueError, match="it has failed"):
        client.submit(fail).result()
    assert [str(each.message) for each in shown] == ["it will fail"]


def test_the_client_decides_what_is_shown(client: Client, shown: list[warnings.WarningMessage]) -> None:
    warnings.filterwarnings("ignore", message="not this one")
    client.map(warn_of, ["not this one", "but this one"])
    assert [str(each.message) for each in shown] == ["but this one"]


def test_a_filter_that_makes_errors_of_warnings_breaks_no_call(
    client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert client.map(warn_of, ["an error here"] * 3) == ["an error here"] * 3
    assert "UserWarning: an error here" in capsys.readouterr().err


def test_what_a_task_catches_or_ignores_stays_there(client: Client, shown: list[warnings.WarningMessage]) -> None:
    def quiet() -> int:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            warnings.warn("caught", stacklevel=1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.warn("ignored", stacklevel=1)
        return len(caught)

    assert client.submit(quiet).result() == 1
    assert shown == []


def test_categories_of_the_users_and_those_that_cannot_be_made_here(
    client: Client, shown: list[warnings.WarningMessage]
) -> None:
    client.submit(warn_of, "own", OwnWarning).result()
    client.submit(lambda: warnings.warn(PickyWarning(1, 2), stacklevel=1)).result()
    assert [each.category for each in shown] == [OwnWarning, UserWarning]


def test_many_and_long_ones_are_cut(client: Client, shown: list[warnings.WarningMessage]) -> None:
    def noisy() -> None:
        for index in range(1000):
            warnings.warn(f"{index} " + "x" * 100_000, stacklevel=1)

    client.submit(noisy).result()
    assert len(shown) == 21
    assert str(shown[-1].message) == "980 more warnings of this task were left out."
    assert all(len(str(each.message)) < 2100 for each in shown)


def test_of_nested_tasks(client: Client, shown: list[warnings.WarningMessage]) -> None:
    """The client of a nested task is in a task itself, which passes them on."""

    def parent() -> str:
        with Client() as nested:
            return nested.submit(warn_of, "deep down").result()

    assert client.submit(parent).result() == "deep down"
    assert [str(each.message) for each in shown] == ["deep down"]


def test_of_the_threads_of_a_task(client: Client, shown: list[warnings.WarningMessage]) -> None:
    def threaded() -> None:
        thread = threading.Thread(target=warn_of, args=("in a thread",))
        thread.start()
        thread.join()

    client.submit(threaded).result()
    assert [str(each.message) for each in shown] == ["in a thread"]


def test_of_graphs(client: Client, shown: list[warnings.WarningMessage]) -> None:
    graph = {"one": (warn_of, "text"), "text": "in a graph", "two": (len, "one")}
    assert client.get(graph, ["two"]) == {"two": 10}
    assert [str(each.message) for each in shown] == ["in a graph"]


def test_with_streamed_output_each_is_shown_once(
    combo: SchedulerClusterCombo, shown: list[warnings.WarningMessage], capsys: pytest.CaptureFixture[str]
) -> None:
    def work() -> None:
        print("printed")
        warnings.warn("warned", stacklevel=1)

    with Client(combo.get_address(), stream_output=True) as client:
        client.submit(work).result()
    captured = capsys.readouterr()
    assert [str(each.message) for each in shown] == ["warned"]
    assert captured.out == "printed\n" and "warned" not in captured.err
