"""Operators pause and drain agents, and cancel tasks of other clients."""

from __future__ import annotations

from dataclasses import replace

from scaler_protocol.messages import (
    PROTOCOL_MINOR,
    Cancel,
    ControlAction,
    ControlReply,
    ControlRequest,
    Drain,
    EndProcess,
    ExplainRequest,
    Explanation,
    Goodbye,
    Heartbeat,
    Results,
    Role,
    RunningTask,
    Status,
    TaskColumn,
    Tasks,
    Withdraw,
    Withdrawn,
)
from scaler_protocol.monitor.messages import PeerState
from scaler_scheduler.core import control, operator_cancels
from scaler_scheduler.core.action_rates import ACTIONS_LIMIT
from scaler_scheduler.core.snapshot import snapshot_of
from tests.unit.scheduler.playbook import (
    FUNCTION,
    OTHER_FUNCTION,
    Playbook,
    attach,
    definition,
    handed,
    results,
    run,
    statuses,
    tasks,
)
from tests.unit.scheduler.test_graphs import chain


def ask(client, action, target, value=0.0):
    """The reply to a request, and what else was said."""
    said = client.says(ControlRequest(7, action, target, value))
    replies = [body for name, body in said if name == client.name and isinstance(body, ControlReply)]
    assert len(replies) == 1 and replies[0].number == 7
    return replies[0], [each for each in said if each[1] is not replies[0]]


def refusal(client, action, target, value=0.0):
    reply, said = ask(client, action, target, value)
    assert not reply.accepted and said == []
    return reply.text


def give_key(book, peer, user):
    """The peer has connected with this key."""
    state = book.core.state
    (state.clients.get(peer.session) or state.agents[peer.session]).user = user


def state_of(book, agent):
    rows = book.core.snapshot(book.now).agents
    return next(row.state for row in rows if row.name == agent.name)


def test_a_paused_agent_gets_nothing_and_returns_what_it_has_not_started():
    book = Playbook()
    client, agent = book.client(), book.agent(slots=1)
    client.says(tasks(client, 1, 2))
    reply, said = ask(client, ControlAction.PAUSE, "agent")
    assert reply == ControlReply(7, True, "", ("agent",))
    assert [type(body) for _, body in said] == [Withdraw]
    assert agent.says(Withdrawn((TaskColumn(client.session, (2,), (1,)),))) == []
    assert handed(agent.says(results(client, 1)), agent) == []
    assert state_of(book, agent) is PeerState.PAUSED
    (host,) = {each.host for each in book.core.state.agents.values()}
    assert f"every worker that could run it is paused (1 on host {host})." in book.core.explain(client.session, 2)
    assert handed(ask(client, ControlAction.RESUME, "agent")[1], agent) == [(2, 2)]
    assert state_of(book, agent) is PeerState.CONNECTED


def agents_on_hosts(book, **slots):
    """An agent on each host, named like it."""
    for host, count in slots.items():
        peer = book._peer(host, Role.WORK)
        peer.connect()
        peer.says(replace(attach(host, count), host=host))


def test_explain_and_monitors_say_how_many_workers_are_paused_draining_and_silent():
    book = Playbook()
    agents_on_hosts(book, dead=3, gone=3)
    book.wait(6.5)
    client = book.client()
    agents_on_hosts(book, busy=1, rested=4, drained=2)
    ask(client, ControlAction.PAUSE, "rested")
    ask(client, ControlAction.DRAIN, "drained")
    client.says(tasks(client, 1, 2000))
    others = "Others are paused (4 on host rested), draining (2 on host drained) or silent (6 on 2 hosts)."
    text = book.core.explain(client.session, 2000)
    assert "is queued: the only worker that could run it is busy (" in text and f" tasks are queued). {others}" in text
    assert {f"The only worker that could run it is busy. {others}"} == {
        each.reason for each in book.core.snapshot(book.now).waits if each.task
    }
    ask(client, ControlAction.PAUSE, "busy")
    states = "paused (5 on 2 hosts), draining (2 on host drained) or silent (6 on 2 hosts)."
    assert f"every worker that could run it is {states}" in book.core.explain(client.session, 2000)
    assert {f"Every worker that could run it is {states}"} == {
        each.reason for each in book.core.snapshot(book.now).waits if each.task
    }


