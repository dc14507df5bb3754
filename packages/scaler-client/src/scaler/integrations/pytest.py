"""A plugin for pytest: the fixture ``scaler_client``, a client of a cluster that the tests of a run share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from scaler.client.client import Client


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("scaler")
    group.addoption(
        "--scaler-address",
        metavar="ADDRESS",
        help="Run the tasks of scaler_client on the cluster at this address, and do not start one.",
    )
    parser.addini("scaler_workers", "The number of workers of the cluster that scaler_client starts.", default="2")


@pytest.fixture(scope="session")
def scaler_address(pytestconfig: pytest.Config) -> Iterator[str]:
    """The address of the cluster of ``scaler_client``, which this fixture starts unless ``--scaler-address`` names
    one."""
    address: str | None = pytestconfig.getoption("--scaler-address")
    if address is not None:
        yield address
        return
    from scaler import SchedulerClusterCombo

    with SchedulerClusterCombo(n_workers=_worker_count(pytestconfig)) as combo:
        yield combo.get_address()


@pytest.fixture
def scaler_client(scaler_address: str) -> Iterator[Client]:
    """A client for one test. Calls that the test leaves unfinished are cancelled at its end."""
    from scaler import Client

    with Client(scaler_address) as client:
        yield client


def _worker_count(config: pytest.Config) -> int:
    text = config.getini("scaler_workers")
    try:
        count = int(text)
    except ValueError:
        count = 0
    if count < 1:
        raise pytest.UsageError(f"Cannot use scaler_workers = {text}: it is not a number of workers, such as 2.")
    return count
