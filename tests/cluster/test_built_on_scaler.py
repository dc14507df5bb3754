"""Libraries built on Scaler, as the package index has them: parfun and pargraph run on a cluster without a change."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from importlib.util import find_spec
from types import ModuleType

import pytest

from scaler import Client, SchedulerClusterCombo

for needed in ("numpy", "parfun", "pargraph"):
    if find_spec(needed) is None:
        pytest.skip(f"there is no {needed}", allow_module_level=True)


@pytest.fixture(scope="module")
def calls() -> ModuleType:
    """Functions that use these libraries, which are imported with them."""
    return importlib.import_module("tests.support.built_on_scaler")


@pytest.fixture
def parfun_backend(calls: ModuleType, combo: SchedulerClusterCombo) -> Iterator[None]:
    with calls.parfun.set_parallel_backend_context("scaler_remote", combo.get_address(), n_workers=2):
        yield


def test_parfun_finds_its_backends() -> None:
    from parfun.entry_point import BACKEND_REGISTRY

    assert {"scaler_local", "scaler_remote"} <= set(BACKEND_REGISTRY)


@pytest.mark.usefixtures("parfun_backend")
def test_parfun_splits_a_function_over_the_workers(calls: ModuleType) -> None:
    assert calls.powers(list(range(500)), 3) == [value**3 for value in range(500)]


@pytest.mark.usefixtures("parfun_backend")
def test_parfun_nests_parallel_functions(calls: ModuleType) -> None:
    assert calls.sums_of_powers(list(range(20)), 2) == [sum(n * n for n in range(value)) for value in range(20)]


@pytest.mark.usefixtures("parfun_backend")
def test_parfun_raises_the_error_of_a_part(calls: ModuleType) -> None:
    with pytest.raises(LookupError):
        calls.failures(list(range(10)))


def test_parfun_starts_a_cluster_of_its_own(calls: ModuleType) -> None:
    with calls.parfun.set_parallel_backend_context("scaler_local", n_workers=2, logging_level="ERROR"):
        assert calls.powers(list(range(50)), 2) == [value**2 for value in range(50)]


def test_pargraph_submits_its_nodes(calls: ModuleType, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    numpy = calls.numpy
    monkeypatch.setattr(numpy, "in1d", numpy.isin, raising=False)  # its engine uses the name that NumPy 2.4 removed
    values = numpy.random.default_rng(1).random(1_000)
    graph, keys = calls.sort_by_parts.to_graph(count=4).to_dict(values=values)
    [result] = calls.pargraph.GraphEngine(client).get(graph, keys)
    assert (result == numpy.sort(values)).all()


def test_a_graph_of_pargraph_is_a_graph_of_the_client(calls: ModuleType, client: Client) -> None:
    values = calls.numpy.random.default_rng(2).random(1_000)
    graph, keys = calls.sort_by_parts.to_graph(count=8).to_dict(values=values)
    [result] = client.get(graph, keys).values()
    assert (result == calls.numpy.sort(values)).all()
