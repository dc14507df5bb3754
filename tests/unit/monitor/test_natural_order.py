"""Names stand in the order in which people count."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scaler_protocol.monitor.activity import WorkerName
from scaler_protocol.monitor.model import Model
from scaler_protocol.monitor.natural_order import natural_key
from scaler_protocol.monitor.workers import Order, SortKey, rows_of, sort_rows
from tests.support.monitoring import agent_status, snapshot

HOSTS = ["Node-1", "node-2", "node-02-b", "node-10", "rack1-node9", "rack1-node10", "rack2-node1"]


@pytest.mark.parametrize(
    "names",
    [
        HOSTS,
        ["", "1", "2", "10", "a"],
        ["a01", "a1", "a1b"],
        ["x" + "9" * 5000, "x1" + "0" * 5000],
        ["host", "host1", "host1a", "host1a2", "host²"],
    ],
)
def test_numbers_count_by_their_value(names: list[str]) -> None:
    backwards = names[::-1]
    assert sorted(backwards, key=natural_key) == names


def test_tables_the_first_page_and_the_task_stream_stand_in_that_order() -> None:
    agents = tuple(replace(agent_status(number, 2), host=host) for number, host in enumerate(reversed(HOSTS)))
    model = Model(0.0)
    model.apply(snapshot(agents), 1.0)
    hosts = [row[1] for row in model.rows("agents", sort_key="host")[0]]
    assert hosts == HOSTS
    assert [row[1] for row in model.rows("agents", sort_key="host", descending=True)[0]] == HOSTS[::-1]
    rows = sort_rows([row for agent in agents for row in rows_of(agent)], Order(SortKey.WORKER))
    assert [row.host for row in rows][::2] == HOSTS
    model.activity.workers.extend(WorkerName(host, host, f"{host}-0", 0) for host in reversed(HOSTS))
    assert [row.worker.host for row in model.stream_rows()] == HOSTS
