"""Worker managers report to the scheduler and get orders."""

from __future__ import annotations

from scaler_protocol.messages import (
    UNLIMITED_AMOUNT,
    AgentAttach,
    Capability,
    Drain,
    Goodbye,
    KeepValues,
    Leaving,
    ManagerOrder,
    ManagerReport,
    MayLeave,
    ObjectKey,
    ObjectRelease,
    ObjectStored,
    Refused,
    Role,
    ShutdownRequest,
    Status,
    Stop,
    StoreAttached,
    StoreStatus,
    Tasks,
    Withdrawn,
)
from scaler_scheduler.core import draining, managers
from scaler_scheduler.core.settings import ATTACH_SECONDS
from tests.unit.scheduler.playbook import Playbook, results, tasks

LARGE = (10**6).to_bytes(8, "little")


def manager(book, name="cloud", peer=None):
    found = book._peer(peer or name, Role.WORK)
    assert found.connect() == []
    return found


def report(name="cloud", minimum=0, maximum=8, **values):
    given = {"cost_per_worker_hour": 1.0, "target_seconds": 60.0, "cool_down_seconds": 0.0}
    return ManagerReport(name, minimum=minimum, maximum=maximum, **{"capabilities": (), **given, **values})


def order(peer, body):
    """What the manager is told to run."""
    orders = [said.workers for name, said in peer.says(body) if name == peer.name and isinstance(said, ManagerOrder)]
    assert len(orders) == 1
    return orders[0]


def joined(book, name, slots=1):
    """An agent that the manager ``cloud`` has started."""
    peer = book._peer(name, Role.WORK)
    assert peer.connect() == []
    names = tuple(f"{name}-{slot}" for slot in range(slots))
    peer.says(AgentAttach(name, "host", 1, names, manager="cloud"))
    return peer


def test_lines_about_managers_name_them():
    book = Playbook()
    leaving, lost = manager(book, "cloud"), manager(book, "night")
    leaving.says(report("cloud"))
    lost.says(report("night"))
    leaving.says(Goodbye())
    book.lose(lost)
    book.wait(ATTACH_SECONDS + 1)
    assert [line for line in book.logs if line.endswith((" left", " is lost"))] == [
        "Worker manager cloud left",
        "Worker manager night is lost",
    ]


def test_a_manager_is_told_how_many_workers_the_tasks_need():
    book = Playbook()
    client, cloud = book.client(), manager(book)
    assert order(cloud, report()) == 0
    client.says(tasks(client, 1, 99))
    assert order(cloud, report()) == 1  # nothing is known of the function: its tasks are taken for short ones
    assert order(cloud, report(minimum=3)) == 3
    assert any("Worker manager cloud joined" in line for line in book.logs)


def test_long_tasks_need_a_worker_each():
    book = Playbook()
    client, agent = book.client(), book.agent(slots=1)
    client.says(tasks(client, 1, 1))
    book.wait(1.0, (agent,))
    agent.says(results(client, 1, duration_us=600_000_000))
    client.says(tasks(client, 2, 6))
    assert order(manager(book), report()) == 5  # the agent has one of the six


def test_an_agent_without_tasks_is_drained_when_it_is_not_needed():
    book = Playbook()
    cloud, worker = manager(book), joined(book, "worker")
    assert (worker.name, Drain()) in cloud.says(report(running=1))
    assert (worker.name, Drain()) not in cloud.says(report(running=1))


def test_an_agent_with_tasks_and_those_of_others_are_not_drained():
    book = Playbook()
    client, cloud, worker = book.client(), manager(book), joined(book, "worker")
    client.says(tasks(client, 1, 1))
    other = book.agent("other")
    assert [each for each in cloud.says(report(running=1)) if each[1] == Drain()] == []
    worker.says(results(client, 1))
    assert [each for each in cloud.says(report(running=1)) if each[1] == Drain()] == [(worker.name, Drain())]
    assert other.says() == []


def test_an_agent_that_holds_a_result_stays_until_the_client_has_it():
    book = Playbook()
    client, cloud, worker = book.client(), manager(book), joined(book, "worker")
    client.says(tasks(client, 1, 1))
    worker.says(results(client, (1, 1, Status.SUCCESS_LARGE, (10**6).to_bytes(8, "little"))))
    assert (worker.name, Drain()) not in cloud.says(report(running=1))
    client.says(ObjectRelease((ObjectKey(client.session, 1),)))
    assert (worker.name, Drain()) in cloud.says(report(running=1))


