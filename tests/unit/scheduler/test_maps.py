"""The progress of maps: counted when a snapshot is made, and never task by task."""

from __future__ import annotations

import pytest

from scaler_protocol.messages import MAP_TASKS_UNKNOWN, Cancel, Goodbye, Status, TaskColumn, Tasks
from scaler_protocol.monitor.messages import MapStatus
from scaler_scheduler.core import map_loads, maps
from tests.unit.scheduler.playbook import Peer, Playbook, definition, results, tasks

LARGE = (10**6).to_bytes(8, "little")


def maps_of(book: Playbook) -> dict[int, MapStatus]:
    return {each.number: each for each in book.core.snapshot(book.now).maps}


def counts(status: MapStatus) -> tuple[int, int, int, int]:
    return status.total, status.unfinished, status.running, status.failed


def mapped(client: Peer, first: int, count: int, number: int = 1, **options: object) -> None:
    client.says(tasks(client, first, count, map_number=number, **options))


def test_a_map_counts_what_is_left_runs_and_failed() -> None:
    book = Playbook()
    client, agent = book.client(), book.agent(slots=2)
    mapped(client, 1, 3)
    mapped(client, 4, 7)
    found = maps_of(book)[1]
    assert (found.function, found.total, found.unfinished) == ("f", 10, 10) and found.running > 0
    agent.says(results(client, 1, (2, 1, Status.EXCEPTION, b""), 3))
    assert counts(maps_of(book)[1])[:2] == (10, 7) and maps_of(book)[1].failed == 1


def test_tasks_in_between_belong_to_no_map() -> None:
    book = Playbook()
    client, agent = book.client(), book.agent(slots=8)
    mapped(client, 1, 2)
    client.says(tasks(client, 3, 1))
    mapped(client, 4, 1)
    mapped(client, 5, 1, 2)
    agent.says(results(client, (3, 1, Status.EXCEPTION, b""), 4))
    assert {number: counts(each)[:2] for number, each in maps_of(book).items()} == {1: (3, 2), 2: (1, 1)}
    assert {each.failed for each in maps_of(book).values()} == {0}


def test_a_map_that_has_ended_is_listed_last_and_goes_on_with_further_tasks() -> None:
    book = Playbook()
    client, agent = book.client(), book.agent(slots=8)
    mapped(client, 1, 2)
    mapped(client, 3, 1, 2)
    agent.says(results(client, 1, 2))
    assert [(each.number, each.unfinished) for each in book.core.snapshot(book.now).maps] == [(2, 1), (1, 0)]
    mapped(client, 4, 5)
    assert counts(maps_of(book)[1])[:2] == (7, 5)


def test_a_map_counts_the_tasks_that_are_still_to_come_as_long_as_it_has_any() -> None:
    book = Playbook()
    client, agent = book.client(), book.agent(slots=8)
    mapped(client, 1, 3, map_tasks=10)
    assert (maps_of(book)[1].to_come, maps_of(book)[1].is_open) == (7, False)
    mapped(client, 4, 8, map_tasks=10)
    assert maps_of(book)[1].to_come == 0, "it said less than the truth"
    mapped(client, 12, 1, 2, map_tasks=10)
    agent.says(results(client, 12))
    assert counts(maps_of(book)[2])[:2] == (1, 0) and maps_of(book)[2].to_come == 0, "it may have been given up"


def test_a_map_of_unknown_length_is_open_until_it_has_no_task() -> None:
    book = Playbook()
    client, agent = book.client(), book.agent(slots=8)
    mapped(client, 1, 2, map_tasks=MAP_TASKS_UNKNOWN)
    assert (maps_of(book)[1].to_come, maps_of(book)[1].is_open) == (0, True)
    agent.says(results(client, 1, 2))
    assert not maps_of(book)[1].is_open


def test_after_a_restart_nobody_knows_how_many_tasks_of_a_map_are_to_come() -> None:
    book = Playbook()
    client = book.client()
    client.says(Tasks(tasks(client, 91, 2, map_number=1, map_tasks=100).runs, [definition()], resubmitted=True))
    mapped(client, 93, 2, map_tasks=100)
    client.says(Tasks(tasks(client, 95, 2, map_number=2).runs, [], resubmitted=True))
    assert {number: (each.to_come, each.is_open) for number, each in maps_of(book).items()} == {
        1: (0, True),
        2: (0, False),
    }


def test_large_results_are_done_and_cancelled_tasks_failed() -> None:
    book = Playbook()
    client, agent = book.client(), book.agent(slots=1)
    mapped(client, 1, 5000)
    agent.says(results(client, (1, 1, Status.SUCCESS_LARGE, LARGE)))
    assert counts(maps_of(book)[1])[:2] == (5000, 4999)
    client.says(Cancel((TaskColumn(client.session, (4999, 5000), ()),)))
    found = maps_of(book)[1]
    assert (found.unfinished, found.failed, found.canceled) == (4997, 2, 2)
    agent.says(results(client, (2, 1, Status.EXCEPTION, b"")))
    found = maps_of(book)[1]
    assert (found.unfinished, found.failed, found.canceled) == (4996, 3, 2)


