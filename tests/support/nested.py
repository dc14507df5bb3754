"""Functions that tests run as tasks, which submit tasks themselves."""

from __future__ import annotations

from typing import Any

from scaler import Client
from tests.support import functions


def fibonacci(client: Client, number: int) -> int:
    if number < 2:
        return number
    first = client.submit(fibonacci, client, number - 1)
    second = client.submit(fibonacci, client, number - 2)
    return first.result() + second.result()


def fibonacci_without_argument(number: int) -> int:
    if number < 2:
        return number
    with Client() as client:
        first = client.submit(fibonacci_without_argument, number - 1)
        second = client.submit(fibonacci_without_argument, number - 2)
        return first.result() + second.result()


def depth(client: Client, levels: int) -> int:
    return 0 if levels == 0 else 1 + client.submit(depth, client, levels - 1).result()


def sum_of_squares(client: Client, count: int) -> int:
    return sum(client.map(functions.square, range(count)))


def fails_inside(client: Client) -> None:
    client.submit(functions.raise_value_error, "inside").result()


def wait_for_child(client: Client, parents: str, started: str, gate: str) -> Any:
    functions.note(parents)
    try:
        return client.submit(functions.wait_at_gate, started, gate, "child").result()
    except BaseException as error:
        functions.note(parents, type(error).__name__)
        raise
