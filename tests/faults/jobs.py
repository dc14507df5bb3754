"""Jobs of one client whose results are known beforehand: small tasks, nested ones, large objects, graphs.

A job submits tasks, waits, and returns the expected value and the value that it received.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from concurrent.futures import CancelledError
from pathlib import Path

from scaler import Client, Environment, ScalerFuture
from scaler.utility.exceptions import ActorDiedError, MissingObjects, ProcessorDiedError, WorkerDiedError
from tests.faults.functions import (
    Counter,
    Totals,
    add,
    count_nodes,
    executions,
    hold_alone,
    make,
    spin,
    spin_once,
    square,
    sum_after_a_cut,
    total,
    total_by,
    total_of_chain,
    total_of_nested,
    variable,
)

RESULT_TIMEOUT_SECONDS = 240.0

Job = Callable[[Client, random.Random], tuple[object, object]]


def small(client: Client, chance: random.Random) -> tuple[object, object]:
    numbers = range(chance.randrange(1, 3000))
    return [number * number for number in numbers], client.map(square, numbers)


def slow(client: Client, chance: random.Random) -> tuple[object, object]:
    futures = [client.submit(spin, number, chance.uniform(0.001, 0.3)) for number in range(chance.randrange(1, 30))]
    return list(range(len(futures))), [future.result(RESULT_TIMEOUT_SECONDS) for future in futures]


def once(client: Client, chance: random.Random) -> tuple[object, object]:
    """Tasks submitted with ``rerun=False``: a result means one execution, an error at most one."""
    paths = [os.path.join(os.environ["SCALER_HOME"], f"once-{chance.getrandbits(64):x}") for _ in range(10)]
    futures = [client.submit_verbose(spin_once, (path, chance.uniform(0.001, 0.3)), {}, rerun=False) for path in paths]
    wrong = []
    for path, future in zip(paths, futures, strict=True):
        try:
            allowed = {future.result(RESULT_TIMEOUT_SECONDS)}
        except (ProcessorDiedError, WorkerDiedError):
            allowed = {0, 1}
        if executions(path) not in allowed:
            wrong.append(f"{executions(path)} executions where {allowed} are right")
        Path(path).unlink(missing_ok=True)
    return [], wrong


def nested(client: Client, chance: random.Random) -> tuple[object, object]:
    depth, width = chance.choice(((1, 8), (2, 3), (3, 2), (6, 1)))
    expected = sum(width**level for level in range(depth + 1))
    return expected, client.submit(count_nodes, depth, width).result(RESULT_TIMEOUT_SECONDS)


def large(client: Client, chance: random.Random) -> tuple[object, object]:
    size, count = chance.randrange(5_000, 300_000), chance.randrange(1, 6)
    futures = [client.submit(add, make(size, value), 1) for value in range(count)]
    expected = [size * (value + 1) for value in range(count)]
    return expected, [total(future.result(RESULT_TIMEOUT_SECONDS)) for future in futures]


def sent(client: Client, chance: random.Random) -> tuple[object, object]:
    size, value = chance.randrange(5_000, 300_000), chance.randrange(100)
    reference = client.send_object(make(size, value))
    return [size * value] * 6, client.map(total, [reference] * 6)


def graph(client: Client, chance: random.Random) -> tuple[object, object]:
    width, size = chance.randrange(2, 8), chance.choice((10, 50_000))
    nodes: dict[str, object] = {"size": size}
    for index in range(width):
        nodes |= {f"value-{index}": index, f"made-{index}": (make, "size", f"value-{index}")}
    nodes["total"] = (total, *(f"made-{index}" for index in range(width)))
    return size * sum(range(width)), client.get(nodes, ["total"])["total"]


def nested_large(client: Client, chance: random.Random) -> tuple[object, object]:
    size, count = chance.randrange(5_000, 100_000), chance.randrange(1, 4)
    result = client.submit(total_of_nested, size, count).result(RESULT_TIMEOUT_SECONDS)
    return size * sum(range(count)), result


def nested_cut(client: Client, chance: random.Random) -> tuple[object, object]:
    numbers = list(range(chance.randrange(1, 20)))
    return sum(numbers), client.submit(sum_after_a_cut, numbers).result(RESULT_TIMEOUT_SECONDS)


def environment(client: Client, chance: random.Random) -> tuple[object, object]:
    value, numbers = f"{chance.getrandbits(32):x}", range(chance.randrange(1, 30))
    with Client(client.address, environment=Environment(variables={"FAULTS": value})) as other:
        return [(value, number) for number in numbers], other.map(variable, ["FAULTS"] * len(numbers), numbers)


def actor(client: Client, chance: random.Random) -> tuple[object, object]:
    """Each call runs at most once, in order; when the actor has died, all further calls fail."""
    counter = client.actor(Counter)
    futures = [counter.count() for _ in range(chance.randrange(1, 200))]
    results, failures = [], 0
    for future in futures:
        try:
            results.append(future.result(RESULT_TIMEOUT_SECONDS))
        except ActorDiedError:
            failures += 1
        else:
            assert not failures, "a call succeeded behind one that failed because the actor had died"
    return list(range(1, len(results) + 1)), results


def cancelled(client: Client, chance: random.Random) -> tuple[object, object]:
    """A cancelled task ends with ``CancelledError``, if ``cancel`` says so, and all others with their results."""
    futures = [client.submit(spin, number, chance.uniform(0.001, 0.2)) for number in range(chance.randrange(2, 40))]
    doomed = {number for number in chance.sample(range(len(futures)), len(futures) // 2) if futures[number].cancel()}
    return ["cancelled" if number in doomed else number for number in range(len(futures))], list(map(_end, futures))


def _end(future: ScalerFuture[int]) -> int | str:
    try:
        return future.result(RESULT_TIMEOUT_SECONDS)
    except CancelledError:
        return "cancelled"


def chain(client: Client, chance: random.Random) -> tuple[object, object]:
    """Large values that move between tasks, whose futures are released as soon as the next one has them."""
    size, length = chance.randrange(5_000, 100_000), chance.randrange(1, 10)
    (last,) = client.scatter([make(size, 0)])
    for _ in range(length):
        following = client.submit(add, last, 1)
        last.release()
        last = following
    return size * length, client.submit(total, last).result(RESULT_TIMEOUT_SECONDS)


def nested_chain(client: Client, chance: random.Random) -> tuple[object, object]:
    size, length, count = chance.randrange(5_000, 50_000), chance.randrange(1, 6), chance.randrange(1, 5)
    return [size * length] * count, client.map(total_of_chain, [size] * count, [length] * count)


def lock(client: Client, chance: random.Random) -> tuple[object, object]:
    """Tasks that hold a lock of the cluster hold a file of this host alone."""
    name, count = f"{chance.getrandbits(64):x}", chance.randrange(1, 12)
    path = os.path.join(os.environ["SCALER_HOME"], f"lock-{name}")
    received = client.map(hold_alone, [client.lock(name)] * count, [path] * count)
    Path(path).unlink(missing_ok=True)
    return [True] * count, received


def actor_inputs(client: Client, chance: random.Random) -> tuple[object, object]:
    """Large values are arguments of calls of an actor, by this client and by tasks. No call of the client runs twice.
    A task that runs again calls again."""
    handle, size = client.actor(Totals), chance.randrange(5_000, 100_000)
    values = range(chance.randrange(1, 12))
    ours = [handle.total(client.submit(make, size, value), value) for value in values]
    futures = [*ours, *(client.submit(total_by, handle, size, value) for value in values)]
    outcomes = [(value, _total_or_loss(future)) for value, future in zip([*values, *values], futures, strict=True)]
    return [], [(value, outcome) for value, outcome in outcomes if outcome not in (size * value, "lost")]


def _total_or_loss(future: ScalerFuture[int | str]) -> int | str:
    try:
        return future.result(RESULT_TIMEOUT_SECONDS)
    except (ActorDiedError, MissingObjects):
        return "lost"


JOBS: tuple[Job, ...] = (
    small, slow, once, nested, large, sent, graph, nested_large, nested_cut, environment, actor, cancelled, chain,
    nested_chain, lock, actor_inputs,
)  # fmt: skip