def test_pages_of_ended_tasks_are_skipped() -> None:
    book = Playbook()
    client, agent = book.client(), book.agent(slots=1)
    count = 5000
    mapped(client, 1, count)
    for first in range(1, count, 100):
        agent.says(results(client, *range(first, min(first + 100, count))))
    found = maps_of(book)[1]
    assert (found.total, found.failed) == (count, 0) and 0 < found.unfinished <= count


def test_large_results_that_are_lost_are_unfinished_again() -> None:
    book = Playbook()
    client, agent = book.client(), book.agent(slots=2)
    mapped(client, 1, 2)
    agent.says(results(client, *[(task, 1, Status.SUCCESS_LARGE, LARGE) for task in (1, 2)]))
    assert counts(maps_of(book)[1]) == (2, 0, 0, 0)
    agent.says(Goodbye())
    assert counts(maps_of(book)[1]) == (2, 2, 0, 0)


def test_of_maps_that_are_over_the_latest_are_kept() -> None:
    book = Playbook()
    client, agent = book.client(), book.agent(slots=8)
    mapped(client, 1, 2)
    for number in range(2, map_loads.ENDED_LIMIT + 5):
        mapped(client, 10 * number, 1, number)
        agent.says(results(client, 10 * number))
    found = maps_of(book)
    assert len(found) == 1 + map_loads.ENDED_LIMIT and {2, 3, 4}.isdisjoint(found)
    mapped(client, 10_000, 3)
    assert counts(maps_of(book)[1])[:2] == (5, 5), "the oldest one was never over"


def test_maps_that_alternate_leave_nothing_behind() -> None:
    book = Playbook()
    client, agent = book.client(), book.agent(slots=8)
    columns = book.core.state.clients[client.session].table.columns
    for first in range(1, 500, 2):
        mapped(client, first, 1, 1)
        mapped(client, first + 1, 1, 2)
        agent.says(results(client, first, first + 1))
    assert not columns.maps.live and set(columns.maps.ended) == {1, 2}
    assert {counts(each) for each in maps_of(book).values()} == {(250, 0, 0, 0)}


def test_unfinished_maps_count_for_the_memory_limit() -> None:
    book = Playbook()
    client, other = book.client("one"), book.client("two")
    columns = [book.core.state.clients[each.session].table.columns for each in (client, other)]
    mapped(client, 1, 1)
    other.says(tasks(other, 1, 1))
    assert columns[0].held_bytes > columns[1].held_bytes


def test_maps_that_are_too_long_to_be_counted_are_counted_by_what_has_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maps, "TASKS_LIMIT", 400)
    book = Playbook()
    client, agent = book.client(), book.agent(slots=8)
    mapped(client, 1, 1001)
    mapped(client, 2000, 5, 2)
    agent.says(results(client, 1, 2, 3))
    found = maps_of(book)
    assert counts(found[1]) == (1001, 998, 0, 0), "its running tasks are unknown"
    assert counts(found[2])[:2] == (5, 5)


def test_runs_that_nothing_looks_at_are_unfinished_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maps, "TASKS_LIMIT", 150)
    book = Playbook()
    client, agent = book.client(), book.agent(slots=8)
    for number in range(10):
        mapped(client, 1 + 3 * number, 3)
    agent.says(results(client, 1, 4, 7, 10))
    assert 26 <= maps_of(book)[1].unfinished < 30


def test_a_map_that_is_over_is_shown_behind_one_that_is_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maps, "TASKS_LIMIT", 10)
    book = Playbook()
    client, agent = book.client(), book.agent(slots=8)
    mapped(client, 1, 2, 1)
    agent.says(results(client, 1, 2))
    mapped(client, 3, 500, 2)
    assert {number: counts(each)[:2] for number, each in maps_of(book).items()} == {2: (500, 500), 1: (2, 0)}


def test_each_client_has_its_turn_and_unfinished_maps_precede_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maps, "SHOWN_LIMIT", 5)
    book = Playbook()
    agent, peers = book.agent(slots=8), [book.client(name) for name in ("one", "two", "three")]
    for number in range(1, 5):
        mapped(peers[0], number, 1, number)
        mapped(peers[1], number, 1, number)
        agent.says(results(peers[1], number))
    mapped(peers[2], 1, 1)
    found = [(each.session, each.number, each.unfinished) for each in book.core.snapshot(book.now).maps]
    shown = [book.core.state.clients[peer.session].shown_id for peer in peers]
    assert set(found) == {(shown[0], number, 1) for number in range(1, 5)} | {(shown[2], 1, 1)}
    agent.says(*[results(peers[0], number) for number in range(1, 5)])
    found = [(each.session, each.number) for each in book.core.snapshot(book.now).maps]
    assert found == [(shown[2], 1), (shown[0], 4), (shown[1], 4), (shown[0], 3), (shown[1], 3)]