def test_an_agent_that_is_paused_while_another_takes_tasks_from_it_returns_the_rest():
    book = Playbook()
    client, busy = book.client(), book.agent("busy")
    client.says(tasks(client, 1, 1))
    busy.says(results(client, 1, duration_us=1000))
    client.says(tasks(client, 2, 5))
    idle = book.agent("idle")
    assert idle.joined == [("busy", Withdraw(1))]
    assert ask(client, ControlAction.PAUSE, "busy")[1] == []
    said = busy.says(withdrawn(client, 6))
    assert handed(said, idle) == [(6, 2)]
    assert [body.count > 1 for name, body in said if name == "busy"] == [True]


def withdrawn(client, task):
    return Withdrawn((TaskColumn(client.session, (task,), (1,)),))


def test_an_agent_is_named_by_its_host_and_by_its_workers():
    book = Playbook()
    client = book.client()
    book.agent("one")
    book.agent("two")
    assert ask(client, ControlAction.PAUSE, "host")[0].names == ("one", "two")
    assert ask(client, ControlAction.PAUSE, "two-0")[0].names == ("two",)


def test_answers_contain_nothing_that_a_terminal_obeys():
    """Operators print them."""
    book = Playbook()
    client = book.client()
    book.agent("evil\x1b]0;title\x07\n")
    assert ask(client, ControlAction.PAUSE, "host")[0].names == ("evil?]0;title??",)
    assert refusal(client, ControlAction.PAUSE, "none").endswith("The agents are evil?]0;title??.")


def test_an_explanation_contains_nothing_that_a_terminal_obeys():
    book = Playbook()
    client = book.client()
    book.agent("evil\x1b]0;title\x07\n")
    client.says(tasks(client, 1, 1))
    explained = [body.text for _, body in client.says(ExplainRequest(1)) if isinstance(body, Explanation)]
    assert len(explained) == 1 and "evil?]0;title??" in explained[0] and explained[0].isprintable()


def test_a_paused_agent_that_reconnects_stays_paused():
    book = Playbook()
    client, agent = book.client(), book.agent()
    ask(client, ControlAction.PAUSE, "agent")
    book.lose(agent)
    agent.connect()
    assert handed(client.says(tasks(client, 1, 1)), agent) == []


def test_a_drained_agent_is_told_to_leave():
    book = Playbook()
    client, agent = book.client(), book.agent()
    client.says(tasks(client, 1, 3))
    reply, said = ask(client, ControlAction.DRAIN, "agent")
    assert (reply.names, said) == (("agent",), [("agent", Drain())])
    agent.says(Withdrawn((TaskColumn(client.session, (2,), (1,)),), leaving=True))
    assert handed(agent.says(results(client, 1)), agent) == []
    agent.says(Goodbye())
    other = book.agent("other", slots=2)
    assert handed(other.joined, other) == [(2, 2), (3, 1)]


def test_monitors_see_that_an_agent_leaves():
    book = Playbook()
    client, ended = book.client(), book.agent("ended")
    book.agent("drained")
    ask(client, ControlAction.PAUSE, "drained")
    assert state_names_of(book) == {"drained": "paused", "ended": "connected"}
    ask(client, ControlAction.DRAIN, "drained")
    ended.says(Withdrawn((), leaving=True))
    assert state_names_of(book) == {"drained": "draining", "ended": "draining"}


def state_names_of(book):
    return {row.name: row.state_name for row in book.core.snapshot(book.now).agents}


def test_an_agent_that_leaves_cannot_be_resumed():
    book = Playbook()
    client, leaving, paused = book.client(), book.agent("leaving"), book.agent("paused")
    ask(client, ControlAction.PAUSE, paused.name)
    ask(client, ControlAction.DRAIN, leaving.name)
    client.says(tasks(client, 1, 2))
    assert refusal(client, ControlAction.RESUME, "leaving") == (
        "Cannot resume 'leaving': it is draining, and leaves when its running tasks have ended."
    )
    assert state_names_of(book) == {"leaving": "draining", "paused": "paused"}


