"""Jobs that use the cluster through other interfaces: Dask, joblib, executors, asyncio, Ray, futures as arguments.

Like those in ``jobs``, each returns the expected value and the value that it received.
"""

from __future__ import annotations

import asyncio
import operator
import random
import threading
from functools import cache
from typing import Any

import dask
import dask.array
import dask.dataframe
import joblib
import numpy
import pandas

from scaler import AsyncClient, Client, Executor
from scaler.compat import ray
from scaler.compat.ray.exceptions import RayActorError
from scaler.integrations.dask import futures_of
from scaler.integrations.joblib import register
from tests.faults.functions import Counter, add, make, spin, square, total
from tests.faults.jobs import RESULT_TIMEOUT_SECONDS, Job

register()
_ray_lock = threading.Lock()


def _computed(client: Client, collection: Any) -> Any:
    return dask.compute(collection, scheduler=client)[0]


def _integers(chance: random.Random, side: int) -> numpy.ndarray:
    return numpy.random.default_rng(chance.getrandbits(32)).integers(0, 100, (side, side))


def dask_array(client: Client, chance: random.Random) -> tuple[object, object]:
    """A product and a new chunking of arrays, the second of which stays in the cluster."""
    left, right = _integers(chance, 300), _integers(chance, 300)
    chunks = chance.choice((50, 100, 128))
    (persisted,) = client.persist([dask.array.from_array(right, chunks=(chunks, 300))])
    product = dask.array.tensordot(dask.array.from_array(left, chunks=chunks), persisted.rechunk((70, 90)), axes=1)
    return (left @ right + right.T).tolist(), _computed(client, product + persisted.T).tolist()


def _frame(chance: random.Random, rows: int) -> pandas.DataFrame:
    generator = numpy.random.default_rng(chance.getrandbits(32))
    return pandas.DataFrame({"key": generator.integers(0, 50, rows), "value": generator.integers(0, 1000, rows)})


def dask_frame(client: Client, chance: random.Random) -> tuple[object, object]:
    """A join and an aggregation of frames that stay in the cluster."""
    left, right = _frame(chance, 20_000), _frame(chance, 50).drop_duplicates("key")
    persisted = client.persist(dask.dataframe.from_pandas(left, npartitions=chance.randrange(2, 9)))
    other = dask.dataframe.from_pandas(right, npartitions=2)
    merged = persisted.merge(other, on="key", suffixes=("", "_right"))
    summed = merged.groupby("key").agg({"value": ["sum", "count"], "value_right": "max"})
    expected = left.merge(right, on="key", suffixes=("", "_right"))
    expected = expected.groupby("key").agg({"value": ["sum", "count"], "value_right": "max"})
    return expected.to_dict(), _computed(client, summed).sort_index().to_dict()


def dask_shuffle(client: Client, chance: random.Random) -> tuple[object, object]:
    data = _frame(chance, 30_000)
    frame = dask.dataframe.from_pandas(data, npartitions=chance.randrange(3, 8))
    with dask.config.set({"dataframe.shuffle.method": "tasks"}):
        shuffled = frame.shuffle("key")
        sums = shuffled.map_partitions(lambda part: part.groupby("key").value.sum(), meta=("value", "int64"))
        received = _computed(client, sums)
    return data.groupby("key").value.sum().to_dict(), received.to_dict()


def dask_delayed(client: Client, chance: random.Random) -> tuple[object, object]:
    """A graph of calls above one that stays in the cluster. Its values are large, or not."""
    size, width = chance.choice((10, 20_000)), chance.randrange(2, 12)
    made = [dask.delayed(make)(size, value) for value in range(width)]
    persisted = client.persist(made)
    sums = [dask.delayed(total)(dask.delayed(add)(each, 1), each) for each in persisted]
    assert len(futures_of(*persisted)) == width
    return sum(size * (2 * value + 1) for value in range(width)), _computed(client, dask.delayed(sum)(sums))


def joblib_calls(client: Client, chance: random.Random) -> tuple[object, object]:
    array, count = make(chance.choice((100, 5_000, 200_000)), 3), chance.randrange(1, 200)
    with joblib.parallel_config("scaler", client=client):
        received = joblib.Parallel()(joblib.delayed(_scaled_total)(array, number) for number in range(count))
    return [int(array.sum()) * number for number in range(count)], received


