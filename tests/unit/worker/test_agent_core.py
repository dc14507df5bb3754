"""The agent's core: tasks in, results out, and everything that comes between."""

from __future__ import annotations

import errno
import json
import pickle
import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from scaler_protocol.codec import TaskRun
from scaler_protocol.effects import Log
from scaler_protocol.link import Link
from scaler_protocol.messages import (
    CHUNK_SIZE_BYTES,
    OBJECT_WINDOW_BYTES,
    WORKERS_UNCHANGED_SINCE_MINOR,
    Acknowledgement,
    AgentAttach,
    AllReported,
    Blocked,
    Cancel,
    CancelRefused,
    DroppedTasks,
    Envelope,
    Goodbye,
    Heartbeat,
    HeartbeatEcho,
    Hello,
    ObjectChunk,
    ObjectCredit,
    ObjectKey,
    ObjectMissing,
    ObjectRelease,
    ObjectRequest,
    ObjectStored,
    Ping,
    RefusalReason,
    Refused,
    Relay,
    RelayClosed,
    Results,
    ResultsReleased,
    Status,
    Stop,
    StoreStatus,
    TaskColumn,
    TaskOptions,
    Welcome,
    WhoAreYou,
    Withdraw,
    Withdrawn,
    WorkerStatus,
)
from scaler_worker.core.agent import SCHEDULER
from scaler_worker.core.client_output import BUDGET_BYTES, MESSAGE_BYTES
from scaler_worker.core.effects import (
    DispatchTasks,
    DropObjects,
    DropStored,
    Exit,
    FindStored,
    ForgetOwner,
    ReadOutput,
    RenewNested,
    Resume,
    SendNested,
    StartWorkerProcess,
    Suspend,
)
from scaler_worker.core.joining import REPORTED_SESSIONS_LIMIT
from scaler_worker.core.starts import REFUSALS_LIMIT
from tests.unit.worker.playbook import CLIENT, Stage, run_of

NONE = pickle.dumps(None, -1)


to_do: list[Callable[[], object]] = []


def do_first(*arguments: object) -> None:
    while to_do:
        to_do.pop()()


def large(size: int) -> bytes:
    return b"x" * size


def length(data: bytes) -> int:
    return len(data)


def tasks_of(withdrawn: Withdrawn) -> set[int]:
    return {task for column in withdrawn.columns for task in column.tasks}


# ---- connection --------------------------------------------------------------------------------------------------


def test_it_says_hello_attaches_and_pings() -> None:
    stage = Stage(2)
    assert stage.bodies(Hello)[0].number == 1
    attach = stage.bodies(AgentAttach)[0]
    assert attach.worker_names == ("w0", "w1") and attach.holds == ()
    sent = len(stage.sent)
    stage.pass_time(5.0)
    assert len(stage.sent) - sent == 2, "without tasks, every 2.2 s"
    stage.give(run_of(1))
    sent = len(stage.sent)
    stage.pass_time(1.0)
    assert 2 <= len(stage.sent) - sent <= 4


def test_a_welcome_to_an_earlier_hello_is_ignored() -> None:
    stage = Stage(1, welcome=False)
    stage.core.on_connected(b"", stage.now)
    stage.core.on_connected(b"", stage.now)
    stage.turn()
    stage.say_raw(Welcome(b"S" * 16, 1, number=1))
    assert not stage.bodies(AgentAttach)
    stage.say_raw(Welcome(b"S" * 16, 1, number=2))
    assert stage.bodies(AgentAttach)


def test_who_are_you_is_answered_with_hello() -> None:
    stage = Stage(1)
    stage.say_raw(WhoAreYou())
    assert stage.bodies(Hello)[-1].epoch == 1


def test_a_refusal_ends_it() -> None:
    stage = Stage(1, welcome=False)
    stage.core.on_connected(b"", stage.now)
    stage.say_raw(Refused(RefusalReason.TOKEN, "run both as one user"))
    assert [effect.code for effect in stage.effects if isinstance(effect, Exit)] == [1]


def test_a_scheduler_that_stays_away_ends_it() -> None:
    stage = Stage(1, death_timeout_seconds=5.0)
    stage.core.on_peer_lost(b"", stage.now)
    stage.pass_time(4.9, heard=False)
    assert not stage.count(Exit)
    stage.pass_time(0.3, heard=False)
    assert stage.count(Exit) == 1


def test_results_survive_a_new_epoch_until_released() -> None:
    stage = Stage(1)
    stage.give(run_of(3))
    stage.run_all()
    assert stage.results() == dict.fromkeys(range(3), (Status.SUCCESS, NONE))
    stage.core.on_peer_lost(b"", stage.now)
    stage.sent.clear()
    stage.connect(epoch=2)
    assert set(stage.results()) == {0, 1, 2}
    sequences = tuple(envelope.sequence for envelope in stage.sent if isinstance(envelope.body, Results))
    stage.say(ResultsReleased(sequences))
    stage.sent.clear()
    stage.connect(epoch=3)
    assert stage.results() == {}


def test_a_new_epoch_is_told_what_the_store_has() -> None:
    stage = Stage(1)
    status = StoreStatus(b"s" * 16, 1, "", 1, 2, 3, 4, 0, 0, 0, 0, owners=b"o" * 16)
    stage.core.on_store_status(status, stage.now)
    stage.connect(epoch=2)
    assert stage.bodies(StoreStatus)[-1] == status
    stage.core.on_store_lost(stage.now)
    stage.sent.clear()
    stage.connect(epoch=3)
    assert stage.bodies(StoreStatus) == []