def test_an_agent_that_holds_a_result_stays_even_if_another_shares_the_store():
    book = Playbook()
    client, cloud = book.client(), manager(book)
    peers = [joined(book, "one"), joined(book, "two")]
    for peer in peers:
        peer.says(StoreAttached(b"s" * 16, "tcp://host:1"))
    sent = [name for name, body in client.says(tasks(client, 1, 1)) if isinstance(body, Tasks)]
    [holder] = [peer for peer in peers if peer.name in sent]
    holder.says(results(client, (1, 1, Status.SUCCESS_LARGE, (10**6).to_bytes(8, "little"))))
    drained = [name for name, body in cloud.says(report(running=2)) if body == Drain()]
    assert drained == [peer.name for peer in peers if peer is not holder]


def drained(said):
    return [name for name, body in said if body == Drain()]


def with_values(*counts):
    """A manager and its agents, which hold so many results of a client."""
    book = Playbook()
    client, cloud = book.client(), manager(book)
    peers = [joined(book, f"agent {number}") for number in range(len(counts))]
    first = 1
    for peer, count in zip(peers, counts, strict=True):
        state = book.core.state.agents[peer.session]
        others = [each for each in book.core.state.agents.values() if each.attached and each is not state]
        for each in others:
            each.is_paused = True
            book.core.state.placement.offer(each)
        for task in range(first, first + count):
            client.says(tasks(client, task, 1))
            peer.says(results(client, (task, 1, Status.SUCCESS_LARGE, LARGE)))
        first += count
        for each in others:
            each.is_paused = False
            book.core.state.placement.offer(each)
    assert list(draining.count_values(book.core.state))[-len(counts) :] == list(counts)
    return book, client, cloud, peers


def test_agents_without_values_are_drained_first_and_the_last_one_with_values_stays():
    book, client, cloud, peers = with_values(3, 0, 1)
    assert drained(cloud.says(report(running=3))) == ["agent 1", "agent 2"]
    said = peers[2].says(Withdrawn((), leaving=True), Leaving())
    assert said == [("agent 0", KeepValues((ObjectKey(client.session, 4),)))]
    assert peers[0].says(ObjectStored(ObjectKey(client.session, 4), 0, bytes(16))) == [("agent 2", MayLeave())]
    peers[2].says(Goodbye()), peers[1].says(Goodbye())
    book.wait(1.0, (cloud, peers[0]))
    assert drained(cloud.says(report(running=1))) == []
    [shown] = [each.value for each in book.core.snapshot(book.now).settings if each.name == "worker manager cloud"]
    assert shown.endswith("Jobs that stay because no other worker can keep their results: 1.")
    client.says(ObjectRelease(tuple(ObjectKey(client.session, task) for task in range(1, 5))))
    assert drained(cloud.says(report(running=1))) == ["agent 0"]


def test_values_of_one_agent_move_at_a_time():
    book, client, cloud, peers = with_values(3, 1, 2)
    assert drained(cloud.says(report(running=3))) == ["agent 1"]
    assert drained(cloud.says(report(running=3))) == [], "the values of the first one have not moved"
    peers[1].says(Withdrawn((), leaving=True), Leaving())
    peers[0].says(ObjectStored(ObjectKey(client.session, 4), 0, bytes(16)))
    assert drained(cloud.says(report(running=2))) == ["agent 2"]


def test_an_agent_with_values_stays_while_no_other_has_room_for_them():
    book, client, cloud, peers = with_values(1, 2)
    for peer in peers:
        store = peer.name.encode().ljust(16)
        peer.says(StoreAttached(store, "tcp://host:1"))
        peer.says(StoreStatus(store, 1, "tcp://host:1", 3, 1 << 20, 1, 1 << 20, 0, 0, 0, 0))
    assert drained(cloud.says(report(running=2))) == []
    store = peers[1].name.encode().ljust(16)
    peers[1].says(StoreStatus(store, 1, "tcp://host:1", 3, 1, 1, 1 << 30, 0, 0, 0, 0))
    assert drained(cloud.says(report(running=2))) == ["agent 0"]


def test_agents_whose_values_fit_nowhere_do_not_keep_others_from_leaving():
    others = managers.HOLDERS_LIMIT
    book, client, cloud, peers = with_values(*[1] * others, 2)
    for peer in peers:
        store = peer.name.encode().ljust(16)
        full, used_bytes = (0, 1 << 20) if peer is not peers[-1] else (1, 1)
        peer.says(StoreAttached(store, "tcp://host:1"))
        peer.says(StoreStatus(store, 1, "tcp://host:1", 3, used_bytes, 1, used_bytes + full, 0, 0, 0, 0))
    assert draining.can_move(book.core.state, book.core.state.agents[peers[-1].session]) is False
    own = book.agent("own")
    own.says(StoreAttached(b"own".ljust(16), "tcp://host:1"))
    own.says(StoreStatus(b"own".ljust(16), 1, "tcp://host:1", 0, 0, 0, 10, 0, 0, 0, 0))
    assert drained(cloud.says(report(running=others + 1))) == []
    assert drained(cloud.says(report(running=others + 1))) == [peers[-1].name]


