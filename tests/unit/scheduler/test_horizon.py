"""How much work waits at an agent depends on its distance."""

from __future__ import annotations

import pytest

from scaler_protocol.messages import Heartbeat
from scaler_scheduler.core.agent_loads import AgentLoad
from tests.unit.scheduler.playbook import FUNCTION, OTHER_FUNCTION, Peer, Playbook, handed, results, tasks

FAR_SECONDS = 0.05


def load_after(*round_trips_seconds: float) -> AgentLoad:
    load = AgentLoad(0, 2, 1000)
    for seconds in round_trips_seconds:
        load.note_round_trip(seconds)
    return load


@pytest.mark.parametrize("seconds", [0.0, 0.0002, 0.001, 0.0033])
def test_a_short_round_trip_changes_nothing(seconds: float) -> None:
    load = load_after(seconds)
    assert (load.horizon_us, load.round_trip_us, load.budget_us(0)) == (10_000, 0, 20_000)


def test_a_long_round_trip_extends_the_horizon() -> None:
    load = load_after(FAR_SECONDS)
    assert (load.horizon_us, load.round_trip_us, load.budget_us(0)) == (80_000, 50_000, 160_000)


def test_the_shortest_of_the_last_four_round_trips_counts() -> None:
    assert load_after(0.2, 0.0005, 0.3, 0.1).horizon_us == 10_000
    assert load_after(0.0005, 0.2, 0.3, 0.1, FAR_SECONDS).horizon_us == 80_000


@pytest.mark.parametrize("seconds", [0.3, 1e9, float("inf")])
def test_the_horizon_is_bounded(seconds: float) -> None:
    assert load_after(seconds).horizon_us == 380_000


def far_agent(book: Playbook) -> Peer:
    agent = book.agent("agent", 1)
    agent.says(Heartbeat(50.0, FAR_SECONDS, 0.0, 0, 0, 0, ()))
    return agent


def test_tasks_of_known_duration_cover_the_round_trip() -> None:
    book = Playbook()
    agent, client = far_agent(book), book.client()
    client.says(tasks(client, 0, 1))
    agent.says(results(client, 0, duration_us=1000))
    assert len(handed(client.says(tasks(client, 1, 1000)), agent)) == 81


def test_tasks_of_unknown_duration_are_prefetched_as_on_one_machine() -> None:
    book, near_book = Playbook(), Playbook()
    agent, client = far_agent(book), book.client()
    near, near_client = near_book.agent("agent", 1), near_book.client()
    expected = len(handed(near_client.says(tasks(near_client, 0, 1000)), near))
    assert len(handed(client.says(tasks(client, 0, 1000)), agent)) == expected


@pytest.mark.parametrize(("seconds", "expected"), [(0.02, 4), (0.05, 4), (0.06, 2), (3.0, 2)])
def test_one_task_waits_for_each_slot_unless_tasks_are_long(seconds: float, expected: int) -> None:
    """Otherwise a worker would be idle for a round trip after each task. Behind longer tasks, others would wait."""
    book = Playbook()
    agent, client = book.agent("agent", 2), book.client()
    client.says(tasks(client, 0, 1))
    agent.says(results(client, 0, duration_us=int(seconds * 1e6)))
    assert len(handed(client.says(tasks(client, 1, 10)), agent)) == expected
    assert len(handed(agent.says(results(client, 1, duration_us=int(seconds * 1e6))), agent)) == 1


def test_no_task_waits_behind_long_ones() -> None:
    book = Playbook()
    agent, client = book.agent("agent", 2), book.client()
    for function, first, seconds in ((FUNCTION, 0, 3.0), (OTHER_FUNCTION, 1, 0.1)):
        client.says(tasks(client, first, 1, function=function))
        agent.says(results(client, first, duration_us=int(seconds * 1e6)))
    client.says(tasks(client, 2, 2))
    assert handed(client.says(tasks(client, 4, 5, function=OTHER_FUNCTION)), agent) == []


@pytest.mark.parametrize(("round_trip_seconds", "expected"), [(0.0005, 1000), (FAR_SECONDS, 15_000)])
def test_the_number_of_queued_tasks_grows_with_the_horizon(round_trip_seconds: float, expected: int) -> None:
    """Otherwise very short tasks would not last for a round trip."""
    book = Playbook()
    agent, client = book.agent("agent", 1), book.client()
    agent.says(Heartbeat(50.0, round_trip_seconds, 0.0, 0, 0, 0, ()))
    client.says(tasks(client, 0, 1))
    agent.says(results(client, 0, duration_us=1))
    assert len(handed(client.says(tasks(client, 1, 20_000)), agent)) == expected