def release_results(stage: Stage) -> None:
    """Their clients have them."""
    stage.say(ResultsReleased(tuple(each.sequence for each in stage.sent if isinstance(each.body, Results))))
    stage.sent.clear()


def test_a_new_epoch_is_told_of_large_results_until_they_are_let_go_of() -> None:
    stage = Stage(1)
    stage.give(run_of(1, function=large, slots=[40_000]), function=large)
    stage.run_all()
    told = stage.results()
    assert told[0][0] == Status.SUCCESS_LARGE
    release_results(stage)
    stage.connect(epoch=2)
    assert stage.results() == told
    release_results(stage)
    stage.say(ObjectRelease((ObjectKey(CLIENT, 0),)))
    stage.connect(epoch=3)
    assert stage.results() == {}


def test_a_new_epoch_is_told_of_arguments_that_are_here() -> None:
    stage = Stage(1)
    key = ObjectKey(CLIENT, 2**64 - 1)
    stage.give(run_of(1, slots=[key]))
    stage.say(ObjectChunk(key, 5, 0, b"bytes"))
    stage.connect(epoch=2)
    assert stage.bodies(ObjectStored) == [ObjectStored(key, 5, bytes(16))]


def test_a_copy_of_a_node_that_a_task_outside_its_graph_has_read_is_freed_with_the_node() -> None:
    stage = Stage(1)
    key = ObjectKey(CLIENT, 3)
    stage.give(run_of(1, first=7, slots=[key]))
    stage.say(ObjectChunk(key, 5, 0, b"bytes"))
    stage.run_all()
    stage.say(Cancel((TaskColumn(CLIENT, (3,), (0,)),)))
    assert key not in stage.store.objects


def test_a_new_epoch_is_told_of_copies_of_results() -> None:
    stage = Stage(1)
    key = ObjectKey(CLIENT, 3)
    stage.give(run_of(1, first=7, slots=[key]))
    stage.say(ObjectChunk(key, 5, 0, b"bytes"))
    stage.connect(epoch=2)
    assert stage.bodies(ObjectStored) == [ObjectStored(key, 5, bytes(16))]


def test_a_new_epoch_is_told_what_is_held() -> None:
    stage = Stage(1)
    stage.give(run_of(5, attempt=7))
    stage.connect(epoch=2)
    (column,) = stage.bodies(AgentAttach)[-1].holds
    assert column.session == CLIENT and set(column.tasks) == set(range(5)) and set(column.attempts) == {7}


def test_a_new_epoch_is_told_of_tasks_that_the_one_before_had_agents_drop() -> None:
    stage = Stage(1)
    stage.say(DroppedTasks(CLIENT, (3,)))
    stage.say(DroppedTasks(CLIENT, (1,)))
    stage.say(DroppedTasks(b"O" * 16, below=8))
    assert stage.bodies(DroppedTasks) == []
    told = [DroppedTasks(CLIENT, (1, 3)), DroppedTasks(b"O" * 16, below=8)]
    for epoch in (2, 3):
        stage.sent.clear()
        stage.connect(epoch=epoch)
        said = [envelope.body for envelope in stage.sent]
        assert stage.bodies(DroppedTasks) == told
        assert said.index(told[0]) > said.index(stage.bodies(AgentAttach)[0])
        assert said.index(told[-1]) < said.index(AllReported())


def test_the_dropped_tasks_of_the_last_clients_are_reported() -> None:
    stage = Stage(1)
    for number in range(REPORTED_SESSIONS_LIMIT + 1):
        stage.say(DroppedTasks(number.to_bytes(16, "little"), (1,)))
    stage.connect(epoch=2)
    told = stage.bodies(DroppedTasks)
    assert [told[0].session, told[-1].session] == [
        number.to_bytes(16, "little") for number in (1, REPORTED_SESSIONS_LIMIT)
    ]


def test_a_scheduler_of_an_older_version_is_not_told_of_dropped_tasks() -> None:
    stage = Stage(1)
    stage.say(DroppedTasks(CLIENT, (1,)))
    stage.core.on_connected(b"", stage.now)
    stage.turn()
    stage.link = Link()
    stage.say_raw(Welcome(b"S" * 16, 2, minor=3, number=stage.bodies(Hello)[-1].number))
    assert stage.bodies(DroppedTasks) == []


def test_a_resumed_link_sends_what_was_lost() -> None:
    stage = Stage(1)
    attached = stage.link.received
    stage.give(run_of(1))
    stage.core.on_peer_lost(b"", stage.now)
    stage.run(0)
    stage.sent.clear()
    stage.connect(resumed=True, received=attached + 1)
    assert stage.results() == {0: (Status.SUCCESS, NONE)}


def test_a_gap_asks_for_a_new_hello() -> None:
    stage = Stage(1)
    stage.link.wrap(Withdraw(1))
    stage.say(Withdraw(1))
    assert len(stage.bodies(Hello)) == 2


@pytest.mark.parametrize("resumed", [False, True])
def test_a_connection_is_told_of_workers_once_and_of_changes(resumed: bool) -> None:
    stage = Stage(1)
    idle = WorkerStatus("w", 1, 0.0, 100, True, False, False)
    busy = replace(idle, has_task=True)

    def sent(status: WorkerStatus) -> tuple[tuple[WorkerStatus, ...], bool]:
        stage.core.report(0.0, 0, 0, (status,), stage.now)
        stage.turn()
        report = stage.bodies(Heartbeat)[-1]
        return report.workers, report.workers_unchanged

    assert [sent(idle), sent(idle), sent(busy), sent(busy), sent(idle)] == [
        ((idle,), False),
        ((), True),
        ((busy,), False),
        ((), True),
        ((idle,), False),
    ]
    stage.core.on_peer_lost(b"", stage.now)  # the last report may not have arrived
    stage.connect(epoch=1 if resumed else 2, resumed=resumed)
    assert [sent(idle), sent(idle)] == [((idle,), False), ((), True)]


