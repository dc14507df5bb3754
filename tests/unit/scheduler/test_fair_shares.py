"""How clients share the workers: by running time, within groups, by weight, and with limits."""

from __future__ import annotations

import math

import pytest

from scaler_protocol.ids import shown_id
from scaler_protocol.messages import (
    Capability,
    Envelope,
    ExplainRequest,
    Explanation,
    Refused,
    Role,
    TaskColumn,
    Tasks,
    Withdrawn,
)
from scaler_scheduler.core import waits
from scaler_scheduler.core.effects import Send
from scaler_scheduler.core.fair_shares import Share, Shares
from scaler_scheduler.core.group_settings import named_counts, named_numbers
from scaler_scheduler.core.limits import GROUPS_LIMIT
from scaler_scheduler.core.snapshot import snapshot_of
from tests.unit.scheduler.playbook import FUNCTION, OTHER_FUNCTION, Peer, Playbook, handed, results, tasks
from tests.unit.scheduler.test_graphs import chain, done
from tests.unit.scheduler.test_nested import nested

# ---- shares alone ----------------------------------------------------------------------------------------------------


def served(shares: list[Share], durations: dict[Share, float], total_us: float) -> dict[Share, float]:
    """How much running time each gets of ``total_us`` when all have tasks all the time."""
    times = dict.fromkeys(shares, 0.0)
    while sum(times.values()) < total_us:
        first = shares[0]
        for each in shares[1:]:
            if each.precedes(first):
                first = each
        first.begin_turn()
        first.charge(durations[first])
        times[first] += durations[first]
    return times


def test_equal_shares_get_equal_time_whatever_their_tasks_take() -> None:
    group = Shares()
    long, short = group.join("g"), group.join("g")
    times = served([long, short], {long: 1000.0, short: 10.0}, 100_000.0)
    assert abs(times[long] - times[short]) <= 1000.0


def test_weights_divide_the_time_of_a_group_and_not_that_of_others() -> None:
    shares = Shares()
    heavy, light, other = shares.join("g", 3.0), shares.join("g", 1.0), shares.join("h", 0.5)
    times = served([heavy, light, other], dict.fromkeys((heavy, light, other), 10.0), 80_000.0)
    assert times == pytest.approx({heavy: 30_000, light: 10_000, other: 40_000}, abs=50)


def test_the_operator_weighs_groups() -> None:
    shares = Shares({"g": 3.0})
    one, two = shares.join("g"), shares.join("h")
    times = served([one, two], {one: 10.0, two: 10.0}, 40_000.0)
    assert times == pytest.approx({one: 30_000, two: 10_000}, abs=50)


def test_what_a_task_took_replaces_what_it_was_charged() -> None:
    shares = Shares()
    share = shares.join("g", 2.0)
    share.charge(5000.0)
    share.settle(5000.0, 100.0)
    assert (share.virtual_us, share.group.virtual_us, share.used_us) == (50.0, 100.0, 100.0)


def test_time_that_a_share_was_away_earns_nothing() -> None:
    shares = Shares()
    busy, late = shares.join("g"), shares.join("g")
    served([busy], {busy: 10.0}, 1000.0)
    late.lift(math.inf, busy.virtual_us)
    times = served([busy, late], {busy: 10.0, late: 10.0}, 1000.0)
    assert abs(times[busy] - times[late]) <= 10.0


def test_a_new_group_begins_where_others_were_served_last() -> None:
    shares = Shares()
    busy = shares.join("g")
    served([busy], {busy: 10.0}, 1000.0)
    assert shares.join("h").group.virtual_us == busy.group.virtual_us - 10.0


def test_a_group_goes_with_its_last_member() -> None:
    shares = Shares()
    one, two = shares.join("g"), shares.join("g")
    shares.check([one, two])
    shares.leave(one)
    assert list(shares.groups) == ["g"]
    shares.leave(two)
    assert not shares.groups


@pytest.mark.parametrize("text", ["g", "g=", "=2", "g=0", "g=nan", "g=inf", "g=-1", "g=x", "a\nb=1"])
def test_weights_that_cannot_be_read(text: str) -> None:
    with pytest.raises(ValueError, match="[Cc]annot|name|weight"):
        named_numbers(text)