def test_an_agent_that_is_too_old_cannot_be_drained(monkeypatch):
    monkeypatch.setattr(control, "CONTROL_SINCE_MINOR", PROTOCOL_MINOR + 1)
    book = Playbook()
    client, agent = book.client(), book.agent()
    assert refusal(client, ControlAction.DRAIN, "agent") == (
        "Cannot drain 'agent': agent is too old for this. Update scaler-worker there."
    )
    assert state_of(book, agent) is PeerState.CONNECTED


def test_a_name_that_nothing_has_is_refused():
    book = Playbook()
    client = book.client()
    assert refusal(client, ControlAction.PAUSE, "x").endswith("has this name. No agent is connected.")
    book.agent("one")
    assert refusal(client, ControlAction.RESUME, "x").endswith("has this name. The agents are one.")
    assert "no task has a function with this name" in refusal(client, ControlAction.CANCEL_FUNCTION, "x")
    assert "no client has an id that begins so" in refusal(client, ControlAction.CANCEL_CLIENT, "abcd")
    assert "no client has" in refusal(client, ControlAction.CANCEL_CLIENT, "")


def test_the_tasks_of_a_client_are_cancelled():
    book = Playbook()
    client, other, agent = book.client(), book.client("other"), book.agent()
    other.says(tasks(other, 1, 3))
    reply, said = ask(client, ControlAction.CANCEL_CLIENT, other.session.hex()[:8])
    assert (reply.accepted, reply.count) == (True, 3)
    assert ("agent", Cancel((TaskColumn(other.session, (1, 2), (1, 1)),))) in said
    assert statuses(said, other) == {3: Status.CANCELLED}
    assert handed(agent.says(results(other, (1, 1, Status.CANCELLED, b""), (2, 1, Status.CANCELLED, b""))), agent) == []
    assert ask(client, ControlAction.CANCEL_CLIENT, other.session.hex())[0].count == 0


def test_a_client_is_told_who_cancels_its_tasks_before_they_end():
    book = Playbook()
    client, other, _ = book.client(host="vm-3", pid=7, program="night\x1b[2J"), book.client("other"), book.agent()
    other.says(tasks(other, 1, 3))
    name = other.session.hex()[:8]
    for action, target, numbers, what in (
        (ControlAction.CANCEL_TASK, f"{name}/2", (2,), "this task"),
        (ControlAction.CANCEL_FUNCTION, "f", (1, 3), "all tasks of function f"),
    ):
        said = ask(client, action, target)[1]
        reason = f"An operator has cancelled {what}: a user on vm-3 (pid 7), with night?[2J."
        told = [body for to, body in said if to == "other"]
        assert told[0] == Cancel((TaskColumn(other.session, numbers),), reason=reason)
    assert type(told[1]) is Results


def test_a_client_is_told_in_messages_that_are_not_too_large(monkeypatch):
    monkeypatch.setattr(operator_cancels, "CANCELS_PER_MESSAGE", 2)
    book = Playbook()
    client, other = book.client(), book.client("other")
    give_key(book, client, b"admin:alice:A")
    other.says(tasks(other, 1, 3))
    said = ask(client, ControlAction.CANCEL_CLIENT, other.session.hex())[1]
    told = [body for to, body in said if to == "other" and isinstance(body, Cancel)]
    assert [column.tasks for body in told for column in body.columns] == [(1, 2), (3,)]
    assert {body.reason.split(" on ")[0] for body in told} == {
        "An operator has cancelled all tasks of this client: admin-alice"
    }


def test_an_older_client_is_not_told(monkeypatch):
    monkeypatch.setattr(operator_cancels, "CANCEL_REASONS_SINCE_MINOR", PROTOCOL_MINOR + 1)
    book = Playbook()
    client = book.client()
    client.says(tasks(client, 1, 1))
    said = ask(client, ControlAction.CANCEL_FUNCTION, "f")[1]
    assert statuses(said, client) == {1: Status.CANCELLED} and not any(isinstance(body, Cancel) for _, body in said)


