"""Calls that have not left their clients count as waiting in snapshots, and nowhere else."""

from __future__ import annotations

from scaler_protocol.messages import Goodbye, UnsentCalls, UnsentCount
from scaler_protocol.monitor.progress import ALL, CLIENT, FUNCTION, ProgressWatch
from scaler_scheduler.core.unsent_calls import REASON
from tests.unit.scheduler.playbook import Playbook, results, tasks

TRAIN = UnsentCount(b"t" * 16, "train", 2, "steps")


def test_they_wait_in_the_counts_of_all_of_the_client_and_of_the_function() -> None:
    book = Playbook()
    client, agent = book.client(), book.agent(slots=1)
    client.says(tasks(client, 1, 1))
    client.says(UnsentCalls((TRAIN, UnsentCount(b"f" * 16, "f", 1))))
    book.now += 3
    snapshot = book.core.snapshot(book.now)
    assert (snapshot.tasks.unassigned, snapshot.clients[0].unassigned) == (3, 3)
    assert {each.name: (each.module, each.unfinished) for each in snapshot.functions if each.name == "train"} == {
        "train": ("steps", 2)
    }
    groups = {each.function: (each.count, each.oldest_seconds) for each in snapshot.waits if each.reason == REASON}
    assert groups == {"train": (2, 3.0), "f": (1, 3.0)}
    watch = ProgressWatch()
    watch.add(snapshot)
    assert [watch.by_key(kind)[key].unfinished for kind, key in (
        (ALL, ""), (CLIENT, snapshot.clients[0].session), (FUNCTION, "train")
    )] == [4, 4, 2]  # fmt: skip
    agent.says(results(client, 1))
    client.says(UnsentCalls(()))
    assert book.core.snapshot(book.now).tasks.unassigned == 0
    assert not book.core.snapshot(book.now).waits


def test_functions_that_have_no_client_any_more_keep_their_totals() -> None:
    book = Playbook()
    client, agent = book.client(), book.agent(slots=1)
    client.says(tasks(client, 1, 1))
    agent.says(results(client, 1))
    client.says(Goodbye())
    later = book.client()
    name = next(each for each in book.core.snapshot(book.now).functions)
    later.says(UnsentCalls((UnsentCount(name.digest, name.name, 5, name.module),)))
    for _ in range(2):
        found = next(each for each in book.core.snapshot(book.now).functions if each.name == name.name)
        assert (found.unfinished, found.finished) == (5, 1)
    later.says(Goodbye())
    assert next(iter(book.core.snapshot(book.now).functions)).unfinished == 0


def test_counts_are_bounded() -> None:
    book = Playbook()
    client = book.client()
    counts = [UnsentCount(bytes(16), f"f{number}", 2**32 - 1, "m" * 5000) for number in range(500)]
    client.says(UnsentCalls(tuple(counts)))
    known = book.core.state.clients[client.session].unsent
    assert len(known) == 200 and max(len(each.module) for each in known) == 1000
    assert book.core.snapshot(book.now).tasks.unassigned == 200 * (2**32 - 1)