def test_the_operators_settings() -> None:
    assert named_numbers("team/nightly=2, ci=0.5") == {"team/nightly": 2.0, "ci": 0.5}
    assert named_counts("team/nightly=4,") == {"team/nightly": 4}
    with pytest.raises(ValueError, match="Give at least 1"):
        named_counts("ci=0")
    with pytest.raises(ValueError, match="Cannot read the number"):
        named_counts("ci=1.5")


# ---- conversations ---------------------------------------------------------------------------------------------------


AHEAD_US = 40_000
"""The first client of an idle cluster was given this much before the others came."""


class Workers:
    """One agent that runs its tasks one after another, each for the time of its client, as long as it has any."""

    def __init__(self, book: Playbook, agent: Peer, clients: dict[Peer, int]) -> None:
        self.book, self.agent = book, agent
        self.by_session = {client.session: (client, us) for client, us in clients.items()}
        self.queue: list[tuple[Peer, int, int]] = []
        self.order: list[str] = []
        self.times = {client.name: 0 for client in clients}

    def take(self, said: list) -> None:
        for name, body in said:
            if name == self.agent.name:
                for run in getattr(body, "runs", ()):
                    client, us = self.by_session[run.session]
                    self.queue += [(client, run.first_task + index, us) for index in range(run.count)]

    def run(self, count: int) -> list[str]:
        """Run so many tasks; whose they were."""
        for _ in range(count):
            client, task, us = self.queue.pop(0)
            self.book.now += us / 1e6
            self.order.append(client.name)
            self.times[client.name] += us
            self.take(self.agent.says(results(client, task, duration_us=us)))
        return self.order[-count:]


def cluster(clients: dict[str, int], slots: int = 1, hellos: dict[str, dict] | None = None, **settings) -> Workers:
    """Clients, each with a function whose duration is known."""
    book = Playbook(**settings)
    agent = book.agent("agent", slots)
    peers = {book.client(name, **(hellos or {}).get(name, {})): us for name, us in clients.items()}
    workers = Workers(book, agent, peers)
    for client, us in peers.items():
        workers.take(client.says(tasks(client, 0, 1, function=function_of(us))))
        workers.run(1)
    workers.times = dict.fromkeys(clients, 0)
    return workers


def explanation(client: Peer, task: int) -> str:
    return next(body.text for _, body in client.says(ExplainRequest(task)) if isinstance(body, Explanation))


def function_of(us: int) -> bytes:
    return FUNCTION if us >= 10_000 else OTHER_FUNCTION


def submit(workers: Workers, name: str, count: int, **options) -> None:
    client, us = next(entry for entry in workers.by_session.values() if entry[0].name == name)
    first = workers.book.core.state.clients[client.session].table.columns.next_task
    workers.take(client.says(tasks(client, first, count, function=function_of(us), **options)))


def test_a_late_client_with_few_tasks_does_not_wait_for_a_queue() -> None:
    workers = cluster({"first": 10_000, "second": 10_000})
    submit(workers, "first", 1000)
    workers.run(5)
    submit(workers, "second", 3)
    ahead = len(workers.queue)
    assert workers.run(6 + ahead).count("second") == 3


def test_time_is_shared_and_not_the_number_of_tasks() -> None:
    workers = cluster({"long": 20_000, "short": 1000})
    submit(workers, "long", 500)
    submit(workers, "short", 5000)
    workers.run(1000)
    assert workers.times["long"] == pytest.approx(workers.times["short"], rel=0.1)


def test_a_hundred_clients_share_equally() -> None:
    names = [f"client {number}" for number in range(100)]
    workers = cluster(dict.fromkeys(names, 10_000), slots=2)
    for name in names:
        submit(workers, name, 10)
    workers.run(400)
    assert max(workers.times.values()) - min(workers.times.values()) <= 10_000 + AHEAD_US


def test_groups_share_equally_whatever_their_size() -> None:
    groups = {"a": {"group": "g"}, "b": {"group": "g"}, "c": {"group": "h"}}
    workers = cluster(dict.fromkeys(groups, 10_000), hellos=groups)
    for name in groups:
        submit(workers, name, 200)
    workers.run(100)
    assert workers.times["c"] == pytest.approx(500_000, abs=20_000)
    assert workers.times["a"] == pytest.approx(workers.times["b"], abs=AHEAD_US)