def test_an_earlier_scheduler_is_told_of_all_workers_each_time() -> None:
    stage = Stage(1)
    stage.core.state.scheduler_minor = WORKERS_UNCHANGED_SINCE_MINOR - 1
    rows = (WorkerStatus("w", 1, 0.0, 100, True, False, False),)
    for _ in range(2):
        stage.core.report(0.0, 0, 0, rows, stage.now)
    stage.turn()
    assert [report.workers for report in stage.bodies(Heartbeat)] == [rows, rows]


# ---- running -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("seconds", "acknowledgements"), [(0.05, 0), (0.2, 1)])
def test_results_acknowledge_what_came_shortly_before(seconds: float, acknowledgements: int) -> None:
    stage = Stage(1)
    stage.give(run_of(1))
    stage.pass_time(seconds)
    stage.run_all()
    assert len(stage.bodies(Acknowledgement)) == acknowledgements
    assert next(each for each in stage.sent if isinstance(each.body, Results)).acknowledged == 1


def test_two_tasks_use_two_worker_processes() -> None:
    stage = Stage(2)
    stage.give(run_of(2))
    assert [len(each.pending) for each in stage.processes.values()] == [1, 1]


def test_all_tasks_end_once() -> None:
    stage = Stage(3)
    stage.give(run_of(1000))
    stage.give(run_of(1000, first=1000))
    stage.run_all()
    assert stage.results() == dict.fromkeys(range(2000), (Status.SUCCESS, NONE))


def test_known_short_tasks_travel_together() -> None:
    stage = Stage(1)
    stage.give(run_of(10))
    stage.run_all()
    stage.give(run_of(1000, first=10))
    assert sum(run.count for run in stage.processes[0].pending) > 100


def test_functions_are_sent_to_a_worker_process_once() -> None:
    stage = Stage(1)
    stage.give(run_of(1))
    stage.run_all()
    stage.give(run_of(1, first=1))
    handed = [effect.tasks for effect in stage.effects if isinstance(effect, DispatchTasks)]
    assert [len(tasks.functions) for tasks in handed] == [1, 0]


def test_an_idle_worker_process_takes_what_another_has_not_started() -> None:
    stage = Stage(2)
    stage.core.slots.durations.add(run_of(1).function, 1, 0.05)
    stage.give(run_of(2))
    stage.give(run_of(2, first=2))
    assert all(stage.processes[number].pending for number in (0, 1))
    stage.run(1)
    stage.run(1)
    stage.run(1)
    assert set(stage.results()) >= {1}
    stage.run_all()
    assert set(stage.results()) == {0, 1, 2, 3}


def test_finished_results_do_not_hide_behind_a_long_task() -> None:
    stage = Stage(1)
    stage.core.slots.durations.add(run_of(1).function, 1, 0.0001)
    stage.give(run_of(8))
    stage.processes[0].run()  # it has not said a word
    stage.processes[0].notified = 0
    stage.pass_time(0.1)
    assert len(stage.results()) == 8


def pause(number: int) -> None:
    time.sleep(0.006)  # longer than results are held back


def test_one_worker_process_tells_of_the_results_of_all() -> None:
    stage = Stage(2)
    stage.core.slots.durations.add(run_of(1).function, 1, 0.0001)
    stage.give(run_of(4))
    for process in stage.processes.values():
        process.run()
    stage.core.on_worker_process_news(0, stage.now)
    stage.turn()
    assert set(stage.results()) == {0, 1, 2, 3}


@pytest.mark.parametrize("is_harvested", [False, True])
def test_results_that_the_agent_takes_by_itself_need_not_be_told_of_so_soon(is_harvested: bool) -> None:
    stage = Stage(1)
    process = stage.processes[0]
    stage.core.slots.durations.add(run_of(1, function=pause).function, 1, 0.0001)
    stage.give(run_of(3, function=pause), function=pause)
    if is_harvested:
        process.board.harvest([], stage.now)
    told = []
    process.notify = lambda: told.append(process.board.position)  # type: ignore[method-assign]
    process.run()
    assert (len(told) == 1) is is_harvested


# ---- lease -------------------------------------------------------------------------------------------------------


def test_nothing_is_handed_over_when_the_scheduler_is_silent() -> None:
    stage = Stage(1)
    stage.pass_time(1.2, heard=False)
    stage.core.state.queue.push(run_of(1))
    stage.turn()
    assert not stage.processes[0].pending


def test_after_a_stall_old_messages_prove_nothing() -> None:
    stage = Stage(1)
    stage.core.report(0.0, 0, 0, (), stage.now)
    stage.now += 30
    stage.give(run_of(1))
    assert not stage.processes[0].pending
    stage.say_raw(HeartbeatEcho(stage.now))
    assert stage.processes[0].pending


# ---- taking back -------------------------------------------------------------------------------------------------


def test_withdrawing_gives_back_what_never_started() -> None:
    stage = Stage(1)
    stage.give(run_of(10))
    stage.say(Withdraw(4))
    (withdrawn,) = stage.bodies(Withdrawn)
    assert tasks_of(withdrawn) == {6, 7, 8, 9}
    stage.run_all()
    assert set(stage.results()) == set(range(6))