def _scaled_total(array: numpy.ndarray, number: int) -> int:
    return int(array.sum()) * number


def grid_search(client: Client, chance: random.Random) -> tuple[object, object]:
    expected = _scores()
    with joblib.parallel_config("scaler", client=client):
        received = _search()
    return expected, received


@cache
def _scores() -> list[float]:
    return _search()


def _search() -> list[float]:
    from sklearn.datasets import load_iris
    from sklearn.model_selection import GridSearchCV
    from sklearn.tree import DecisionTreeClassifier

    search = GridSearchCV(DecisionTreeClassifier(random_state=0), {"max_depth": [1, 2, 3, 4]}, cv=5)
    scores: list[float] = search.fit(*load_iris(return_X_y=True)).cv_results_["mean_test_score"].tolist()
    return scores


def executor(client: Client, chance: random.Random) -> tuple[object, object]:
    numbers = range(chance.randrange(1, 300))
    with Executor(client.address) as pool:
        received = list(pool.map(square, numbers, chunksize=chance.choice((1, 7)), timeout=RESULT_TIMEOUT_SECONDS))
    return [number * number for number in numbers], received


def chain(client: Client, chance: random.Random) -> tuple[object, object]:
    """Futures as arguments, also inside containers."""
    size, depth = chance.choice((10, 20_000)), chance.randrange(1, 30)
    futures = [client.submit(make, size, 1)]
    for _ in range(depth):
        futures.append(client.submit(add, futures[-1], 1))
    sums = client.submit(_total_of_all, {"arrays": futures})
    return size * sum(range(1, depth + 2)), sums.result(RESULT_TIMEOUT_SECONDS)


def _total_of_all(arrays: dict[str, list[numpy.ndarray]]) -> int:
    return total(*arrays["arrays"])


def iteration(client: Client, chance: random.Random) -> tuple[object, object]:
    """``imap`` whose items are futures of large results."""
    size, count = chance.choice((10, 20_000)), chance.randrange(1, 40)
    futures = (client.submit(make, size, value) for value in range(count))
    return [size * value for value in range(count)], list(client.imap(total, futures, buffer_size=5))


def coroutines(client: Client, chance: random.Random) -> tuple[object, object]:
    return asyncio.run(_coroutines(client.address, chance))


async def _coroutines(address: str, chance: random.Random) -> tuple[object, object]:
    size, count = chance.choice((10, 20_000)), chance.randrange(1, 30)
    async with AsyncClient(address) as client:
        table = client.submit(make, size, 1)
        pure = client.submit(make, size, 2, pure=True)
        sums = asyncio.gather(*[client.submit(total, table, pure) for _ in range(count)])
        items = [item async for item in client.imap(square, range(count), buffer_size=7)]
        received = await asyncio.wait_for(sums, RESULT_TIMEOUT_SECONDS)
    return ([3 * size] * count, [number * number for number in range(count)]), (received, items)


def ray_program(client: Client, chance: random.Random) -> tuple[object, object]:
    """The interface of Ray has one connection for each process."""
    with _ray_lock, ray.init(client.address):
        return _ray_program(chance)


def _ray_program(chance: random.Random) -> tuple[object, object]:
    """Calls on one another's results, and an actor, each of whose calls runs once or raises."""
    numbers = range(chance.randrange(1, 50))
    squares = [ray.remote(square).remote(number) for number in numbers]
    slow = ray.remote(spin).remote(7, chance.uniform(0.001, 0.3))
    summed = ray.remote(operator.add).remote(squares[-1], slow)
    counter = ray.remote(Counter).remote()
    counts, failures = [], 0
    for call in [counter.count.remote() for _ in numbers]:
        try:
            counts.append(ray.get(call, timeout=RESULT_TIMEOUT_SECONDS))
        except RayActorError:
            failures += 1
        else:
            assert not failures, "a call succeeded behind one that failed because the actor had died"
    expected = [number * number for number in numbers], numbers[-1] ** 2 + 7, list(range(1, len(counts) + 1))
    return expected, (ray.get(squares), ray.get(summed, timeout=RESULT_TIMEOUT_SECONDS), counts)


LIBRARY_JOBS: tuple[Job, ...] = (
    dask_array, dask_frame, dask_shuffle, dask_delayed, joblib_calls, grid_search, executor, chain, iteration,
    coroutines, ray_program,
)  # fmt: skip
