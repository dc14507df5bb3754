"""Workers with scarce capabilities are kept for the tasks that need them, and are never idle for that."""

from __future__ import annotations

from scaler_protocol.messages import Capability, TaskColumn, Withdraw, Withdrawn
from scaler_scheduler.core.states import TaskState
from tests.unit.scheduler.playbook import Peer, Playbook, results, tasks
from tests.unit.scheduler.test_placement import given, learn

GPU = (Capability("gpu", 1),)
LONG_US = 1_000_000


def begin(*names: str, slots: int = 1) -> tuple[Playbook, Peer, list[Peer]]:
    """A playbook, a client, and an agent for each name; those named gpu... have the capability. Tasks take a second."""
    book = Playbook()
    client = book.client()
    agents = [book.agent(name, slots, {"gpu": 1} if name.startswith("gpu") else None) for name in names]
    learn(book, client, LONG_US / 1e6)
    return book, client, agents


def test_an_ordinary_task_goes_to_a_worker_without_the_capability() -> None:
    _, client, (gpu, plain) = begin("gpu", "plain")
    assert given(client.says(tasks(client, 1, 1)), gpu, plain) == [[], [1]]
    assert given(client.says(tasks(client, 2, 1)), gpu, plain) == [[2], []]


def test_a_capability_that_all_workers_have_is_not_scarce() -> None:
    book = Playbook()
    client = book.client()
    agents = [book.agent("a", 1, {"linux": 1, "x86": 1}), book.agent("b", 1, {"linux": 1, "x86": 1, "gpu": 1})]
    assert given(client.says(tasks(client, 1, 1)), *agents) == [[1], []]


def test_the_rarest_capability_counts_and_not_the_number_of_capabilities() -> None:
    book = Playbook()
    client = book.client()
    many = {"linux": 1, "x86": 1, "ssd": 1}
    book.agent("another", 1, many)
    agents = [book.agent("rare", 1, {"gpu": 1}), book.agent("common", 1, many)]
    said = client.says(tasks(client, 1, 2))
    assert given(said, *agents) == [[], [2]] or given(said, *agents) == [[], [1]]


def test_tasks_that_need_a_scarce_capability_precede_others_there_whatever_their_priority() -> None:
    book, client, (gpu, plain) = begin("gpu", "plain")
    other = book.client("other")
    client.says(tasks(client, 1, 100, priority=9))
    other.says(tasks(other, 1, 10, capabilities=GPU))
    for task in range(1, 6):
        running = handed_last(book, gpu)
        said = gpu.says(results(running[0], running[1], duration_us=LONG_US))
        assert [body.runs[0].session for name, body in said if name == "gpu"] == [other.session], task


def handed_last(book: Playbook, agent: Peer) -> tuple[Peer, int]:
    """The client and the number of the one task that an agent has."""
    state = book.core.state
    index = state.agents[agent.session].index
    for peer in book.peers.values():
        known = state.clients.get(peer.session)
        if known is None:
            continue
        for task in range(1, 101):
            described = known.table.columns.describe(task)
            if described is not None and described.state == TaskState.ASSIGNED and described.agent_index == index:
                return peer, task
    raise AssertionError(f"{agent.name} has no task")


def test_where_most_workers_have_the_capability_shares_decide() -> None:
    book, client, agents = begin("gpu-1", "gpu-2", "plain")
    other = book.client("other")
    client.says(tasks(client, 1, 100))
    other.says(tasks(other, 1, 100, capabilities=GPU))
    turns = []
    for _ in range(10):
        running = handed_last(book, agents[0])
        said = agents[0].says(results(running[0], running[1], duration_us=LONG_US))
        turns += [body.runs[0].session for name, body in said if name == "gpu-1"]
    assert set(turns) == {client.session, other.session}


def test_a_worker_is_borrowed_while_no_task_needs_its_capability() -> None:
    _, client, (gpu, plain) = begin("gpu", "plain")
    assert given(client.says(tasks(client, 1, 2)), gpu, plain) == [[2], [1]]
    assert given(gpu.says(results(client, 2, duration_us=LONG_US)), gpu) == [[]]
    assert given(client.says(tasks(client, 3, 1)), gpu, plain) == [[3], []]