def test_the_tasks_of_a_function_are_cancelled_for_all_clients():
    book = Playbook()
    client, other = book.client(), book.client("other")
    client.says(tasks(client, 1, 2))
    other.says(tasks(other, 1, 2))
    reply, said = ask(client, ControlAction.CANCEL_FUNCTION, "f")
    assert reply.count == 4
    assert statuses(said, client) == statuses(said, other) == {1: Status.CANCELLED, 2: Status.CANCELLED}


def test_with_keys_only_administrators_control_what_is_not_theirs():
    book = Playbook()
    client, other = book.client(), book.client("other")
    book.agent()
    give_key(book, client, b"submit:alice:A")
    give_key(book, other, b"submit:bob:B")
    other.says(tasks(other, 1, 1))
    for action in (ControlAction.PAUSE, ControlAction.RESUME, ControlAction.DRAIN):
        assert refusal(client, action, "agent").endswith("this client's key does not permit it. Use admin.key.")
    assert "does not permit it" in refusal(client, ControlAction.CANCEL_CLIENT, other.session.hex())
    assert "does not permit it" in refusal(client, ControlAction.CANCEL_FUNCTION, "f")
    client.says(tasks(client, 1, 2))
    assert ask(client, ControlAction.CANCEL_FUNCTION, "f")[0].count == 2
    assert ask(other, ControlAction.CANCEL_FUNCTION, "f")[0].count == 1
    give_key(book, client, b"admin:root:R")
    assert ask(client, ControlAction.PAUSE, "agent")[0].accepted
    assert any(line.endswith("with the key admin-root: pause 'agent': agent") for line in book.logs)


def test_a_client_inside_a_task_cannot_cancel_tasks_of_others():
    book = Playbook()
    other, agent = book.client(), book.agent(slots=2)
    give_key(book, agent, b"work::W")
    give_key(book, other, b"submit:bob:B")
    other.says(tasks(other, 1, 2))
    place = {"parent_session": other.session, "parent_attempt": 1}
    one = book.client("one", agent, parent_task=1, **place)
    two = book.client("two", agent, parent_task=2, **place)
    two.says(tasks(two, 1, 1))
    assert "does not permit it" in refusal(one, ControlAction.CANCEL_CLIENT, two.session.hex())
    assert "does not permit it" in refusal(one, ControlAction.CANCEL_CLIENT, other.session.hex())
    assert ask(other, ControlAction.CANCEL_CLIENT, two.session.hex())[0].count == 1


def test_an_action_that_the_scheduler_does_not_know_is_refused():
    book = Playbook()
    client = book.client()
    assert "does not know this action" in refusal(client, 77, "agent")


def test_one_task_of_a_client_is_cancelled():
    book = Playbook()
    client, other = book.client(), book.client("other")
    other.says(tasks(other, 1, 3))
    name = other.session.hex()[:8]
    reply, said = ask(client, ControlAction.CANCEL_TASK, f"{name}/2")
    assert (reply.count, statuses(said, other)) == (1, {2: Status.CANCELLED})
    assert "has ended, or was never submitted" in refusal(client, ControlAction.CANCEL_TASK, f"{name}/2")
    for wrong in (name, f"{name}/x", f"{name}/-1", f"{name}/{'9' * 30}", "/1", "\u0663/1"):
        assert refusal(client, ControlAction.CANCEL_TASK, wrong).startswith("Cannot cancel task ")


def test_a_graph_is_cancelled_and_other_tasks_of_its_client_are_not():
    book = Playbook()
    client, other = book.client(), book.client("other")
    other.says(tasks(other, 1, 1))
    for node in chain(other, 3, 2):
        other.says(node)
    name = other.session.hex()
    reply, said = ask(client, ControlAction.CANCEL_GRAPH, f"{name}/4")
    assert reply.count == 3
    assert statuses(said, other)[4] == Status.CANCELLED and 1 not in statuses(said, other)
    assert "has ended, or was never submitted" in refusal(client, ControlAction.CANCEL_GRAPH, f"{name}/4")


