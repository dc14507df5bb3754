"""The progress of maps: counted when a snapshot is made, and never task by task."""

from __future__ import annotations

import pytest

from scaler_protocol.messages import Cancel, Status, TaskColumn
from scaler_protocol.monitor.messages import MapStatus
from scaler_scheduler.core import map_loads, maps
from tests.unit.scheduler.playbook import Peer, Playbook, results, tasks


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


def test_large_results_are_done_and_cancelled_tasks_failed() -> None:
    book = Playbook()
    client, agent = book.client(), book.agent(slots=1)
    mapped(client, 1, 5000)
    agent.says(results(client, (1, 1, Status.SUCCESS_LARGE, (10**6).to_bytes(8, "little"))))
    assert counts(maps_of(book)[1])[:2] == (5000, 4999)
    client.says(Cancel((TaskColumn(client.session, (4999, 5000), ()),)))
    assert counts(maps_of(book)[1])[:2] == (5000, 4997) and maps_of(book)[1].failed == 2


def test_pages_of_ended_tasks_are_skipped() -> None:
    book = Playbook()
    client, agent = book.client(), book.agent(slots=1)
    count = 5000
    mapped(client, 1, count)
    for first in range(1, count, 100):
        agent.says(results(client, *range(first, min(first + 100, count))))
    found = maps_of(book)[1]
    assert (found.total, found.failed) == (count, 0) and 0 < found.unfinished <= count


def test_what_a_client_may_make_the_scheduler_keep_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maps, "MAPS_LIMIT", 3)
    monkeypatch.setattr(map_loads, "RANGES_LIMIT", 2)
    book = Playbook()
    client = book.client()
    for number in range(1, 10):
        mapped(client, 10 * number, 1, number)
    assert set(maps_of(book)) == {7, 8, 9}
    for number in range(10):
        mapped(client, 1000 + 10 * number, 1, 9)
    assert maps_of(book)[9].total == 2


def test_maps_that_are_too_long_to_be_counted_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maps, "TASKS_LIMIT", 10)
    book = Playbook()
    client = book.client()
    mapped(client, 1, 11)
    mapped(client, 20, 5, 2)
    assert set(maps_of(book)) == {2}