def test_an_agent_that_never_leaves_does_not_keep_others_from_leaving():
    book, client, cloud, peers = with_values(3, 1, 2)
    assert drained(cloud.says(report(running=3))) == ["agent 1"]
    book.wait(draining.PATIENCE_SECONDS - 1.0, (cloud, *peers))
    assert drained(cloud.says(report(running=3))) == []
    book.wait(2.0, (cloud, *peers))
    assert drained(cloud.says(report(running=3))) == ["agent 2"]


def test_an_agent_that_may_leave_and_stays_does_not_keep_others_from_leaving():
    book, client, cloud, peers = with_values(3, 1, 2)
    assert drained(cloud.says(report(running=3))) == ["agent 1"]
    assert peers[1].says(Withdrawn((), leaving=True), Leaving()) == [
        ("agent 0", KeepValues((ObjectKey(client.session, 4),)))
    ]
    said = book.wait(draining.PATIENCE_SECONDS + 1.0, (cloud, *peers))
    assert ("agent 1", MayLeave()) in said
    assert drained(cloud.says(report(running=3))) == ["agent 2"]


def test_workers_that_no_manager_has_started_keep_the_values():
    book, client, cloud, peers = with_values(1, 5)
    book.agent("own")
    assert drained(cloud.says(report(running=2))) == ["agent 0"]
    said = peers[0].says(Withdrawn((), leaving=True), Leaving())
    assert said == [("own", KeepValues((ObjectKey(client.session, 1),)))]


def test_an_agent_whose_store_has_objects_that_are_no_values_is_drained():
    """Their clients have them."""
    book = Playbook()
    cloud, worker = manager(book), joined(book, "worker")
    worker.says(StoreAttached(b"s" * 16, "tcp://host:1"))
    worker.says(StoreStatus(b"s" * 16, 1, "tcp://host:1", 3, 1, 1, 1, 0, 0, 0, 0))
    assert drained(cloud.says(report(running=1))) == ["worker"]


def test_workers_stay_for_the_cool_down_time():
    book = Playbook()
    client, cloud, worker = book.client(), manager(book), joined(book, "worker")
    client.says(tasks(client, 1, 2))
    assert order(cloud, report(running=1, cool_down_seconds=20.0)) == 1
    worker.says(results(client, 1))
    worker.says(results(client, 2))
    book.wait(10.0, (cloud, worker))
    assert order(cloud, report(running=1, cool_down_seconds=20.0)) == 1
    book.wait(20.0, (cloud, worker))
    assert (worker.name, Drain()) in cloud.says(report(running=1, cool_down_seconds=20.0))


def test_a_second_manager_of_a_name_is_refused_when_the_first_reports():
    book = Playbook()
    first, second = manager(book), manager(book, peer="second")
    assert order(first, report()) == 0
    assert second.says(report()) == []
    assert any("A second worker manager cloud has joined" in line for line in book.logs)
    book.wait(0.5, (first, second))
    assert order(first, report()) == 0
    book.wait(0.5, (first, second))
    (_, refused), *_ = second.says(report())
    assert isinstance(refused, Refused) and "Give this one another --name" in refused.text
    assert order(first, report()) == 0


def test_the_next_manager_of_a_name_waits_while_a_silent_one_may_live():
    """As after the loss of the first one's host, which closes no connection."""
    book = Playbook()
    first, second = manager(book), manager(book, peer="second")
    assert order(first, report()) == 0
    for _ in range(2):
        assert second.says(report()) == []
        book.wait(1.0, (second,))
    book.wait(managers.SILENCE_SECONDS - 2.0, (second,))
    assert order(second, report()) == 0
    first.says(report())
    order(second, report())
    book.wait(1.0, (first, second))
    order(second, report())
    (_, refused), *_ = first.says(report())
    assert isinstance(refused, Refused) and "Give this one another --name" in refused.text


def test_claims_of_managers_that_are_gone_are_forgotten():
    book = Playbook()
    first = manager(book)
    order(first, report())
    for number in range(3):
        rival = manager(book, peer=f"rival{number}")
        assert rival.says(report()) == []
        rival.says(Goodbye())
    [claims] = [each.manager.claims for each in book.core.state.agents.values() if each.manager is not None]
    assert len(claims) == 1


def test_a_report_that_makes_no_sense_ends_the_session():
    for wrong in (
        {"minimum": 9},
        {"target_seconds": 0.0},
        {"cool_down_seconds": -1.0},
        {"maximum": 10**6},
        {"name": ""},
    ):
        book = Playbook()
        cloud = manager(book)
        said = cloud.says(report(**wrong))
        assert [type(body) for _, body in said] == [Refused], wrong
        assert book.core.state.agents == {}


