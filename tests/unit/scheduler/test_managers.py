"""Worker managers report to the scheduler and get orders."""

from __future__ import annotations

from scaler_protocol.messages import (
    AgentAttach,
    Capability,
    Drain,
    ManagerOrder,
    ManagerReport,
    ObjectKey,
    ObjectRelease,
    Refused,
    Role,
    ShutdownRequest,
    Status,
    Stop,
    StoreAttached,
    StoreStatus,
    Tasks,
)
from scaler_scheduler.core import managers
from tests.unit.scheduler.playbook import Playbook, results, tasks


def manager(book, name="cloud", peer=None):
    found = book._peer(peer or name, Role.WORK)
    assert found.connect() == []
    return found


def report(name="cloud", minimum=0, maximum=8, **values):
    given = {"cost_per_worker_hour": 1.0, "target_seconds": 60.0, "cool_down_seconds": 0.0}
    return ManagerReport(name, (), minimum, maximum, **{**given, **values})


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


def test_while_very_many_results_are_kept_no_agent_is_drained(monkeypatch):
    monkeypatch.setattr(managers, "LARGE_RESULTS_LIMIT", 1)
    book = Playbook()
    client, cloud, holder, idle = book.client(), manager(book), book.agent("holder"), joined(book, "idle")
    client.says(tasks(client, 1, 4))
    for task in range(1, 5):
        holder.says(results(client, (task, 1, Status.SUCCESS_LARGE, (10**6).to_bytes(8, "little"))))
        idle.says(results(client, (task, 1, Status.SUCCESS_LARGE, (10**6).to_bytes(8, "little"))))
    assert (idle.name, Drain()) not in cloud.says(report(running=1))
    client.says(ObjectRelease(tuple(ObjectKey(client.session, task) for task in range(1, 5))))
    assert (idle.name, Drain()) in cloud.says(report(running=1))


def test_an_agent_whose_store_has_objects_stays_unless_another_shares_the_store():
    book = Playbook()
    cloud, worker = manager(book), joined(book, "worker")
    worker.says(StoreAttached(b"s" * 16, "tcp://host:1"))
    status = StoreStatus(b"s" * 16, 1, "tcp://host:1", 3, 1, 1, 1, 0, 0, 0, 0)
    worker.says(status)
    assert (worker.name, Drain()) not in cloud.says(report(running=1))
    other = joined(book, "other")
    other.says(StoreAttached(b"s" * 16, "tcp://host:1"))
    drained = [name for name, body in cloud.says(report(running=2)) if body == Drain()]
    assert len(drained) == 1


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


def test_a_second_manager_of_a_name_is_refused_until_the_first_is_silent():
    book = Playbook()
    first, second = manager(book), manager(book, peer="second")
    assert order(first, report()) == 0
    (_, refused), *_ = second.says(report())
    assert isinstance(refused, Refused) and "Give this one another --name" in refused.text
    book.wait(4.0)
    third = manager(book, peer="third")
    assert order(third, report()) == 0


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


def test_monitors_and_explain_tell_what_managers_do():
    book = Playbook()
    client, cloud = book.client(), manager(book)
    client.says(tasks(client, 1, 1))
    order(cloud, report(starting=2, reasons=("The quota is used up.",)))
    shown = [each.value for each in book.core.snapshot(book.now).settings if each.name == "worker manager cloud"]
    assert shown == ["0 running, 2 starting, 1 wanted (0 to 8). The quota is used up."]
    assert "no worker is connected. 2 workers are starting." in book.core.explain(client.session, 1)


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
