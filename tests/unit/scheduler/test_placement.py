"""Tasks go where their bytes are, unless waiting there takes longer than moving them."""

from __future__ import annotations

import pytest

from scaler_protocol.codec import TaskRun
from scaler_protocol.messages import (
    Cancel,
    Capability,
    ObjectKey,
    ObjectRequest,
    ObjectStored,
    Status,
    StoreAttached,
    TaskColumn,
    TaskOptions,
    Tasks,
    Withdraw,
    Withdrawn,
)
from tests.unit.scheduler.playbook import FUNCTION, Peer, Playbook, handed, results, statuses, tasks
from tests.unit.scheduler.test_graphs import done, nodes

MB = 1_000_000


def host(book: Playbook, name: str, slots: int = 1, **more) -> Peer:
    """An agent with a store of its own."""
    agent = book.agent(name, slots, **more)
    agent.says(StoreAttached(store_of(agent), f"tcp://{name}"))
    return agent


def store_of(agent: Peer) -> bytes:
    return agent.session[::-1]


def sent(client: Peer, size: int, agent: Peer, number: int = 1) -> ObjectKey:
    """An object of the client that is in the store of an agent's host."""
    key = ObjectKey(client.session, 2**64 - number)
    assert client.says(ObjectStored(key, size, store_of(agent))) == []
    return key


def needing(client: Peer, first: int, *keys: ObjectKey, count: int = 1, **options) -> Tasks:
    run = TaskRun(client.session, FUNCTION, "f", b"", first, 1, (), TaskOptions(**options), [list(keys)] * count)
    return Tasks([run])


def learn(book: Playbook, client: Peer, seconds: float) -> None:
    """The scheduler learns how long the function takes."""
    client.says(tasks(client, 0, 1))
    for peer in [peer for peer in book.peers.values() if peer is not client]:
        peer.says(results(client, 0, duration_us=int(seconds * 1e6)))


def given(said: list, *agents: Peer) -> list[list[int]]:
    return [[task for task, _ in handed(said, agent)] for agent in agents]


def begin(names, seconds=None):
    """A playbook, a client, and agents of these names; ``seconds``: known to be what a task takes."""
    book = Playbook()
    client = book.client()
    agents = [host(book, name) for name in names]
    if seconds is not None:
        learn(book, client, seconds)
    return book, client, *agents


@pytest.mark.parametrize("holder", ["a", "b", "c"])
def test_a_task_goes_to_the_idle_agent_that_has_its_bytes(holder: str):
    book = Playbook()
    client = book.client()
    agents = {name: host(book, name) for name in "abc"}
    key = sent(client, 100 * MB, agents[holder])
    said = client.says(needing(client, 1, key))
    assert given(said, agents[holder]) == [[1]]


def test_most_bytes_decide():
    book, client, a, b, c = begin("abc")
    keys = [sent(client, 30 * MB, a, 1), sent(client, 50 * MB, b, 2), sent(client, 30 * MB, a, 3)]
    assert given(client.says(needing(client, 1, *keys)), a, b, c) == [[1], [], []]


def test_a_busy_holder_loses_when_the_bytes_are_few():
    book, client, a, b = begin("ab", 1.0)
    key = sent(client, 10 * MB, a)
    assert given(client.says(needing(client, 1, key)), a, b) == [[1], []]
    assert given(client.says(needing(client, 2, key)), a, b) == [[], [2]]


def test_a_busy_holder_wins_when_the_bytes_are_many_and_its_turn_comes_soon():
    book, client, a, b = begin("ab", 0.25)
    key = sent(client, 1000 * MB, a)
    assert given(client.says(needing(client, 1, key, count=3)), a, b) == [[1], []]
    assert book.core.explain(client.session, 2) == (
        "Task 2 (f) is queued: a (host, pid 1) has the objects it needs and is busy; if that lasts, they move to "
        "another worker."
    )
    waits = book.core.snapshot(book.now).waits
    assert [(group.count, group.reason[:20]) for group in waits] == [(2, "a (host, pid 1) has ")]
    assert given(a.says(results(client, 1, duration_us=250_000)), a, b) == [[2], []]
    assert given(a.says(results(client, 2, duration_us=250_000)), a, b) == [[3], []]