def test_tasks_with_capabilities_do_not_lock_others_out() -> None:
    """Tasks that need something and tasks that do not are in different queues, and may compete for the same agent."""
    book = Playbook()
    agent = book.agent("agent", 1, {"gpu": 9})
    one, two = book.client("one"), book.client("two")
    workers = Workers(book, agent, {one: 10_000, two: 10_000})
    workers.take(one.says(tasks(one, 0, 100)))
    workers.take(two.says(tasks(two, 0, 100, capabilities=(Capability("gpu", 1),))))
    workers.run(40)
    assert abs(workers.times["one"] - workers.times["two"]) <= 20_000


def test_priority_ranks_above_sharing() -> None:
    workers = cluster({"first": 10_000, "second": 10_000})
    submit(workers, "first", 50, priority=1)
    workers.run(2)
    submit(workers, "second", 5)
    assert "second" not in workers.run(40)


def test_aging_raises_what_has_waited() -> None:
    workers = cluster({"first": 10_000, "second": 10_000}, aging_seconds=0.1)
    submit(workers, "first", 500, priority=2)
    workers.run(2)
    submit(workers, "second", 5)
    assert "second" not in workers.run(15)
    assert workers.run(20).count("second") == 5
    assert workers.run(5) == ["first"] * 5


def priorities(said: list, client: Peer) -> dict[int, int]:
    """{task: priority} of all tasks of a client that were said to agents."""
    return {
        run.first_task + index: run.options.priority
        for _, body in said
        if isinstance(body, Tasks)
        for run in body.runs
        if run.session == client.session
        for index in range(run.count)
    }


class Aged:
    """An agent is busy with urgent tasks while the first client's graph waits for three steps of priority."""

    def __init__(self) -> None:
        self.book = Playbook(aging_seconds=1.0)
        self.agent = self.book.agent(slots=4)
        self.urgent, self.first, self.second = (self.book.client(name) for name in ("urgent", "first", "second"))
        self.running = handed(self.urgent.says(tasks(self.urgent, 0, 16, priority=9)), self.agent)
        assert len(self.running) == 8

    def wait(self) -> None:
        said = self.agent.says(results(self.urgent, self.running.pop(0)[0], duration_us=5000))
        self.running += handed(said, self.agent)
        self.book.wait(3.5, (self.agent,))

    def end_urgent(self) -> list:
        """End the urgent tasks: the others are assigned."""
        ended, self.running = self.running, []
        return self.agent.says(results(self.urgent, *(task for task, _ in ended), duration_us=5000))


def test_nodes_leave_with_the_priority_to_which_their_own_client_was_raised() -> None:
    aged = Aged()
    aged.first.says(*chain(aged.first, 2))
    aged.wait()
    aged.second.says(tasks(aged.second, 0, 1))
    said = aged.end_urgent()
    assert priorities(said, aged.second) == {0: 0}
    assert priorities(said, aged.first) == {1: 3, 2: 3}


def test_nodes_that_had_no_room_keep_the_priority_to_which_their_client_was_raised() -> None:
    aged = Aged()
    aged.first.says(*chain(aged.first, 30))
    aged.wait()
    given = priorities(aged.end_urgent(), aged.first)
    assert set(given.values()) == {3} and len(given) < 30
    given = priorities(aged.agent.says(done(aged.first, *given, duration_us=5000)), aged.first)
    assert given and set(given.values()) == {3}


def test_a_limited_group_leaves_workers_alone() -> None:
    workers = cluster({"limited": 10_000}, slots=4, hellos={"limited": {"group": "ci"}}, group_limits="ci=2")
    submit(workers, "limited", 10)
    assert len(workers.queue) == 2
    client = workers.queue[0][0]
    assert "uses the 2 workers that it may use" in explanation(client, 9)
    workers.run(3)
    assert len(workers.queue) == 2


def test_what_an_agent_returns_is_not_charged() -> None:
    workers = cluster({"first": 10_000})
    client = workers.book.peers[next(iter(workers.by_session))]
    share = workers.book.core.state.clients[client.session].table.columns.share
    before = share.virtual_us
    submit(workers, "first", 1)
    assert share.virtual_us == before + 10_000
    said = workers.agent.says(Withdrawn([TaskColumn(client.session, [1], [1])]))
    assert said and share.virtual_us == before + 10_000  # it was assigned again
    assert share.used_us == 10_000


def test_nested_clients_belong_to_the_share_of_their_root() -> None:
    book = Playbook()
    client, agent = book.client(group="g", weight=2.0), book.agent()
    client.says(tasks(client, 1, 1))
    child = nested(book, agent, client, 1)
    root, inner = (book.core.state.clients[peer.session].table.columns.share for peer in (client, child))
    assert root is inner and root.group.members == 2 and root.weight == 2.0