def test_a_worker_process_is_killed_or_restarted():
    book = Playbook()
    client = book.client()
    book.agent()
    assert ask(client, ControlAction.KILL_WORKER, "agent-0")[1] == [("agent", EndProcess("agent-0", True))]
    assert ask(client, ControlAction.RESTART_WORKER, "agent-0")[1] == [("agent", EndProcess("agent-0", False))]
    assert "no worker has this name" in refusal(client, ControlAction.KILL_WORKER, "agent")


def test_the_process_of_a_nested_task_that_runs_is_killed_by_its_name():
    book = Playbook()
    client, agent = book.client(), book.agent()
    workers = len(book.core.state.agents[agent.session].worker_names)
    assert "no worker has this name" in refusal(client, ControlAction.KILL_WORKER, "agent nested 2")
    running = RunningTask(client.session, 1, 1, workers + 1, 7, 0.0, 0.0, 0.0, 0, False)
    agent.says(Heartbeat(50.0, 0.0, 0.0, 0, 0, 0, (), (running,)))
    said = ask(client, ControlAction.KILL_WORKER, "agent nested 2")[1]
    assert said == [("agent", EndProcess("agent nested 2", True))]
    assert "no worker has this name" in refusal(client, ControlAction.KILL_WORKER, "agent nested 1")


def test_a_weight_changes_the_share():
    book = Playbook()
    client, other = book.client(), book.client("other", group="ci")
    name = other.session.hex()
    assert ask(client, ControlAction.SET_CLIENT_WEIGHT, name, 4.0)[0].names == (name[:8],)
    assert ask(client, ControlAction.SET_GROUP_WEIGHT, "ci", 0.5)[0].names == ("ci",)
    share = book.core.state.clients[other.session].table.columns.share
    assert (share.weight, share.group.weight) == (4.0, 0.5)
    for wrong in (0.0, -1.0, float("nan"), float("inf"), 1e9):
        assert "A weight is a number" in refusal(client, ControlAction.SET_CLIENT_WEIGHT, name, wrong)
        assert "A weight is a number" in refusal(client, ControlAction.SET_GROUP_WEIGHT, "ci", wrong)
    assert "no client is in a group" in refusal(client, ControlAction.SET_GROUP_WEIGHT, "x", 1.0)


def test_monitors_get_the_weights_and_limits_that_operators_have_set():
    book = Playbook(group_weights="ci=3", group_limits="ci=2")
    client, other = book.client(), book.client("other", group="ci", weight=0.5)
    agent = book.agent()
    other.says(tasks(other, 1, 1))
    nested = book.client("nested", via=agent, parent_session=other.session, parent_task=1, parent_attempt=1)

    def shown():
        snapshot = snapshot_of(book.core.state, book.now)
        weights = {each.session[:4]: (each.weight, each.asked_weight) for each in snapshot.clients}
        groups = {each.name: (each.weight, each.worker_limit) for each in snapshot.groups}
        return [weights[peer.session[:4]] for peer in (client, other, nested)], groups

    assert shown() == ([(1.0, 1.0), (0.5, 0.5), (0.5, 0.5)], {"default": (1.0, 0), "ci": (3.0, 2)})
    ask(client, ControlAction.SET_CLIENT_WEIGHT, other.session.hex(), 4.0)
    ask(client, ControlAction.SET_GROUP_WEIGHT, "default", 2.0)
    ask(client, ControlAction.SET_GROUP_LIMIT, "ci", 5.0)
    assert shown() == ([(1.0, 1.0), (4.0, 0.5), (4.0, 0.5)], {"default": (2.0, 0), "ci": (3.0, 5)})


def test_a_raised_limit_lets_a_group_use_more_workers_at_once():
    book = Playbook()
    client, agent = book.client(), book.agent(slots=4)
    assert ask(client, ControlAction.SET_GROUP_LIMIT, "default", 1.0)[0].accepted
    assert handed(client.says(tasks(client, 1, 3)), agent) == [(1, 1)]
    assert handed(ask(client, ControlAction.SET_GROUP_LIMIT, "default", 0.0)[1], agent) == [(2, 1), (3, 1)]
    for wrong in (-1.0, 1.5, float("nan"), 1e18):
        assert "ive a whole number" in refusal(client, ControlAction.SET_GROUP_LIMIT, "default", wrong)