def test_nobody_waits_for_longer_than_the_bytes_would_take_to_move():
    book, client, a, b = begin("ab", 0.25)
    key = sent(client, 500 * MB, a)
    assert given(client.says(needing(client, 1, key, count=2)), a, b) == [[1], []]
    assert given(book.wait(0.45, (a, b)), a, b) == [[], []]
    assert given(book.wait(0.1, (a, b)), a, b) == [[], [2]]


def test_tasks_of_unknown_length_spread_after_as_long_as_their_bytes_need():
    book = Playbook()
    client = book.client()
    agents = [host(book, name) for name in "abcd"]
    key = sent(client, 100 * MB, agents[0])
    assert given(client.says(needing(client, 1, key, count=4)), *agents) == [[1, 2], [], [], []]
    said = book.wait(0.15, tuple(agents))
    assert sorted(given(said, *agents)) == [[], [], [3], [4]]
    assert ("a", Withdraw(1)) in said
    said = agents[0].says(Withdrawn((TaskColumn(client.session, (2,), (1,)),)))
    assert sorted(given(said, *agents)) == [[], [], [], [2]]


def test_many_more_tasks_than_the_holder_can_do_are_spread_at_once():
    book = Playbook()
    client = book.client()
    agents = [host(book, name) for name in "abcd"]
    learn(book, client, 1.0)
    key = sent(client, 100 * MB, agents[0])
    said = client.says(needing(client, 1, key, count=100))
    assert sorted(given(said, *agents)) == [[1], [2], [3], [4]]


def test_equal_places_share():
    book, client, a, b = begin("ab", 1.0)
    key = sent(client, 100 * MB, a)
    b.says(ObjectRequest(key))
    b.says(ObjectStored(key, 100 * MB, store_of(b)))
    assert sorted(given(client.says(needing(client, 1, key, count=2)), a, b)) == [[1], [2]]


def test_agents_of_one_host_share_what_its_store_has():
    book, client, a, b, c = begin("abc")
    b.says(StoreAttached(store_of(a), "tcp://a"))
    learn(book, client, 1.0)
    key = sent(client, 100 * MB, a)
    said = client.says(needing(client, 1, key, count=2))
    assert sorted(given(said, a, b)) == [[1], [2]] and given(said, c) == [[]]


def test_what_is_reserved_for_a_lost_holder_goes_elsewhere():
    book, client, a, b = begin("ab", 0.25)
    key = sent(client, 10_000 * MB, a)
    client.says(needing(client, 1, key, count=3))
    said = book.lose(a)
    assert given(said, b) == [[2]], "and what ran there is waited for"
    assert given(book.wait(1.0, (b,)), b) == [[]]
    assert given(b.says(results(client, 2, duration_us=250_000)), b) == [[1]]
    assert given(b.says(results(client, (1, 2), duration_us=250_000)), b) == [[3]]


def test_a_cancelled_task_is_not_waited_for():
    book, client, a, b = begin("ab", 0.25)
    key = sent(client, 1000 * MB, a)
    client.says(needing(client, 1, key, count=3))
    said = client.says(Cancel((TaskColumn(client.session, (2,)),)))
    assert statuses(said, client) == {2: Status.CANCELLED}
    assert given(a.says(results(client, 1, duration_us=250_000)), a, b) == [[3], []]
    assert given(client.says(tasks(client, 10, 1)), b) == [[10]]


def test_capabilities_are_respected():
    book = Playbook()
    client = book.client()
    a, b = host(book, "a"), host(book, "b", capabilities={"gpu": 1})
    key = sent(client, 1000 * MB, a)
    said = client.says(needing(client, 1, key, capabilities=(Capability("gpu", 1),)))
    assert given(said, a, b) == [[], [1]]


def test_the_bound_of_the_queue_of_an_agent_is_respected():
    book = Playbook(per_worker_queue_size=1)
    client = book.client()
    a, b = host(book, "a"), host(book, "b")
    learn(book, client, 0.0001)
    key = sent(client, 1000 * MB, a)
    said = client.says(needing(client, 1, key, count=5))
    assert given(said, a, b) == [[1], [2]], "who is full is not waited for"