# ---- what clients ask for --------------------------------------------------------------------------------------------


def refusal(book: Playbook, **hello) -> str:
    peer = book._peer("refused", Role.SUBMIT)
    said = peer.connect(**hello)
    assert isinstance(said[0][1], Refused)
    return said[0][1].text


@pytest.mark.parametrize("weight", [1e-9, 1e9])
def test_a_weight_out_of_bounds_is_refused(weight: float) -> None:
    assert "A weight is a number from" in refusal(Playbook(), weight=weight)


@pytest.mark.parametrize("group", ["g" * 201, "a\nb", "\x1b[2J"])
def test_a_name_that_no_group_can_have_is_refused(group: str) -> None:
    assert "The name of a group" in refusal(Playbook(), group=group)


def test_the_number_of_groups_is_bounded() -> None:
    book = Playbook()
    book.client("first", group="g")
    for number in range(GROUPS_LIMIT):
        book.core.state.shares.join(f"group {number}")
    peer = book._peer("refused", Role.SUBMIT)
    book.deliver(peer, Envelope(peer.hello(group="one more")))
    effects = book.core.take_effects(book.now)
    bodies = [effect.envelope.body for effect in effects if isinstance(effect, Send)]
    assert any(isinstance(body, Refused) and "Join one of them" in body.text for body in bodies)


@pytest.mark.parametrize(
    ("group", "hint"),
    [
        ("team/nighty", "Is it 'team/nightly'?"),
        ("other", "See --group-weights and --group-limits."),
        ("ci", ""),
        ("", ""),
    ],
)
def test_a_group_that_the_operator_has_not_named_may_be_mistyped(group: str, hint: str) -> None:
    book = Playbook(group_weights="team/nightly=0.5", group_limits="ci=4")
    book.client(group=group)
    assert [text for text in book.logs if "joins the group" in text and text.endswith(hint)] == book.logs
    assert len(book.logs) == bool(hint)


def test_any_group_may_be_named_where_none_has_a_weight() -> None:
    book = Playbook()
    book.client(group="other")
    assert book.logs == []


def test_a_client_of_an_earlier_version_has_the_weight_of_one() -> None:
    book = Playbook()
    share = book.core.state.clients[book.client().session].table.columns.share
    assert (share.group.name, share.weight) == ("default", 1.0)


def test_monitors_and_explanations_show_the_share() -> None:
    workers = cluster({"first": 10_000, "second": 10_000}, hellos={"second": {"weight": 3.0}})
    book = workers.book
    submit(workers, "first", 100)
    submit(workers, "second", 100)
    rows = snapshot_of(book.core.state, book.now).clients
    assert [(row.group, row.weight, row.share) for row in rows] == [("default", 1.0, 0.25), ("default", 3.0, 0.75)]
    client = next(peer for peer in book.peers.values() if peer.name == "first")
    text = explanation(client, 90)
    assert "is due 25% of the running time" in text and "Queue position: 8" in text


def test_groups_of_waiting_tasks_name_the_share_and_who_is_ahead() -> None:
    workers = cluster({"first": 10_000, "second": 10_000}, hellos={"second": {"group": "beta"}})
    book = workers.book
    submit(workers, "first", 100)
    submit(workers, "second", 100)
    names = {shown_id(peer.session): peer.name for peer in book.peers.values()}
    places = {names[each.session]: each.place for each in snapshot_of(book.core.state, book.now).waits}
    assert places.keys() == {"first", "second"}
    assert all("is due 50% of the running time. Queue position: 1" in place for place in places.values())
    ahead = {name: shown.hex()[:8] for shown, name in names.items()}
    assert f"ahead are the clients {ahead['second']} (beta)." in places["first"]
    assert places["second"].endswith("no other client is ahead.")


def test_places_in_long_queues_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waits, "PLACES_LIMIT", 3)
    workers = cluster({"first": 10_000, "second": 10_000})
    submit(workers, "first", 100)
    submit(workers, "second", 100)
    groups = snapshot_of(workers.book.core.state, workers.book.now).waits
    assert [bool(each.place) for each in groups] == [True, False]


def test_a_client_alone_has_no_place_in_the_queue() -> None:
    workers = cluster({"first": 10_000})
    submit(workers, "first", 100)
    assert [each.place for each in snapshot_of(workers.book.core.state, workers.book.now).waits] == [""]