def test_nothing_ordinary_is_prefetched_where_a_scarce_task_waits() -> None:
    book = Playbook()
    client = book.client()
    gpu, plain = book.agent("gpu", 1, {"gpu": 1}), book.agent("plain")
    assert given(client.says(tasks(client, 1, 2, capabilities=GPU)), gpu) == [[1]]
    assert given(client.says(tasks(client, 3, 9)), gpu, plain) == [[], [3, 4]]


def test_unstarted_ordinary_tasks_are_taken_back_for_a_scarce_task() -> None:
    book = Playbook()
    client = book.client()
    gpu, plain = book.agent("gpu", 1, {"gpu": 1}), book.agent("plain")
    assert given(client.says(tasks(client, 1, 9)), gpu, plain) == [[3, 4], [1, 2]]
    said = client.says(tasks(client, 10, 1, capabilities=GPU))
    said += book.wait(0.02, (gpu, plain))
    assert [each for each in said if isinstance(each[1], Withdraw)] == [("gpu", Withdraw(1))]
    said = gpu.says(Withdrawn((TaskColumn(client.session, (4,), (1,)),)))
    assert given(said, gpu, plain) == [[10], []]


def test_scarce_tasks_that_wait_for_each_other_take_nothing_back() -> None:
    book = Playbook()
    client = book.client()
    gpu, plain = book.agent("gpu", 1, {"gpu": 4}), book.agent("plain")
    assert given(client.says(tasks(client, 1, 9, capabilities=GPU)), gpu, plain) == [[1, 2], []]
    assert not [each for each in book.wait(2.0, (gpu, plain)) if isinstance(each[1], Withdraw)]


def test_a_scarce_task_that_waits_for_running_ones_costs_no_time() -> None:
    book, client, (gpu, plain) = begin("gpu", "plain")
    assert given(client.says(tasks(client, 1, 3, capabilities=GPU)), gpu, plain) == [[1], []]
    book.wait(0.1, (gpu, plain))
    assert book.core.state.balancer.next_at is None


def test_a_task_that_no_worker_can_run_delays_nothing() -> None:
    """Neither placement, across priorities and shares, nor work stealing."""
    book = Playbook()
    client, other = book.client(), book.client("other")
    a = book.agent("a")
    client.says(tasks(client, 1, 5, priority=9, capabilities=(Capability("nowhere", 1),)))
    assert given(other.says(tasks(other, 1, 2)), a) == [[1, 2]]
    b = book.agent("b")
    assert ("a", Withdraw(1)) in [*b.joined, *book.wait(0.05, (a, b))]


def test_an_ordinary_task_leaves_a_worker_that_runs_a_scarce_task() -> None:
    book = Playbook()
    client = book.client()
    gpu = book.agent("gpu", 1, {"gpu": 1})
    assert given(client.says(tasks(client, 1, 1, capabilities=GPU)), gpu) == [[1]]
    assert given(client.says(tasks(client, 2, 1)), gpu) == [[2]]
    plain = book.agent("plain")
    assert ("gpu", Withdraw(1)) in [*plain.joined, *book.wait(0.05, (gpu, plain))]
    said = gpu.says(Withdrawn((TaskColumn(client.session, (2,), (1,)),)))
    assert given(said, gpu, plain) == [[], [2]]


def test_what_only_its_worker_can_run_is_not_asked_for_again_and_again() -> None:
    book = Playbook()
    client = book.client()
    gpu, plain = book.agent("gpu", 1, {"gpu": 2}), book.agent("plain")
    assert given(client.says(tasks(client, 1, 2, capabilities=GPU)), gpu, plain) == [[1, 2], []]
    asked = 0
    for _ in range(50):
        for _, body in book.wait(0.02, (gpu, plain)):
            if isinstance(body, Withdraw):
                asked += 1
                gpu.says(Withdrawn((TaskColumn(client.session, (2,), (asked,)),)))
    assert asked <= 4


def test_explain_says_what_a_scarce_task_waits_for() -> None:
    book, client, (gpu, plain) = begin("gpu", "plain")
    client.says(tasks(client, 1, 2))
    client.says(tasks(client, 3, 2, capabilities=GPU))
    assert given(gpu.says(results(client, 2, duration_us=LONG_US)), gpu, plain) == [[3], []]
    text = book.core.explain(client.session, 4)
    assert "the capabilities it needs (gpu=1) are taken by other tasks" in text