def test_a_task_of_higher_priority_is_still_first():
    book = Playbook()
    client = book.client()
    a, _ = host(book, "a"), host(book, "b")
    learn(book, client, 0.25)
    key = sent(client, 1000 * MB, a)
    client.says(needing(client, 1, key), tasks(client, 2, 1))
    client.says(needing(client, 3, key), needing(client, 4, key, priority=1))
    assert given(a.says(results(client, 1, duration_us=250_000)), a) == [[4]]


def test_what_is_reserved_keeps_the_priority_to_which_its_client_was_raised():
    book = Playbook(aging_seconds=1.0)
    urgent, client = book.client("urgent"), book.client()
    near, far = host(book, "near"), host(book, "far")
    learn(book, urgent, 0.01)
    key = sent(client, 1000 * MB, near)
    said = urgent.says(tasks(urgent, 1, 6, priority=9))
    at_near, at_far = given(said, near, far)
    assert len(at_near) == len(at_far) == 2
    assert client.says(needing(client, 1, key)) == []
    at_far += given(far.says(results(urgent, at_far.pop(0), duration_us=10_000)), far)[0]
    book.wait(3.5, (near, far))
    at_near += given(near.says(results(urgent, at_near.pop(0), duration_us=10_000)), near)[0]
    assert given(far.says(results(urgent, at_far.pop(0), duration_us=10_000)), near, far) == [[], []]
    said = near.says(results(urgent, at_near.pop(0), duration_us=10_000))
    [run] = [run for _, body in said if isinstance(body, Tasks) for run in body.runs]
    assert given(said, near) == [[1]] and run.options.priority == 3


def test_a_deeper_task_passes_what_is_reserved():
    book, client, a, b = begin("ab", 0.25)
    key = sent(client, 1000 * MB, a)
    client.says(needing(client, 1, key, count=3), tasks(client, 10, 1))
    said = client.says(tasks(client, 20, 2, depth=1))
    assert given(said, a, b) == [[21], [20]]


def test_balancing_leaves_tasks_with_their_bytes_until_they_have_waited_as_long():
    book = Playbook()
    client = book.client()
    a = host(book, "a")
    learn(book, client, 0.001)
    key = sent(client, 300 * MB, a)
    b = host(book, "b")
    assert given(client.says(needing(client, 1, key, count=4)), a, b) == [[1, 2, 3, 4], []]
    said = book.wait(0.25, (a, b))
    assert not [body for _, body in said if isinstance(body, Withdraw)]
    said = book.wait(0.1, (a, b))
    assert [(name, body) for name, body in said if isinstance(body, Withdraw)] == [("a", Withdraw(1))]
    said = a.says(Withdrawn((TaskColumn(client.session, (4,), (1,)),)))
    assert given(said, a, b) == [[], [4]]


def test_tasks_without_large_objects_are_moved_as_ever():
    book = Playbook()
    client = book.client()
    host(book, "a")
    learn(book, client, 0.001)
    client.says(tasks(client, 1, 4))
    b = book.agent("b")
    assert [name for name, body in b.joined if isinstance(body, Withdraw)] == ["a"]


# ---- nodes of graphs -------------------------------------------------------------------------------------------------


def large(client: Peer, task: int, size: int, agent: Peer):
    payload = size.to_bytes(8, "little") + store_of(agent)
    return done(client, task, payload=payload, status=Status.SUCCESS_LARGE)


def two_values(book: Playbook, size: int, other_size: int):
    """Node 1 has run at ``a`` and node 2 at ``b``; node 3 needs both."""
    client = book.client()
    a, b = host(book, "a"), host(book, "b")
    learn(book, client, 1.0)
    said = client.says(nodes(client, 1, [[], []], 3), nodes(client, 3, [[1, 2]], 3, True))
    (first,), (second,) = given(said, a, b)
    sizes = {first: size, second: other_size}
    a.says(large(client, first, sizes[first], a))
    return client, a, b, b.says(large(client, second, sizes[second], b))


@pytest.mark.parametrize(("size", "other_size", "expected"), [(100, 50, [[3], []]), (50, 100, [[], [3]])])
def test_a_node_goes_where_most_of_its_inputs_are(size: int, other_size: int, expected: list):
    book = Playbook()
    _, a, b, said = two_values(book, size * MB, other_size * MB)
    assert given(said, a, b) == expected