def test_a_manager_is_not_an_agent():
    book = Playbook()
    client, cloud = book.client(), manager(book)
    assert order(cloud, report()) == 0
    cloud.says(AgentAttach("cloud", "host", 1, ("worker",)))
    assert client.says(tasks(client, 1, 1)) == []
    assert book.core.snapshot(book.now).agents == ()


def test_an_idle_manager_is_kept_and_is_told_of_the_shutdown():
    book = Playbook(protected=False)
    cloud = manager(book)
    order(cloud, report())
    for _ in range(5):
        book.wait(1.0)
        order(cloud, report())
    client = book.client()
    assert (cloud.name, Stop()) in client.says(ShutdownRequest())


def shown(book):
    settings = book.core.snapshot(book.now).settings
    return {each.name: each.value for each in settings if each.name.startswith("worker manager ")}


def test_a_manager_with_a_number_of_its_own_only_reports():
    book = Playbook()
    client, fixed, cloud = book.client(), manager(book, "fixed"), manager(book)
    assert order(fixed, report(name="fixed", maximum=0, starting=1, reasons=("No host.", "No key."))) == 0
    assert order(cloud, report()) == 0
    client.says(tasks(client, 1, 1))
    assert order(cloud, report()) == 1, "its workers are those of its agents"
    assert shown(book)["worker manager fixed"] == "0 running, 1 starting."
    assert shown(book)["worker manager fixed (2)"] == "No key."


def test_monitors_and_explain_tell_what_managers_do():
    book = Playbook()
    client, cloud = book.client(), manager(book)
    client.says(tasks(client, 1, 1))
    order(cloud, report(starting=2, reasons=("The quota is used up.",)))
    assert shown(book) == {
        "worker manager cloud": "0 running, 2 starting, 1 wanted (0 to 8).",
        "worker manager cloud (1)": "The quota is used up.",
    }
    assert book.core.explain(client.session, 1).endswith(
        "no worker is connected. 2 workers are starting. Worker manager cloud: The quota is used up."
    )
    order(cloud, report(starting=1, reasons=("1 worker is starting.",)))
    assert book.core.explain(client.session, 1).endswith("no worker is connected. 1 worker is starting.")


def test_explain_tells_that_no_manager_offers_what_a_task_needs():
    book = Playbook()
    client, cloud = book.client(), manager(book)
    client.says(tasks(client, 1, 1, capabilities=(Capability("gpu", 2),)))
    gpu = (Capability("gpu", 1), Capability("linux", UNLIMITED_AMOUNT))
    order(cloud, report(starting=1, reasons=("The quota is used up.",), capabilities=gpu))
    for name in ("night", *(f"other{number}" for number in range(3))):
        order(manager(book, name), report(name))
    advice = (
        "No worker manager offers gpu=2, so none starts workers for it: cloud offers gpu=1, linux; night offers none; "
        "other0 offers none; and 2 others. Start a worker manager, or workers, with --per-worker-capabilities gpu=2."
    )
    assert book.core.explain(client.session, 1).endswith(f"no worker is connected. {advice}")
    book.agent("plain")
    said = f"no connected worker has the capabilities it needs (gpu=2). {advice}"
    assert book.core.explain(client.session, 1).endswith(said)
    order(cloud, report(starting=1, capabilities=(Capability("gpu", 4),)))
    order(manager(book, "plain-too"), report("plain-too", starting=7, reasons=("Others wait.",)))
    assert book.core.explain(client.session, 1).endswith("(gpu=2). 1 worker is starting.")


def test_reports_that_come_too_often_get_the_last_answer():
    book = Playbook()
    client, cloud = book.client(), manager(book)
    assert order(cloud, report()) == 0
    client.says(tasks(client, 1, 5))
    for _ in range(managers.REPORTS_LIMIT - 2):
        order(cloud, report())
    assert order(cloud, report()) == 1
    assert order(cloud, report(minimum=3)) == 1
    book.wait(1.0, (cloud,))
    assert order(cloud, report(minimum=3)) == 3


def test_very_many_combinations_of_capabilities_do_not_make_a_decision_slow():
    """A count of what is compared, as the time depends on the machine."""
    book = Playbook()
    client = book.client()
    for number in range(50):
        book.agent(f"agent {number}", slots=2, capabilities={"gpu": 1})
    for number in range(1, 20):
        client.says(tasks(client, number, 1, capabilities=(Capability("gpu", 10 + number),)))
    assert len(managers.demands(book.core.state)) == 19
    (found,) = managers.supplies(book.core.state, book.now)
    assert (found.workers, found.maximum, found.capabilities) == (100, 100, {"gpu": 1_000_000})
