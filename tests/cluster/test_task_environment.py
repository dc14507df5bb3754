"""Tasks that change the environment of their process: the next one there can still make clients."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from unittest import mock

import pytest

from scaler import Client


def clear() -> None:
    os.environ.clear()


def delete() -> None:
    for name in [name for name in os.environ if name.startswith("SCALER")]:
        del os.environ[name]


def overwrite() -> None:
    for name in [name for name in os.environ if name.startswith("SCALER")]:
        os.environ[name] = "something else"


def patch() -> None:
    with mock.patch.dict(os.environ, {"A": "b"}, clear=True):
        assert dict(os.environ) == {"A": "b"}


def replace() -> None:
    os.environ = {"A": "b"}  # noqa: B003


CHANGES: dict[str, Callable[[], None]] = {each.__name__: each for each in (clear, delete, overwrite, patch, replace)}


def nested_length(text: str) -> int:
    with Client() as client:
        return client.submit(len, text).result()


def parent_seen_by_a_program() -> tuple[str, str]:
    """As this process sees it, and as a program that it starts does."""
    code = "import os; print(os.environ['SCALER_PARENT'])"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    return os.environ["SCALER_PARENT"], output.strip()


@pytest.mark.parametrize("change", CHANGES)
def test_the_next_task_can_make_a_client(change: str, single_client: Client) -> None:
    def change_then_nest(index: int) -> int:
        if index % 2:
            return nested_length("ab")
        CHANGES[change]()
        return 2

    single_client.submit(CHANGES[change]).result()
    assert single_client.submit(nested_length, "abc").result() == 3
    if change != "replace":  # which is noticed between two messages of tasks, not between two tasks of one
        assert single_client.map(change_then_nest, range(10)) == [2] * 10
    ours, theirs = single_client.submit(parent_seen_by_a_program).result()
    assert ours == theirs and ours.count(":") == 3


def test_what_a_task_sets_for_itself_stays(single_client: Client) -> None:
    def set_mine() -> None:
        os.environ["MY_VARIABLE"] = "7"

    single_client.submit(set_mine).result()
    assert single_client.submit(lambda: os.environ["MY_VARIABLE"]).result() == "7"
