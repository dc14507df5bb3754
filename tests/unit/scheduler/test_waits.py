"""What monitors are told of waiting tasks with very many reasons."""

from __future__ import annotations

import pytest

from scaler.client.cluster_info import ClusterInfo
from scaler.command.status import lines_of
from scaler_protocol.ids import digest
from scaler_protocol.messages import Capability, FunctionDefinition, Tasks
from scaler_protocol.monitor.alerts import AlertBoard
from scaler_protocol.monitor.messages import Snapshot
from scaler_protocol.monitor.model import Model
from scaler_scheduler.core import waits
from tests.unit.scheduler.playbook import Playbook, definition, run

SHOWN = 200


def needs(number: int) -> tuple[Capability, ...]:
    return (Capability(f"kind{number}", 1),)


def with_many_reasons(count: int, **agent) -> Playbook:
    """Two clients whose calls need so many different capabilities; number 0 is what more tasks need than any other."""
    book = Playbook()
    if agent:
        book.agent(**agent)
    for name in "one", "two":
        client = book.client(name)
        runs = [run(client, 2 * number + 1, 2, capabilities=needs(number)) for number in range(count)]
        client.says(Tasks(runs, [definition()]))
    return book


def snapshot_of(book: Playbook) -> Snapshot:
    book.now += 20
    return book.core.snapshot(book.now)


def cannot_run(snapshot: Snapshot, kind: str) -> list[int]:
    model = Model(0.0)
    model.apply(snapshot, 0.0)
    return [each.cannot_run for each in model.progress.rows if each.kind == kind]


def test_all_tasks_are_there_however_many_reasons_there_are() -> None:
    snapshot = snapshot_of(with_many_reasons(500, capabilities={"other": 1}))
    assert len(snapshot.waits) <= SHOWN and snapshot.wait_count == 1000
    assert sum(each.count for each in snapshot.waits) == 2000
    assert all(each.reason.startswith("No connected worker has the capabilities it needs") for each in snapshot.waits)
    further = [each for each in snapshot.waits if each.reason.endswith("more reasons.")]
    assert sum(int(each.reason.split()[-3]) for each in further) == 1000 - (SHOWN - waits.FURTHER_LIMIT)
    assert {each.function for each in snapshot.waits} == {"f"} and min(each.oldest_seconds for each in further) >= 20


def test_progress_and_alerts_count_tasks_of_all_reasons() -> None:
    snapshot = snapshot_of(with_many_reasons(500, capabilities={"other": 1}))
    found = {kind: cannot_run(snapshot, kind) for kind in ("all", "client", "function")}
    assert found == {"all": [2000], "client": [1000, 1000], "function": [2000]}
    board = AlertBoard()
    board.follow(snapshot, 100.0)
    assert "2,000 tasks wait" in board.active[0].text
    assert "           ... and 990 more" in lines_of(ClusterInfo(snapshot, ()))


def test_without_workers_that_is_the_reason() -> None:
    snapshot = snapshot_of(with_many_reasons(500))
    assert {each.reason for each in snapshot.waits} == {"No worker is connected."}
    assert sum(each.count for each in snapshot.waits) == 2000


def test_tasks_that_a_worker_can_run_are_not_among_those_that_none_can() -> None:
    kinds = {f"kind{number}": 1 for number in range(400, 500)}
    snapshot = snapshot_of(with_many_reasons(500, capabilities=kinds))
    assert sum(each.count for each in snapshot.waits) == snapshot.tasks.unassigned
    assert cannot_run(snapshot, "all") == [1600]


def test_tasks_of_very_many_functions_with_one_reason_keep_it() -> None:
    book = Playbook()
    book.agent()
    client = book.client()
    pickles = [str(number).encode() for number in range(500)]
    runs = [run(client, number + 1, 1, function=digest(pickle)) for number, pickle in enumerate(pickles)]
    client.says(Tasks(runs, [FunctionDefinition(digest(pickle), "f", pickle, 3) for pickle in pickles]))
    snapshot = snapshot_of(book)
    assert sum(each.count for each in snapshot.waits) == snapshot.tasks.unassigned > SHOWN
    assert {each.reason for each in snapshot.waits} == {"The only worker that could run it is busy."}


def test_what_is_looked_at_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waits, "QUEUES_LIMIT", 210)
    monkeypatch.setattr(waits, "REASONS_LIMIT", 205)
    snapshot = snapshot_of(with_many_reasons(500, capabilities={"other": 1}))
    left_out = [each for each in snapshot.waits if each.reason == waits._OTHER_QUEUES]
    assert [each.count for each in left_out] == [4 * 290]
    assert sum(each.count for each in snapshot.waits) == 2000


def priorities(snapshot: Snapshot) -> list[tuple[int, int, int, int]]:
    """The number of tasks of each group, the priority of its example, the lowest and the highest one."""
    return [(each.count, each.priority, each.lowest_priority, each.highest_priority) for each in snapshot.waits]


def test_a_group_names_its_lowest_and_its_highest_priority() -> None:
    book = Playbook()
    client = book.client()
    for first, priority in enumerate((3, -5, 10)):
        client.says(Tasks([run(client, first + 1, 1, priority=priority)], [definition()]))
        book.now += 1
    assert priorities(snapshot_of(book)) == [(3, 3, -5, 10)]


def test_groups_that_are_put_together_keep_their_priorities() -> None:
    book = Playbook()
    client = book.client()
    for number in range(300):
        some = run(client, number + 1, 1, capabilities=needs(number), priority=number)
        client.says(Tasks([some], [definition()]))
    snapshot = snapshot_of(book)
    assert min(each.lowest_priority for each in snapshot.waits) == 0
    assert max(each.highest_priority for each in snapshot.waits) == 299
    (further,) = [each for each in snapshot.waits if each.count > 1]
    assert further.lowest_priority < further.highest_priority


def test_one_priority_of_a_sum_is_that_of_all() -> None:
    book = Playbook()
    client = book.client()
    for number in range(300):
        client.says(Tasks([run(client, number + 1, 1, capabilities=needs(number), priority=7)], [definition()]))
    assert {each[1:] for each in priorities(snapshot_of(book))} == {(7, 7, 7)}
