"""A plugin of pytest that runs Dask's own tests with Scaler as the scheduler.

SCALER_ADDRESS_OF_TESTS: the address of its cluster."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import dask
import pytest

from scaler import Client
from scaler.integrations.dask import Installation, install

_ELSEWHERE = "it observes an object of its own process, and tasks run in others"
_UNSET = "it expects that no scheduler is set"
NOT_RUN = {
    "test_bind": _ELSEWHERE,
    "test_compute_array_bag": _UNSET,
    "test_disk_shuffle_with_unknown_compression": "it changes a setting of its own process",
    "test_filter_isna": "it passes the identical NaN to a task, which recognizes it by its identity",
    "test_from_array_with_lock": _ELSEWHERE,
    "test_fsspec_to_parquet_filesystem_option": "it writes to a file system in the memory of its own process",
    "test_fusion_executes_only_once": _ELSEWHERE,
    "test_get_scheduler": _UNSET,
    "test_memmap": _ELSEWHERE,
    "test_persist_array_bag": _UNSET,
    "test_pyarrow_filesystem_option_real_data": "it needs the Internet",
    "test_store": _ELSEWHERE,
    "test_store_compute_false": _ELSEWHERE,
    "test_store_delayed_target": _ELSEWHERE,
    "test_store_locks_count_calls": _ELSEWHERE,
    "test_store_regions": _ELSEWHERE,
    "test_to_delayed_optimize_graph": _ELSEWHERE,
    "test_traverse_false": "it expects the identical object as the result",
}
"""The tests that do not pass, and why. They do not pass with Dask's scheduler for processes either."""

VALUES_EXPECTED = {
    "test_custom_collection",
    "test_persist",
    "test_persist_delayed_custom_key",
    "test_persist_with_fusion",
}
"""These look for values in a persisted collection, where Scaler has futures, as dask.distributed does, or pickle the
collection. They run with a scheduler that does not persist itself."""

SHUFFLE_ON_DISK_EXPECTED = {
    "test_groupby_with_indexer",
    "test_groupby_with_npartitions_changed",
    "test_msgpack_unicode",
    "test_temporary_directory",
}
"""These expect that ``Bag.groupby`` shuffles on disk, Dask's default, which ``install`` replaces."""

_installations: list[Installation] = []


def pytest_sessionstart() -> None:
    _installations.append(install(Client(os.environ["SCALER_ADDRESS_OF_TESTS"])))


def pytest_sessionfinish() -> None:
    installation = _installations.pop()
    installation.uninstall()
    installation.client.disconnect()


def pytest_collection_modifyitems(items: list[pytest.Function]) -> None:
    for item in items:
        if item.originalname in NOT_RUN:
            item.add_marker(pytest.mark.skip(NOT_RUN[item.originalname]))


@pytest.fixture(autouse=True)
def values_where_they_are_expected(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.node.originalname not in VALUES_EXPECTED:
        yield
        return
    with dask.config.set(scheduler=_get):
        yield


@pytest.fixture(autouse=True)
def shuffle_on_disk_where_it_is_expected(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.node.originalname not in SHUFFLE_ON_DISK_EXPECTED:
        yield
        return
    with dask.config.set({"dataframe.shuffle.method": "disk"}):
        yield


def _get(*arguments: Any, **keywords: Any) -> Any:
    return _installations[-1].client.get(*arguments, **keywords)