def test_every_withdraw_is_answered() -> None:
    stage = Stage(1)
    stage.say(Withdraw(4))
    assert stage.bodies(Withdrawn) == [Withdrawn(())]


def test_cancelling_queued_and_handed_over() -> None:
    stage = Stage(1)
    stage.give(run_of(10))
    stage.say(Cancel((TaskColumn(CLIENT, tuple(range(10))),)))
    assert stage.results() == dict.fromkeys(range(10), (Status.CANCELLED, b""))
    stage.run_all()
    assert len(stage.results()) == 10


def test_cancelling_what_is_unknown_does_nothing() -> None:
    stage = Stage(1)
    stage.say(Cancel((TaskColumn(CLIENT, (5,)), TaskColumn(b"Z" * 16, (0,)))))
    assert stage.results() == {}


def test_a_cancelled_attempt_spares_the_others() -> None:
    stage = Stage(1)
    stage.give(run_of(2, attempt=3))
    stage.say(Cancel((TaskColumn(CLIENT, (0,), (2,)),)))
    stage.run_all()
    assert stage.results()[1] == (Status.SUCCESS, NONE)


def test_cancelling_what_has_not_started_spares_the_rest() -> None:
    stage = Stage(1)
    stage.give(run_of(10, function=do_first), function=do_first)
    column = TaskColumn(CLIENT, (*range(10), 77), (1,) * 11)
    to_do.append(lambda: stage.say(Cancel((column,), unstarted_only=True)))
    stage.run_all()
    assert stage.bodies(CancelRefused) == [CancelRefused((TaskColumn(CLIENT, (0, 77), (1, 1)),))]
    assert stage.results() == {0: (Status.SUCCESS, NONE), **dict.fromkeys(range(1, 10), (Status.CANCELLED, b""))}


# ---- deaths ------------------------------------------------------------------------------------------------------


def start_first(stage: Stage, number: int = 0) -> None:
    """Leave the worker process inside its first task: claimed, and without a result for ever."""
    process = stage.processes[number]

    class Stuck(BaseException):
        pass

    def stuck(*_: object) -> None:
        raise Stuck

    process.keep_large = stuck  # type: ignore[method-assign, assignment]
    process.function = lambda run: lambda *_: b"x" * 40_000  # type: ignore[method-assign]
    with pytest.raises(Stuck):
        process.run()


def test_a_death_hits_the_running_task_alone() -> None:
    stage = Stage(1)
    stage.core.slots.durations.add(run_of(1).function, 1, 0.0001)
    stage.give(run_of(5))
    start_first(stage)
    stage.die(0, signal="SIGKILL", pid=7)
    status, payload = stage.results()[0]
    certificate = json.loads(payload)
    assert status == Status.PROCESSOR_DIED and certificate["signal"] == "SIGKILL" and certificate["task"] == "nothing"
    stage.run_all()
    assert {task: result[0] for task, result in stage.results().items() if task} == dict.fromkeys(range(1, 5), 0)


def test_finished_results_survive_a_death() -> None:
    stage = Stage(1)
    stage.core.slots.durations.add(run_of(1).function, 1, 0.0001)
    stage.give(run_of(5))
    stage.processes[0].run()
    stage.die(0, signal="SIGKILL")
    assert {status for status, _ in stage.results().values()} == {Status.SUCCESS}


def test_an_idle_worker_process_is_replaced() -> None:
    stage = Stage(2)
    stage.die(1, exit_code=1)
    assert stage.count(StartWorkerProcess) == 3 and len(stage.core.slots.processes) == 2


def test_worker_processes_that_never_get_ready_are_not_started_in_a_loop() -> None:
    stage = Stage(1)
    for _ in range(1 + 3):  # the first one was ready
        number = max(stage.core.slots.processes)
        stage.processes.pop(number, None)
        stage.core.on_worker_process_died(number, {}, stage.now)
        stage.turn()
    assert not stage.core.slots.processes
    stage.pass_time(1.2)
    assert stage.core.slots.processes


def test_worker_processes_for_which_there_is_no_room_are_asked_for_again_later_and_told_of_once() -> None:
    stage = Stage(2)
    for number in range(2):
        stage.core.on_worker_process_died(number, {}, stage.now)
    stage.turn()
    for _ in range(3):
        stage.processes.clear()
        for number in list(stage.core.slots.processes):
            stage.core.on_worker_process_not_started(number, "Too many open files", stage.now)
        stage.turn()
        assert not stage.core.slots.processes
        stage.pass_time(0.8)
        assert not stage.core.slots.processes
        stage.pass_time(0.4)
        assert len(stage.core.slots.processes) == 2
    lines = [effect.text for effect in stage.effects if isinstance(effect, Log)]
    assert len(lines) == 1 and "cannot be started" in lines[0]
    stage.ready()
    stage.give(run_of(4))
    stage.run_all()
    assert len(stage.results()) == 4


def test_a_task_fails_where_no_worker_process_can_be_started() -> None:
    stage = Stage(1)
    stage.core.on_worker_process_died(0, {}, stage.now)
    for _ in range(REFUSALS_LIMIT):
        for number in list(stage.core.slots.processes):
            stage.core.on_worker_process_not_started(number, "Too many open files", stage.now)
        stage.pass_time(1.2)
    for number in list(stage.core.slots.processes):
        stage.core.on_worker_process_not_started(number, "Too many open files", stage.now)
    stage.give(run_of(1))
    stage.turn()
    status, text = stage.results()[0]
    assert status == Status.NO_WORKER
    assert text.startswith(b"No worker process can be started on this host (Too many open files).")


