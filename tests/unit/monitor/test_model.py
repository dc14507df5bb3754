from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from scaler_protocol.monitor import records
from scaler_protocol.monitor.messages import AgentStatus, Events, MonitorMessage, PeerState, Snapshot, TaskCounts
from scaler_protocol.monitor.model import FeedState, Model
from scaler_protocol.monitor.workers import Order, SortKey, WorkerRow, filter_rows, rows_of, sort_rows, total_of
from scaler_scheduler.web.samples import Samples
from tests.support.monitor_stream import SyntheticCluster
from tests.support.monitoring import MIB, agent_status, snapshot


def test_apply_gives_a_row_per_worker_with_its_agents_values() -> None:
    model = Model(0.0)
    model.apply(snapshot((agent_status(0, 4), agent_status(1, 2))), 1.0)
    rows = model.worker_rows
    assert [row.name for row in rows] == ["w0", "w1", "w2", "w3", "w100", "w101"]
    assert {row.agent_rss_bytes for row in rows} == {111 * MIB}
    assert rows[0].label == "20000|sd-1e7d-dfba|w0"


def test_what_was_sent_is_divided_without_loss_and_busy_workers_first() -> None:
    rows = rows_of(agent_status(0, 4, sent=6))  # w0 and w2 have a task
    assert [row.sent for row in rows] == [2, 1, 2, 1]
    assert sum(row.free for row in rows) == 3994


def test_totals_count_an_agents_values_once() -> None:
    rows = [*rows_of(agent_status(0, 4, queued=3)), *rows_of(agent_status(1, 4, queued=5))]
    totals = total_of(rows)
    assert (totals.workers, totals.agents, totals.queued) == (8, 2, 8)
    assert totals.agent_rss_bytes == 222 * MIB
    assert totals.agent_cpu_percent == 1.0
    assert totals.rss_bytes == 8 * 113 * MIB
    assert totals.sent == 20


def test_totals_of_nothing() -> None:
    assert set(total_of([])) == {0}


@pytest.mark.parametrize("key", list(SortKey))
def test_every_column_sorts_and_turns(key: SortKey) -> None:
    rows = [row for number in range(3) for row in rows_of(agent_status(number, 3, sent=number * 7, queued=number))]
    once = sort_rows(rows, Order().pressed(key) if key is not SortKey.CPU else Order())
    twice = sort_rows(rows, Order(key, reversed=True))
    values = [_value(row, key) for row in once]
    assert values == sorted(values, reverse=key is not SortKey.WORKER)
    assert [_value(row, key) for row in twice] == values[::-1]


def test_equal_values_stand_in_the_order_of_names() -> None:
    rows = rows_of(agent_status(0, 4, queued=1))
    assert [row.name for row in sort_rows(rows[::-1], Order(SortKey.QUEUED))] == ["w0", "w1", "w2", "w3"]


def test_the_same_key_twice_turns_the_order_and_another_starts_anew() -> None:
    order = Order(SortKey.CPU).pressed(SortKey.CPU)
    assert order == Order(SortKey.CPU, reversed=True)
    assert order.pressed(SortKey.CPU) == Order(SortKey.CPU)
    assert order.pressed(SortKey.LAG) == Order(SortKey.LAG)


def test_filter_looks_at_pid_host_name_and_state() -> None:
    suspect = agent_status(1, 1, host="Other", state=PeerState.SUSPECT)
    rows = [*rows_of(agent_status(0, 2)), *rows_of(suspect)]
    assert [row.name for row in filter_rows(rows, "oTHer")] == ["w100"]
    assert [row.name for row in filter_rows(rows, "20001")] == ["w1"]
    assert [row.name for row in filter_rows(rows, "suspect")] == ["w100"]
    assert len(filter_rows(rows, "")) == 3


def test_silence_is_first_waiting_then_lost_and_a_message_ends_it() -> None:
    model = Model(100.0, timeout_seconds=5.0)
    assert model.state(200.0) is FeedState.WAITING
    model.apply(snapshot(), 200.0)
    assert model.state(204.0) is FeedState.LIVE
    assert model.state(205.5) is FeedState.LOST
    assert model.silent_seconds(205.5) == 5.5
    model.apply(snapshot(), 206.0)
    assert model.state(206.0) is FeedState.LIVE


def test_another_epoch_is_a_restart_and_the_same_message_again_is_not() -> None:
    model = Model(0.0)
    model.apply(snapshot(epoch=1), 1.0)
    model.apply(snapshot(epoch=1), 2.0)
    assert model.restarted_at is None
    model.apply(snapshot(epoch=2), 3.0)
    assert model.restarted_at == 3.0


def test_what_cannot_be_shown_leaves_what_was_known() -> None:
    model = Model(0.0)
    model.apply(snapshot((agent_status(),)), 1.0)
    model.refuse("no")
    assert (model.problem, len(model.worker_rows)) == ("no", 4)
    model.apply(snapshot(), 2.0)
    assert model.problem is None


