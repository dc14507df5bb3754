"""Libraries built on Scaler, as the package index has them: parfun and pargraph run on a cluster without a change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from scaler import Client, SchedulerClusterCombo

numpy = pytest.importorskip("numpy")
parfun = pytest.importorskip("parfun")
pargraph = pytest.importorskip("pargraph")

from parfun.entry_point import BACKEND_REGISTRY  # noqa: E402


@pytest.fixture
def parfun_backend(combo: SchedulerClusterCombo) -> Iterator[None]:
    with parfun.set_parallel_backend_context("scaler_remote", combo.get_address(), n_workers=2):
        yield


def by_chunks(function: Callable[..., Any]) -> Any:
    split = parfun.per_argument(values=parfun.py_list.by_chunk)
    return parfun.parallel(split=split, combine_with=parfun.py_list.concat)(function)


@by_chunks
def powers(values: list[int], exponent: int) -> list[int]:
    return [value**exponent for value in values]


@by_chunks
def sums_of_powers(values: list[int], exponent: int) -> list[int]:
    return [sum(powers(list(range(value)), exponent)) for value in values]


@by_chunks
def failures(values: list[int]) -> list[int]:
    raise LookupError(values[0])


def test_parfun_finds_its_backends() -> None:
    assert {"scaler_local", "scaler_remote"} <= set(BACKEND_REGISTRY)


@pytest.mark.usefixtures("parfun_backend")
def test_parfun_splits_a_function_over_the_workers() -> None:
    assert powers(list(range(500)), 3) == [value**3 for value in range(500)]


@pytest.mark.usefixtures("parfun_backend")
def test_parfun_nests_parallel_functions() -> None:
    assert sums_of_powers(list(range(20)), 2) == [sum(n * n for n in range(value)) for value in range(20)]


@pytest.mark.usefixtures("parfun_backend")
def test_parfun_raises_the_error_of_a_part() -> None:
    with pytest.raises(LookupError):
        failures(list(range(10)))


def test_parfun_starts_a_cluster_of_its_own() -> None:
    with parfun.set_parallel_backend_context("scaler_local", n_workers=2, logging_level="ERROR"):
        assert powers(list(range(50)), 2) == [value**2 for value in range(50)]


@pargraph.delayed
def between(values: Any, low: float, high: float) -> Any:
    return values[(values >= low) & (values < high)]


@pargraph.delayed
def ordered(values: Any) -> Any:
    return numpy.sort(values)


@pargraph.delayed
def joined(*parts: Any) -> Any:
    return numpy.concatenate(parts)


@pargraph.graph
def sort_by_parts(values: Any, count: int) -> Any:
    return joined(*(ordered(between(values, part / count, (part + 1) / count)) for part in range(count)))


def test_pargraph_submits_its_nodes(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numpy, "in1d", numpy.isin, raising=False)  # its engine uses the name that NumPy 2.4 removed
    values = numpy.random.default_rng(1).random(1_000)
    graph, keys = sort_by_parts.to_graph(count=4).to_dict(values=values)
    [result] = pargraph.GraphEngine(client).get(graph, keys)
    assert (result == numpy.sort(values)).all()


def test_a_graph_of_pargraph_is_a_graph_of_the_client(client: Client) -> None:
    values = numpy.random.default_rng(2).random(1_000)
    graph, keys = sort_by_parts.to_graph(count=8).to_dict(values=values)
    [result] = client.get(graph, keys).values()
    assert (result == numpy.sort(values)).all()