def test_waiting_tasks_get_another_priority():
    book = Playbook()
    first, second, agent = book.client(), book.client("second"), book.agent(slots=1)
    first.says(tasks(first, 1, 1))
    first.says(tasks(first, 2, 3))
    second.says(tasks(second, 1, 1))
    assert ask(first, ControlAction.SET_CLIENT_PRIORITY, second.session.hex(), 5.0)[0].count >= 1
    book.core.check()
    said = agent.says(results(first, 1))
    runs = [run for name, body in said if name == "agent" and isinstance(body, Tasks) for run in body.runs]
    assert (runs[0].session, runs[0].options.priority) == (second.session, 5)
    assert ask(first, ControlAction.SET_FUNCTION_PRIORITY, "f", -3.0)[0].accepted
    book.core.check()
    assert "no task has a function" in refusal(first, ControlAction.SET_FUNCTION_PRIORITY, "nothing", 1.0)
    for wrong in (1.5, float("nan"), float("-inf"), 1e12):
        assert "ive a whole number" in refusal(first, ControlAction.SET_CLIENT_PRIORITY, first.session.hex(), wrong)


def test_a_function_is_named_with_or_without_its_module():
    book = Playbook()
    client = book.client()
    for first, function, module in (1, FUNCTION, "pricing"), (11, OTHER_FUNCTION, "risk"):
        client.says(Tasks([run(client, first, 10, function=function)], [replace(definition(function), module=module)]))
    assert ask(client, ControlAction.SET_FUNCTION_PRIORITY, "risk.f", 3.0)[0].count == 10
    assert ask(client, ControlAction.CANCEL_FUNCTION, "risk.f")[0].count == 10
    assert ask(client, ControlAction.CANCEL_FUNCTION, "f")[0].count == 10
    assert "no task has a function" in refusal(client, ControlAction.CANCEL_FUNCTION, "other.f")
    book.core.check()


def test_only_administrators_set_values_and_end_processes():
    book = Playbook()
    client = book.client()
    book.agent()
    give_key(book, client, b"submit:alice:A")
    targets = {
        ControlAction.KILL_WORKER: "agent-0",
        ControlAction.RESTART_WORKER: "agent-0",
        ControlAction.SET_CLIENT_WEIGHT: client.session.hex(),
        ControlAction.SET_GROUP_WEIGHT: "default",
        ControlAction.SET_GROUP_LIMIT: "default",
        ControlAction.SET_CLIENT_PRIORITY: client.session.hex(),
        ControlAction.SET_FUNCTION_PRIORITY: "f",
    }
    for action, target in targets.items():
        assert "does not permit it. Use admin.key" in refusal(client, action, target, 1.0)


def test_actions_are_recorded_with_the_name_of_the_user():
    book = Playbook()
    client = book.client()
    book.agent()
    ask(client, ControlAction.PAUSE, "agent")
    give_key(book, client, b"admin:root:R")
    ask(client, ControlAction.SET_GROUP_LIMIT, "default", 3.0)
    refusal(client, ControlAction.PAUSE, "nothing")
    found = [(each.user, each.action, each.target, each.value, each.names) for each in book.audits]
    assert found == [
        ("", "pause", "agent", 0.0, ("agent",)),
        ("admin-root", "set group limit", "default", 3.0, ("default",)),
    ]


def test_a_client_asks_for_few_actions_in_a_second():
    """Each is written to the log and to the audit log."""
    book = Playbook()
    client, other = book.client(), book.client("other")
    for _ in range(ACTIONS_LIMIT):
        assert ask(client, ControlAction.CANCEL_CLIENT, client.session.hex())[0].accepted
    assert "in a second" in refusal(client, ControlAction.CANCEL_CLIENT, client.session.hex())
    assert len(book.audits) == ACTIONS_LIMIT
    assert ask(other, ControlAction.CANCEL_CLIENT, other.session.hex())[0].accepted
    book.wait(1.0)
    assert ask(client, ControlAction.CANCEL_CLIENT, client.session.hex())[0].accepted