@pytest.mark.parametrize("with_events", [True, False])
def test_a_clock_that_is_set_back_is_followed(with_events: bool) -> None:
    cluster, model, samples = SyntheticCluster(4, 100, seed=1), Model(0.0), Samples()
    for back_seconds in (0.0, 3600.0):
        cluster.start -= back_seconds
        for message in _seconds_of(cluster, 5):
            if with_events or isinstance(message, Snapshot):
                model.apply(message, 0.0)
        new = samples.new(model)
        assert new is not None and new["reset"]
        assert model.time == cluster.time
        times, _ = model.history("running")
        assert list(times) == sorted(times) and times[-1] > cluster.time - 1
        assert model.history("throughput")[0][-1] > cluster.time - 2
        if with_events:
            assert model.bars(model.time - 5, model.time, 100, range(4)).tasks > 0


def _seconds_of(cluster: SyntheticCluster, seconds: int) -> Iterator[MonitorMessage]:
    yield cluster.names()
    for _ in range(seconds):
        yield from (cluster.batch() for _ in range(10))
        yield cluster.snapshot()


def test_ten_thousand_workers_are_quick() -> None:
    agents = tuple(replace(agent_status(number, 10), session=number.to_bytes(16, "big")) for number in range(1000))
    model = Model(0.0)
    model.apply(snapshot(agents), 0.0)
    assert total_of(sort_rows(filter_rows(model.worker_rows, "w"), Order())).workers == 10_000


def _value(row: WorkerRow, key: SortKey) -> Any:
    names = {
        SortKey.AGENT_CPU: "agent_cpu_percent",
        SortKey.AGENT_RSS: "agent_rss_bytes",
        SortKey.CPU: "cpu_percent",
        SortKey.RSS: "rss_bytes",
        SortKey.LAG: "lag_seconds",
        SortKey.WORKER: "pid",
    }
    return getattr(row, names.get(key, key.value))


def test_tasks_assigned_to_a_host_run_there_or_are_queued() -> None:
    busy = agent_status(0, 6, sent=10)
    assert snapshot((busy,)).unfinished == (2_000, 7, 3)
    idle_since = agent_status(1, 6, sent=1)
    assert snapshot((busy, idle_since)).unfinished == (2_000, 6, 4)
    assert replace(snapshot((busy,)), tasks=TaskCounts(unassigned=1, running=2)).unfinished == (1, 0, 2)


def named(index: int, agent: AgentStatus) -> bytes:
    workers = [worker.name for worker in agent.workers]
    value = {"session": agent.session.hex(), "name": agent.name, "host": agent.host, "workers": workers}
    return records.name_record(records.Naming.AGENT, index, value)


def test_equal_names_of_workers_are_told_apart_by_their_agents() -> None:
    one, other = agent_status(0, 2), replace(agent_status(1, 2), host=agent_status().host)
    other = replace(other, workers=(replace(other.workers[0], name=one.workers[0].name), other.workers[1]))
    model = Model(0.0)
    model.apply(snapshot((one, other)), 0.0)
    model.apply(Events(1.0, 0, named(0, one) + named(1, other)), 0.0)
    assert [row.name for row in model.stream_rows()] == ["w0 (agent-0)", "w1", "w0 (agent-1)", "w101"]


def test_workers_of_agents_that_have_left_come_last_in_the_stream() -> None:
    agents = [agent_status(number, 1, host="h") for number in range(3)]
    model = Model(0.0)
    model.apply(snapshot(tuple(agents)), 0.0)
    model.apply(Events(1.0, 0, b"".join(named(index, agent) for index, agent in enumerate(agents))), 0.0)
    model.apply(snapshot(tuple(agents[1:])), 1.0)
    assert [row.worker.agent for row in model.stream_rows()] == ["agent-1", "agent-2", "agent-0"]


def test_workers_of_agents_that_have_left_are_in_the_stream_as_long_as_it_shows_tasks_of_them() -> None:
    agents = [agent_status(number, 1, host="h") for number in range(3)]
    model = Model(0.0)
    model.apply(snapshot(tuple(agents)), 0.0)
    second = 10**6
    ended = records.ended_record([1], [second], [1], [0], time=9 * second, session=0, workers=[0], agent=0)
    model.apply(Events(9.0, 0, b"".join(named(index, agent) for index, agent in enumerate(agents)) + ended), 0.0)
    model.apply(snapshot(tuple(agents[2:])), 1.0)
    assert [row.worker.agent for row in model.stream_rows(7.0, 10.0)] == ["agent-2", "agent-0"]
    assert [row.worker.agent for row in model.stream_rows(10.0, 20.0)] == ["agent-2"]