def test_a_node_waits_for_the_holder_of_a_very_large_input_but_not_for_ever():
    book, client, a, b = begin("ab", 0.25)
    other = book.client("other")
    assert given(client.says(nodes(client, 1, [[]], 2)), a, b) == [[1], []]
    assert given(other.says(tasks(other, 500, 1)), a, b) == [[], [500]]
    a.says(large(client, 1, 1000 * MB, a))
    assert given(other.says(tasks(other, 600, 1)), a, b) == [[600], []]
    said = client.says(nodes(client, 2, [[1]], 2, True))
    assert given(said, a, b) == [[], []]
    assert given(b.says(results(other, 500, duration_us=250_000)), a, b) == [[], []]
    assert book.core.explain(client.session, 2).startswith("Task 2 (f) is queued: a (host, pid 1) has the objects")
    assert given(book.wait(1.2, (a, b)), a, b) == [[], [2]]


def test_a_dependant_does_not_follow_one_input_away_from_a_larger_one():
    book, client, a, b = begin("ab", 0.0001)
    client.says(nodes(client, 1, [[]], 4))
    a.says(large(client, 1, 500 * MB, a))
    said = client.says(nodes(client, 2, [[]], 4), nodes(client, 3, [[1, 2]], 4))
    holder, other = (a, b) if given(said, a) != [[]] else (b, a)
    if holder is b:
        assert given(said, b) == [[2]], "3 waits"
    assert given(holder.says(done(client, 2)), a) == [[3]] or given(said, a) == [[2, 3]]


def test_a_value_that_is_lost_counts_no_more():
    book = Playbook()
    client, a, b, said = two_values(book, 100 * MB, 50 * MB)
    assert given(said, a) == [[3]]
    book.lose(a)
    said = book.wait(1.0, (b,))
    assert given(said, b) != [[]], "what made it runs again"


# ---- what moving costs -----------------------------------------------------------------------------------------------


def test_slow_transfers_make_others_wait_longer_for_the_holder():
    book, client, a, b = begin("ab", 1.0)
    for number in range(2, 20):
        key = sent(client, 10 * MB, a, number)
        b.says(ObjectRequest(key))
        book.wait(0.5, (a, b))
        b.says(ObjectStored(key, 10 * MB, store_of(b)))
    assert book.core.state.transfers.bytes_per_second == pytest.approx(20 * MB, rel=0.5)
    key = sent(client, 100 * MB, a)
    assert given(client.says(needing(client, 1, key, count=2)), a, b) == [[1], []]
    assert given(a.says(results(client, 1, duration_us=1_000_000)), a, b) == [[2], []]


def test_a_transfer_that_did_not_come_says_nothing_of_their_speed():
    book, client, a, b = begin("ab")
    before = book.core.state.transfers.bytes_per_second
    key = sent(client, 10 * MB, a)
    b.says(ObjectRequest(key))
    book.wait(0.5, (a, b))
    b.says(ObjectRequest(key, relayed=True))
    b.says(ObjectStored(key, 10 * MB, store_of(b)))
    assert book.core.state.transfers.bytes_per_second == before


def test_of_equal_agents_the_one_used_last_gets_the_next_task():
    book, client, *agents = begin("abc")
    used = [given(client.says(tasks(client, 10, 1)), *agents).index([10])]
    for task in range(11, 15):
        agents[used[-1]].says(results(client, task - 1))
        used.append(given(client.says(tasks(client, task, 1)), *agents).index([task]))
    assert len(set(used)) == 1


def test_agents_without_tasks_are_rarely_pinged():
    book = Playbook()
    client, idle, busy = book.client(), book.agent("idle"), book.agent("busy", capabilities={"x": 1})
    client.says(tasks(client, 1, 1, capabilities=(Capability("x", 1),)))
    sent: dict[bytes, set[float]] = {idle.session: set(), busy.session: set()}
    for _ in range(40):
        book.wait(0.1, (idle, busy))
        for session, times in sent.items():
            times.add(book.core.state.agents[session].connection.sent_at)
    assert len(sent[idle.session]) <= 4 and 8 <= len(sent[busy.session]) <= 13