def test_worker_processes_that_die_of_whatever_they_are_handed_are_not_started_in_a_loop() -> None:
    stage = Stage(1)
    stage.give(run_of(1))
    for _ in range(3):
        stage.die(max(stage.processes), exit_code=1)
    assert not stage.core.slots.processes
    stage.pass_time(1.2)
    assert stage.core.slots.processes


# ---- objects -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["create", "write"])
def test_an_object_for_which_there_is_no_room_fails_its_task_with_the_reason(method: str) -> None:
    stage = Stage(1)
    key = ObjectKey(CLIENT, 2**64 - 1)

    def full(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    setattr(stage.store, method, full)
    stage.give(run_of(1, slots=[key]))
    stage.say(ObjectChunk(key, 5, 0, b"bytes"))
    status, payload = stage.results()[0]
    assert status == Status.OBJECT_MISSING and b"No space left on device" in payload
    stage.give(run_of(1, first=1))
    stage.run_all()
    assert stage.results()[1][0] == Status.SUCCESS


def test_a_run_that_cannot_be_taken_in_fails_alone() -> None:
    stage = Stage(1)

    def refuse(run: TaskRun) -> None:
        raise ValueError("it cannot be")

    stage.core.agent.accept = refuse  # type: ignore[method-assign]
    stage.give(run_of(1, slots=[ObjectKey(CLIENT, 2**64 - 1)]), run_of(1, first=1))
    stage.run_all()
    assert stage.results()[0] == (
        Status.NO_WORKER, b"The agent of this host cannot take in the task: ValueError: it cannot be",
    )  # fmt: skip
    assert stage.results()[1][0] == Status.SUCCESS


@pytest.mark.parametrize("number", [2**64 - 1, 7], ids=["sent by its client", "result of another task"])
def test_a_task_waits_for_its_object(number: int) -> None:
    stage = Stage(1)
    key = ObjectKey(CLIENT, number)
    data = pickle.dumps(b"y" * 3 * CHUNK_SIZE_BYTES)
    stage.give(run_of(1, function=length, slots=[key]), function=length)
    assert stage.bodies(ObjectRequest) == [ObjectRequest(key)] and not stage.processes[0].pending
    for offset in range(0, len(data), CHUNK_SIZE_BYTES):
        stage.say(ObjectChunk(key, len(data), offset, data[offset : offset + CHUNK_SIZE_BYTES]))
    assert [credit.offset for credit in stage.bodies(ObjectCredit)] == [CHUNK_SIZE_BYTES * each for each in (1, 2, 3)]
    stage.run_all()
    assert pickle.loads(stage.results()[0][1]) == 3 * CHUNK_SIZE_BYTES
    stage.say(ObjectRelease((key,)))
    assert key not in stage.store.objects and stage.count(DropObjects) == 1


def test_what_is_dropped_together_leaves_the_store_in_one_message() -> None:
    stage = Stage(1)
    keys = [ObjectKey(CLIENT, 2**64 - 1 - number) for number in range(3)]
    missing = ObjectKey(CLIENT, 2**64 - 10)
    run = run_of(1)
    arguments = [[*keys, missing]]  # the task waits for the last one
    stage.give(TaskRun(CLIENT, run.function, "nothing", b"", 0, 1, (), run.options, arguments))
    for key in keys:
        stage.core.on_stored(key, stage.now)
    stage.turn()
    for key in keys:
        stage.core.on_message(SCHEDULER, stage.link.wrap(ObjectRelease((key,))), stage.now)
    stage.turn()
    dropped = [effect.keys for effect in stage.effects if isinstance(effect, DropStored)]
    assert dropped == [keys]


def test_what_is_left_of_a_client_is_dropped() -> None:
    stage = Stage(1)
    key, other = ObjectKey(CLIENT, 2**64 - 1), ObjectKey(bytes(16), 2**64 - 1)
    stage.give(run_of(1, slots=[key, other]))
    for each in (key, other):
        stage.say(ObjectChunk(each, 1, 0, b"x"))
    stage.run_all()
    stage.say(ObjectRelease((), CLIENT))
    assert list(stage.store.objects) == [other] and stage.count(ForgetOwner) == 0


def test_the_host_s_store_drops_what_no_agent_knows_of() -> None:
    stage = Stage(1, welcome=False, uses_store=True)
    stage.core.on_connected(b"", stage.now)
    stage.turn()
    stage.say_raw(Welcome(b"S" * 16, 1, cluster=b"c" * 16, number=1))
    stage.say(ObjectRelease((), CLIENT))
    assert [effect for effect in stage.effects if isinstance(effect, ForgetOwner)] == [ForgetOwner(CLIENT)]


def test_the_host_s_store_decides_what_it_drops_of_a_client_that_is_away() -> None:
    stage = Stage(1, welcome=False, uses_store=True)
    stage.core.on_connected(b"", stage.now)
    stage.turn()
    stage.say_raw(Welcome(b"S" * 16, 1, cluster=b"c" * 16, number=1))
    key = ObjectKey(CLIENT, 2**64 - 1)
    for _ in range(2):  # it is looked for again: the client may have come back
        stage.effects.clear()
        stage.give(run_of(1, slots=[key]))
        assert [effect.keys for effect in stage.effects if isinstance(effect, FindStored)] == [[key]]
        stage.core.on_stored(key, stage.now)
        stage.run_all()
        stage.say(ObjectRelease((), CLIENT))
        assert stage.count(ForgetOwner) == 1 and stage.count(DropStored) == 0


def test_an_object_that_nobody_has() -> None:
    stage = Stage(1)
    key = ObjectKey(CLIENT, 2**64 - 1)
    stage.give(run_of(1, slots=[key]))
    stage.say(ObjectMissing(key, "it is gone"))
    assert stage.results() == {0: (Status.OBJECT_MISSING, b"it is gone")}


def test_a_cancelled_task_does_not_wait_for_its_object() -> None:
    stage = Stage(1)
    key = ObjectKey(CLIENT, 2**64 - 1)
    stage.give(run_of(1, slots=[key]))
    stage.say(Cancel((TaskColumn(CLIENT, (0,)),)))
    assert stage.results() == {0: (Status.CANCELLED, b"")}


def test_a_large_result_is_fetched_by_windows() -> None:
    stage = Stage(1)
    size = 3 * OBJECT_WINDOW_BYTES
    stage.give(run_of(1, function=large, slots=[size]), function=large)
    stage.run_all()
    key = ObjectKey(CLIENT, 0)
    total = len(stage.store.objects[key])
    assert stage.results()[0] == (Status.SUCCESS_LARGE, total.to_bytes(8, "little"))
    stage.say(ObjectRequest(key))
    assert sum(len(chunk.data) for chunk in stage.bodies(ObjectChunk)) == OBJECT_WINDOW_BYTES
    while (received := sum(len(chunk.data) for chunk in stage.bodies(ObjectChunk))) < total:
        stage.say(ObjectCredit(key, received))
    data = b"".join(chunk.data for chunk in stage.bodies(ObjectChunk))
    assert pickle.loads(data) == b"x" * size
    stage.say(ObjectRelease((key,)))
    stage.say(ObjectRequest(key))
    assert len(stage.bodies(ObjectMissing)) == 1


# ---- clients inside tasks ----------------------------------------------------------------------------------------


def open_nested(stage: Stage, session: bytes = b"N" * 16, task: int = 0) -> None:
    stage.core.on_nested_opened(session, TaskColumn(CLIENT, (task,), (1,)), stage.now)
    stage.turn()


def running(stage: Stage, number: int, task: object) -> None:
    """Run ``task`` as what the worker process runs next; it may look at the stage while it runs."""
    process = stage.processes[number]
    process.function = lambda run: lambda *_: task()  # type: ignore[method-assign, operator]
    stage.run(number)


def test_a_blocked_task_lends_its_slot_to_deeper_tasks_only() -> None:
    stage = Stage(1)
    stage.give(run_of(1))

    def parent() -> None:
        open_nested(stage)
        stage.core.on_nested_blocked(b"N" * 16, stage.now)
        stage.turn()
        assert stage.bodies(Blocked) == [Blocked(1, 0)]
        stage.give(run_of(1, first=50))
        stage.ready()
        assert not any(each.pending for each in stage.processes.values())
        stage.give(run_of(1, first=60, options=TaskOptions(depth=1)))
        stage.ready()
        stage.run(1)
        assert set(stage.results()) == {60}
        stage.core.on_nested_unblocked(b"N" * 16, stage.now)
        stage.turn()
        assert stage.bodies(Blocked)[-1] == Blocked(0, 0)
        assert not stage.processes[1].pending

    running(stage, 0, parent)
    stage.run_all()
    assert set(stage.results()) == {0, 50, 60}


def test_where_nothing_runs_a_task_that_waits_for_a_lock_lends_its_slot_to_any_other() -> None:
    stage = Stage(1)
    stage.give(run_of(1))

    def waiter() -> None:
        open_nested(stage)
        stage.core.on_nested_waits_for_lock(b"N" * 16, stage.now)
        stage.turn()
        assert stage.bodies(Blocked) == [Blocked(1, 0, True)]
        stage.give(run_of(2, first=50))
        stage.ready()
        assert stage.bodies(Blocked)[-1] == Blocked(1, 0, False)
        assert [number for number, each in stage.processes.items() if each.pending] == [1]
        stage.run(1)
        assert 50 in stage.results()
        stage.core.on_nested_unblocked(b"N" * 16, stage.now)
        stage.turn()
        assert stage.bodies(Blocked)[-1] == Blocked(0, 0, False)

    running(stage, 0, waiter)
    stage.run_all()
    assert set(stage.results()) == {0, 50, 51}


def test_a_client_that_waits_for_a_lock_and_then_for_tasks_lends_its_slot_to_deeper_ones_again() -> None:
    stage = Stage(1)
    stage.give(run_of(1))

    def parent() -> None:
        open_nested(stage)
        for waits in (stage.core.on_nested_waits_for_lock, stage.core.on_nested_blocked):
            waits(b"N" * 16, stage.now)
            stage.turn()
        assert stage.bodies(Blocked) == [Blocked(1, 0, True), Blocked(1, 0, False)]

    running(stage, 0, parent)


def test_very_many_that_wait_for_locks_lend_their_slots_to_deeper_tasks_only() -> None:
    stage = Stage(1)
    stage.give(run_of(20, options=TaskOptions(retries=1)))
    waiting: list[int] = []

    def wait() -> None:
        waiting.append(len(waiting))
        session = bytes([len(waiting)]) * 16
        stage.core.on_nested_opened(session, TaskColumn(CLIENT, (waiting[-1],), (1,)), stage.now)
        stage.core.on_nested_waits_for_lock(session, stage.now)
        stage.turn()
        stage.ready()
        pending = [number for number, each in stage.processes.items() if each.pending]
        if pending:
            running(stage, pending[0], wait)

    running(stage, 0, wait)
    assert len(waiting) == 9


def test_tasks_are_not_failed_because_all_processes_wait_for_locks() -> None:
    stage = Stage(1, process_limit=1)
    stage.give(run_of(1))

    def waiter() -> None:
        open_nested(stage)
        stage.core.on_nested_waits_for_lock(b"N" * 16, stage.now)
        stage.give(run_of(1, first=60))
        stage.turn()
        assert not stage.results() and stage.core.state.queue.count == 1

    running(stage, 0, waiter)


def test_a_process_that_waits_for_a_lock_is_not_suspended() -> None:
    stage = Stage(1, hard_processor_suspend=True)
    stage.give(run_of(1))

    def waiter() -> None:
        open_nested(stage)
        stage.core.on_nested_waits_for_lock(b"N" * 16, stage.now)
        stage.give(run_of(1, first=60, options=TaskOptions(depth=1)))
        stage.ready()
        assert any(each.pending for each in stage.processes.values()) and not stage.count(Suspend)

    running(stage, 0, waiter)


def test_a_blocked_parent_stands_still_while_its_slot_is_used() -> None:
    stage = Stage(1, hard_processor_suspend=True)
    stage.give(run_of(1))

    def parent() -> None:
        open_nested(stage)
        stage.core.on_nested_blocked(b"N" * 16, stage.now)
        stage.turn()
        assert not stage.count(Suspend)
        stage.give(run_of(1, first=60, options=TaskOptions(depth=1)))
        stage.ready()
        assert stage.count(Suspend) == 1 and not stage.count(Resume)
        stage.run(1)
        assert stage.count(Resume) == 1

    running(stage, 0, parent)


def test_a_client_whose_connection_is_cut_may_come_back() -> None:
    stage = Stage(1)
    stage.give(run_of(1))

    def parent() -> None:
        open_nested(stage)
        stage.core.on_nested_blocked(b"N" * 16, stage.now)
        stage.core.on_nested_closed(b"N" * 16, stage.now)
        stage.turn()
        assert stage.core.state.lent == (0, 0, False, 0)
        stage.pass_time(1.0)
        open_nested(stage)
        stage.pass_time(10.0)
        assert not stage.bodies(RelayClosed)
        stage.core.on_nested_blocked(b"N" * 16, stage.now)
        stage.turn()
        assert stage.core.state.lent == (1, 0, False, 0)
        stage.core.on_nested_closed(b"N" * 16, stage.now)
        stage.pass_time(10.0)
        assert stage.bodies(RelayClosed) == [RelayClosed(b"N" * 16)]

    running(stage, 0, parent)


def test_a_client_that_connects_before_its_old_connection_ends_says_again_whether_it_waits() -> None:
    stage = Stage(1)
    stage.give(run_of(1))

    def parent() -> None:
        open_nested(stage)
        stage.core.on_nested_blocked(b"N" * 16, stage.now)
        open_nested(stage)
        assert stage.core.state.lent == (0, 0, False, 0)

    running(stage, 0, parent)


def test_a_client_of_a_worker_process_that_died_is_not_expected_back() -> None:
    stage = Stage(1)
    stage.give(run_of(1))

    def parent() -> None:
        for session in (b"N" * 16, b"M" * 16):
            open_nested(stage, session)
        stage.core.on_nested_closed(b"N" * 16, stage.now)
        stage.turn()
        assert not stage.bodies(RelayClosed)
        stage.core.on_worker_process_died(0, {}, stage.now)
        stage.core.on_nested_closed(b"M" * 16, stage.now)
        stage.turn()
        assert stage.bodies(RelayClosed) == [RelayClosed(b"N" * 16), RelayClosed(b"M" * 16)]

    running(stage, 0, parent)


def test_a_spare_retires_when_it_is_idle_for_long() -> None:
    stage = Stage(1)
    stage.give(run_of(1))

    def parent() -> None:
        open_nested(stage)
        stage.core.on_nested_blocked(b"N" * 16, stage.now)
        stage.give(run_of(1, first=60, options=TaskOptions(depth=1)))
        stage.ready()
        stage.run(1)
        stage.core.on_nested_closed(b"N" * 16, stage.now)

    running(stage, 0, parent)
    stage.pass_time(11.0)
    assert stage.kills == 1
    assert stage.bodies(RelayClosed) == [RelayClosed(b"N" * 16)]


def test_a_worker_process_whose_blocked_task_ended_is_not_blocked() -> None:
    stage = Stage(1)
    stage.give(run_of(1))

    def parent() -> None:
        open_nested(stage)
        stage.core.on_nested_blocked(b"N" * 16, stage.now)

    running(stage, 0, parent)
    assert stage.core.state.lent == (0, 0, False, 0)


def test_a_task_lends_its_slot_although_a_client_of_an_earlier_one_waits() -> None:
    """In a thread that outlives its task, say."""
    stage = Stage(1)
    stage.give(run_of(1))

    def first() -> None:
        open_nested(stage)
        stage.core.on_nested_blocked(b"N" * 16, stage.now)

    def second() -> None:
        open_nested(stage, b"M" * 16, 1)
        stage.core.on_nested_blocked(b"M" * 16, stage.now)
        stage.turn()
        assert stage.core.state.lent == (1, 0, False, 0)

    running(stage, 0, first)
    stage.give(run_of(1, first=1))
    running(stage, 0, second)
    assert stage.core.state.lent == (0, 0, False, 0)


def test_while_a_task_is_blocked_one_spare_is_ready_for_the_next() -> None:
    stage = Stage(1)
    stage.give(run_of(1))

    def parent() -> None:
        open_nested(stage)
        stage.core.on_nested_blocked(b"N" * 16, stage.now)
        stage.ready()
        assert sorted(stage.processes) == [0, 1]
        names = {process.place: process.name for process in stage.core.slots.processes.values()}
        assert names[1] == f"{stage.core.agent.settings.name} nested 1"
        stage.pass_time(25.0)
        assert sorted(stage.processes) == [0, 1] and not stage.kills
        stage.core.on_nested_unblocked(b"N" * 16, stage.now)
        stage.pass_time(25.0)
        assert stage.kills == 1

    running(stage, 0, parent)


def test_too_many_processes_fail_the_task() -> None:
    stage = Stage(1, process_limit=1)
    stage.give(run_of(1))

    def parent() -> None:
        open_nested(stage)
        stage.core.on_nested_blocked(b"N" * 16, stage.now)
        stage.give(run_of(1, first=60, options=TaskOptions(depth=1)))
        stage.turn()
        status, text = stage.results()[60]
        assert status == Status.NO_WORKER and b"(1)" in text

    running(stage, 0, parent)


def test_frames_are_relayed_both_ways() -> None:
    stage = Stage(1)
    open_nested(stage)
    stage.core.on_nested_frames(b"N" * 16, (b"one", b"two"), stage.now)
    stage.turn()
    assert stage.bodies(Relay) == [Relay(b"N" * 16, (b"one", b"two"))]
    stage.say(Relay(b"N" * 16, (b"three",)))
    assert [effect.frames for effect in stage.effects if isinstance(effect, SendNested)] == [(b"three",)]


def test_a_new_epoch_renews_nested_clients() -> None:
    stage = Stage(1)
    open_nested(stage)
    stage.connect(epoch=2)
    assert [effect.session for effect in stage.effects if isinstance(effect, RenewNested)] == [b"N" * 16]


# ---- time limits -------------------------------------------------------------------------------------------------


def test_a_task_that_runs_too_long_is_interrupted_then_killed() -> None:
    stage = Stage(1)
    stage.give(run_of(1, options=TaskOptions(timeout_seconds=0.5)))

    def endless() -> None:
        started = stage.core.slots.processes[0].board.started  # type: ignore[union-attr]
        stage.now = started + 0.4
        stage.core.state.lease.heard(stage.now)
        stage.pass_time(0.05)
        assert not stage.interrupts
        stage.pass_time(0.3)
        assert stage.interrupts == 1 and stage.processes[0].board.interrupted()
        stage.pass_time(2.2)
        assert stage.kills == 1

    running(stage, 0, endless)


def test_a_killed_task_says_why() -> None:
    stage = Stage(1, task_timeout_seconds=1.0)
    stage.give(run_of(1))
    start_first(stage)
    slots = stage.core.slots
    slots.timeouts.end(slots.processes[0], 0, "timed out", stage.now)
    stage.die(0, signal="SIGKILL")
    assert stage.results()[0] == (Status.TIMED_OUT, b"nothing ran for more than its 1 seconds.")


# ---- the end -----------------------------------------------------------------------------------------------------


def test_stopping_gives_back_finishes_and_says_goodbye() -> None:
    stage = Stage(1)
    stage.give(run_of(5))

    def task() -> None:
        stage.core.on_stop(stage.now)
        stage.turn()
        assert tasks_of(stage.bodies(Withdrawn)[-1]) == {1, 2, 3, 4}
        assert not stage.bodies(Goodbye)

    running(stage, 0, task)
    assert set(stage.results()) == {0}
    kinds = [type(envelope.body) for envelope in stage.sent]
    assert kinds.index(Goodbye) > kinds.index(Results)
    stage.say_raw(WhoAreYou())
    assert [effect.code for effect in stage.effects if isinstance(effect, Exit)] == [0]


def test_the_grace_time_ends() -> None:
    stage = Stage(1, grace_seconds=2.0)
    stage.give(run_of(1))
    start_first(stage)
    stage.core.on_stop(stage.now)
    stage.pass_time(1.8)
    assert not stage.count(Exit)
    stage.pass_time(1.0)
    assert stage.count(Exit) == 1


def test_a_task_that_must_not_start_again_fails_when_the_grace_time_ends() -> None:
    stage = Stage(1, grace_seconds=2.0)
    stage.give(run_of(1, options=TaskOptions(rerun=False)))
    start_first(stage)
    stage.core.on_stop(stage.now)
    stage.pass_time(2.5)
    assert [status for status, _ in stage.results().values()] == [Status.WORKER_DIED]
    kinds = [type(envelope.body) for envelope in stage.sent]
    assert kinds.index(Goodbye) > kinds.index(Results)


def test_stop_from_the_scheduler_ends_it_at_once() -> None:
    stage = Stage(1)
    stage.say(Stop())
    assert stage.count(Exit) == 1


def test_tasks_that_print_too_much_wait_until_the_scheduler_has_read() -> None:
    stage = Stage(1)
    stage.give(run_of(1))
    output = stage.core.slots.client_output
    for _ in range(BUDGET_BYTES // MESSAGE_BYTES + 1):
        output.add(CLIENT, 0, 1, bytes(MESSAGE_BYTES))
    assert output.is_full
    stage.turn()
    assert stage.count(ReadOutput) == 0
    stage.core.on_message(SCHEDULER, Envelope(Ping(), 0, max(each.sequence for each in stage.sent)), stage.now)
    stage.turn()
    assert stage.count(ReadOutput) == 1 and not output.is_full
    stage.turn()
    assert stage.count(ReadOutput) == 1
