"""What a monitor asks of the scheduler, and how it understands the answer."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn, cast

import pytest

from scaler_protocol.address import parse_address
from scaler_protocol.command import threads
from scaler_protocol.effects import Send
from scaler_protocol.handshake import PeerHandshake, make_hello
from scaler_protocol.messages import (
    Body,
    ControlAction,
    ControlReply,
    ControlRequest,
    Envelope,
    Goodbye,
    Hello,
    ProfileReply,
    ProfileRequest,
    RefusalReason,
    Refused,
    Role,
    StackReply,
    StackRequest,
    Welcome,
)
from scaler_protocol.monitor import operator
from scaler_protocol.monitor.messages import SchedulerStatus, Snapshot
from scaler_protocol.monitor.model import Model
from scaler_protocol.monitor.operation import (
    ACTION_LABELS,
    ACTIONS_OF_TABLE,
    PROFILE_SECONDS,
    VALUE_LABELS,
    LookAction,
    Operation,
    OperationOutcome,
    action_of,
    done_text,
    needs_confirmation,
    question_of,
    read_value,
    scheduler_address,
    targets_of,
)
from scaler_protocol.monitor.operator_session import OperatorSession
from scaler_protocol.monitor.tables import TABLES
from scaler_protocol.profile import ProfileTree
from scaler_scheduler.top.operations import Operations
from scaler_scheduler.web.operations import PageOperations
from scaler_scheduler.web.sources import PageSource
from tests.support.threads import no_threads

HELLO = make_hello(Role.SUBMIT, bytes(16))
PAUSE = Operation(ControlAction.PAUSE, "vm-3")


class Talk:
    """A session, and the scheduler's end of it."""

    def __init__(self) -> None:
        self.session = OperatorSession(HELLO, PeerHandshake(), PAUSE, deadline=5.0)

    def sent(self) -> list[Body]:
        effects = self.session.take_effects()
        assert all(isinstance(each, Send) for each in effects)
        return [each.envelope.body for each in effects]

    def hears(self, body: Body, sequence: int = 0) -> None:
        self.session.on_message(Envelope(body, sequence))

    def is_welcomed(self, minor: int = 4) -> None:
        self.session.on_connected(b"")
        (hello,) = self.sent()
        assert getattr(hello, "role", None) == Role.SUBMIT
        self.hears(Welcome(HELLO.session, 1, 0, number=1, minor=minor))


def test_an_action_is_carried_out() -> None:
    talk = Talk()
    talk.is_welcomed()
    assert talk.sent() == [ControlRequest(1, ControlAction.PAUSE, "vm-3")]
    assert talk.session.outcome is None
    talk.hears(ControlReply(1, True, names=("vm-3",)), 1)
    assert talk.sent() == [Goodbye()]
    assert talk.session.outcome == OperationOutcome(True, "Paused vm-3.")


def test_the_scheduler_hears_which_monitor_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    hellos: list[Hello] = []

    def run(_: object, session: OperatorSession) -> OperationOutcome:
        session.on_connected(b"")
        hellos.extend(each.envelope.body for each in session.take_effects() if isinstance(each.envelope.body, Hello))
        return OperationOutcome(True, "")

    monkeypatch.setattr(operator, "_run", run)
    operator.operate(parse_address("tcp://127.0.0.1:5"), PAUSE, "scaler-scheduler", "scaler_top")
    assert [hello.program for hello in hellos] == ["scaler_top"]


@pytest.mark.parametrize(("action", "submit_key"), [(ControlAction.PAUSE, False), (ControlAction.CANCEL_GRAPH, True)])
def test_who_may_only_watch_hears_which_key_suffices(tmp_path: Path, action: ControlAction, submit_key: bool) -> None:
    (tmp_path / "observe.key").touch()
    asked = Operation(action, "x")
    outcome = operator.operate(parse_address("tcp://127.0.0.1:5"), asked, "scaler-scheduler", "scaler_top", tmp_path)
    assert not outcome.is_done and f"{tmp_path} has no key that permits it. Copy admin.key there" in outcome.text
    assert ("submit.key" in outcome.text) is submit_key


def test_a_refused_action_says_why() -> None:
    talk = Talk()
    talk.is_welcomed()
    talk.sent()
    talk.hears(ControlReply(1, False, "Cannot pause 'vm-3': nothing has this name."), 1)
    assert talk.session.outcome == OperationOutcome(False, "Cannot pause 'vm-3': nothing has this name.")


def test_a_refused_key_says_why() -> None:
    talk = Talk()
    talk.session.on_connected(b"")
    talk.hears(Refused(RefusalReason.ROLE, "This key may observe, not submit."))
    assert talk.session.outcome == OperationOutcome(False, "This key may observe, not submit.")


def test_an_old_scheduler_is_not_asked() -> None:
    talk = Talk()
    talk.is_welcomed(minor=3)
    assert talk.sent() == [Goodbye()]
    assert talk.session.outcome is not None and "too old" in talk.session.outcome.text


def test_a_forged_welcome_is_not_believed() -> None:
    session = OperatorSession(HELLO, PeerHandshake("tcp://127.0.0.1:1", bytes(32)), PAUSE, 5.0)
    session.on_connected(b"token")
    session.on_message(Envelope(Welcome(HELLO.session, 1, 0, number=1), 0))
    assert session.outcome is not None and session.outcome.text.startswith("Cannot trust the process")
    assert not any(isinstance(each.envelope.body, ControlRequest) for each in session.take_effects())


def test_a_connection_that_is_lost_before_the_request_is_made_again() -> None:
    talk = Talk()
    talk.session.on_connected(b"")
    talk.session.on_peer_lost()
    talk.session.on_connected(b"")
    assert talk.session.outcome is None
    assert len(talk.sent()) == 2


def test_a_connection_that_is_lost_after_the_request_leaves_the_outcome_open() -> None:
    talk = Talk()
    talk.is_welcomed()
    talk.session.on_peer_lost()
    assert talk.session.outcome is not None and "Check whether" in talk.session.outcome.text


@pytest.mark.parametrize("asked", [False, True])
def test_silence_ends_at_the_deadline(asked: bool) -> None:
    talk = Talk()
    if asked:
        talk.is_welcomed()
    talk.session.on_obstacle("Nothing listens there.")
    talk.session.on_deadline()
    assert talk.session.outcome is not None
    assert ("did not answer" if asked else "Nothing listens") in talk.session.outcome.text


def test_messages_that_make_no_sense_change_nothing() -> None:
    talk = Talk()
    talk.hears(ControlReply(1, True), 1)
    talk.hears(Welcome(HELLO.session, 1, 0, number=1))
    assert talk.session.outcome is None and talk.sent() == []


# ---- words -----------------------------------------------------------------------------------------------------------


def test_names_of_others_are_cut_and_harmless() -> None:
    question = question_of(Operation(ControlAction.CANCEL_FUNCTION, "\x1b[31m" + "f" * 10_000))
    assert len(question) < 150 and "\x1b" not in question


@pytest.mark.parametrize(
    ("names", "count", "action", "text"),
    [
        (("a", "b"), 0, ControlAction.DRAIN, "Draining a, b: they leave when the running tasks have ended."),
        (tuple("abcdefg"), 0, ControlAction.RESUME, "Resumed a, b, c, d, e and 2 others."),
        ((), 1, ControlAction.CANCEL_CLIENT, "Cancelled 1 task of client x."),
        ((), 1204, ControlAction.CANCEL_FUNCTION, "Cancelled 1,204 tasks of function x."),
        ((), 1, ControlAction.CANCEL_TASK, "Cancelled task x."),
        ((), 3, ControlAction.CANCEL_GRAPH, "Cancelled 3 tasks of graph x."),
        (("vm-0",), 0, ControlAction.KILL_WORKER, "Killed the process of worker vm-0. Another takes its place."),
        (("g",), 0, ControlAction.SET_GROUP_WEIGHT, "Gave group g the weight 2."),
        (("g",), 0, ControlAction.SET_GROUP_LIMIT, "Group g may use at most 2 workers."),
        ((), 1, ControlAction.SET_FUNCTION_PRIORITY, "Gave 1 waiting task of function x the priority 2."),
        ((), 0, ControlAction.SET_CLIENT_PRIORITY, "Nothing has changed: no task of x waits."),
    ],
)
def test_the_answer_says_what_happened(names: tuple[str, ...], count: int, action: ControlAction, text: str) -> None:
    assert done_text(Operation(action, "x", 2.0), names, count) == text


@pytest.mark.parametrize(("value", "words"), [(0.0, "any number of workers"), (1.0, "at most 1 worker")])
def test_a_limit_is_said_in_words(value: float, words: str) -> None:
    operation = Operation(ControlAction.SET_GROUP_LIMIT, "g", value)
    assert question_of(operation) == f"Let group g use {words}?"
    assert done_text(operation, ("g",), 0) == f"Group g may use {words}."


@pytest.mark.parametrize(
    ("watched", "listening", "reached"),
    [
        ("ipc:///tmp/monitor", "tcp://127.0.0.1:2345", "tcp://127.0.0.1:2345"),
        ("tcp://big:2346", "tcp://0.0.0.0:2345", "tcp://big:2345"),
        ("tcp://big:2346", "tcp://10.0.0.1:2345", "tcp://10.0.0.1:2345"),
        ("ipc:///tmp/monitor", "tcp://[::]:2345", "tcp://127.0.0.1:2345"),
        ("tcp://127.0.0.1:2345", "ipc:///tmp/scheduler", "ipc:///tmp/scheduler"),
    ],
)
def test_the_scheduler_of_a_monitor(watched: str, listening: str, reached: str) -> None:
    assert scheduler_address(parse_address(watched), parse_address(listening)) == parse_address(reached)


def test_a_snapshot_with_an_address_that_is_none_is_told() -> None:
    def perform(*_: object) -> OperationOutcome:
        raise AssertionError("nothing can be asked there")

    operations = Operations("tcp://127.0.0.1:5", perform)
    operations.begin(PAUSE, Snapshot(SchedulerStatus("no address", 1)))
    outcome = operations.take()
    operations.close()
    assert outcome is not None and not outcome.is_done and outcome.text.startswith("Cannot do this: ")


def test_an_action_for_which_there_is_no_thread_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def perform(*_: object) -> OperationOutcome:
        raise AssertionError("there is no thread that asks")

    operations = Operations("tcp://127.0.0.1:5", perform)
    with no_threads(monkeypatch):
        operations.begin(PAUSE, Snapshot(SchedulerStatus("tcp://127.0.0.1:5", 1)))
    outcome = operations.take()
    operations.close()
    assert outcome is not None and not outcome.is_done and "no more threads" in outcome.text


def test_an_action_of_a_page_for_which_there_is_no_thread_is_never_carried_out(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def perform(_: object, operation: Operation, *__: object) -> OperationOutcome:
        asked.append(operation.target)
        return OperationOutcome(True, "done")

    def refuse(*_: object) -> NoReturn:
        raise RuntimeError("can't start new thread")

    model = Model(0.0)
    model.apply(Snapshot(SchedulerStatus("tcp://127.0.0.1:5", 1)), 0.0)
    source = SimpleNamespace(watched="tcp://127.0.0.1:5", model=model)
    operations = PageOperations(cast(PageSource, source), True, perform)
    said = {"action": int(ControlAction.PAUSE), "target": "one", "is_confirmed": True}

    async def ask_twice() -> list[dict[str, Any]]:
        with monkeypatch.context() as patched:
            patched.setattr(threads, "start_new_thread", refuse)
            patched.setattr(threading.Thread, "start", refuse)
            first = await operations.answer(said)
        return [first, await operations.answer({**said, "target": "two"})]

    first, second = asyncio.run(ask_twice())
    assert not first["is_done"] and "no more threads" in first["text"]
    assert second["is_done"] and asked == ["two"]


def test_an_action_for_whose_connection_there_is_no_thread_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> NoReturn:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(operator, "DealerConnection", refuse)
    outcome = operator.operate(parse_address("tcp://127.0.0.1:5"), PAUSE, "scaler-scheduler", "scaler_top")
    assert not outcome.is_done and outcome.text.startswith("Cannot do this: the system allows no more threads")


def test_every_action_of_a_table_has_its_words_and_its_columns() -> None:
    for table, actions in ACTIONS_OF_TABLE.items():
        for action, columns in actions.items():
            assert ACTION_LABELS[action]
            assert all(TABLES[table].index(key) >= 0 for key in columns)
            operation = Operation(action, "a target", 2.0)
            assert action_of(int(action)) is action
            if not needs_confirmation(operation):
                continue
            assert "a target" in done_text(operation, (), 3)
            assert "a target" in question_of(operation) and ("2" in question_of(operation)) is (action in VALUE_LABELS)


def test_the_target_of_a_row_is_made_of_its_columns() -> None:
    spec = TABLES["graphs"]
    row = tuple("abcd" if column.key == "session" else 12 for column in spec.columns)
    assert targets_of(spec, row) == {ControlAction.CANCEL_GRAPH: "abcd/12"}
    ended = tuple("" for _ in TABLES["clients"].columns)
    assert targets_of(TABLES["clients"], ended) == {}
    assert targets_of(TABLES["settings"], ("a", "b")) == {}


@pytest.mark.parametrize(("text", "number"), [("2", 2.0), (" -1.5 ", -1.5), ("inf", None), ("x", None), ("", None)])
def test_a_typed_number(text: str, number: float | None) -> None:
    assert read_value(text) == number


# ---- stacks and profiles ---------------------------------------------------------------------------------------------


def talk_about(action: LookAction, target: str) -> Talk:
    talk = Talk()
    talk.session = OperatorSession(HELLO, PeerHandshake(), Operation(action, target), deadline=5.0)
    talk.is_welcomed()
    return talk


def test_a_stack_is_shown() -> None:
    talk = talk_about(LookAction.STACK, "vm-3-0")
    assert talk.sent() == [StackRequest(1, bytes(16), 0, "vm-3-0")]
    talk.hears(StackReply(1, True, "Thread 1"), 1)
    assert talk.sent() == [Goodbye()]
    assert talk.session.outcome == OperationOutcome(True, "Stack of vm-3-0", "Thread 1")


def test_a_stack_that_cannot_be_shown_says_why() -> None:
    talk = talk_about(LookAction.STACK, "vm-3-0")
    talk.hears(StackReply(1, False, "Cannot show the stack: the worker has no task."), 1)
    assert talk.session.outcome == OperationOutcome(False, "Cannot show the stack: the worker has no task.")


def test_a_profile_is_taken_for_some_seconds_and_cut_to_its_target() -> None:
    talk = talk_about(LookAction.PROFILE_FUNCTION, "price")
    assert talk.sent() == [ProfileRequest(1, bytes(16), 20_000)]
    talk.hears(ProfileReply(1, True), 1)
    assert talk.session.wait_seconds == PROFILE_SECONDS and talk.session.outcome is None
    talk.session.on_deadline()
    assert talk.sent() == [ProfileRequest(1, bytes(16), 0)]
    tree = ProfileTree()
    tree.add(("w", "aa", "price", "exp"), 5)
    tree.add(("w", "aa", "load"), 7)
    talk.hears(ProfileReply(1, True, "", 2, tree.to_bytes()), 2)
    talk.hears(ProfileReply(1, True, "", 1, b"garbage"), 3)
    assert talk.session.outcome is None
    talk.hears(ProfileReply(1, True, "", 0, tree.to_bytes()), 4)
    outcome = talk.session.outcome
    assert outcome is not None and outcome.is_done and outcome.profile is not None
    assert outcome.profile.total_us == 10 and "exp" in outcome.report and "load" not in outcome.report


def test_a_profile_that_is_refused_or_never_ends_says_so() -> None:
    talk = talk_about(LookAction.PROFILE_WORKER, "w")
    talk.hears(ProfileReply(1, False, "Cannot begin a profile: too many."), 1)
    assert talk.session.outcome == OperationOutcome(False, "Cannot begin a profile: too many.")
    talk = talk_about(LookAction.PROFILE_WORKER, "w")
    talk.hears(ProfileReply(1, True), 1)
    talk.session.on_deadline()
    talk.session.on_deadline()
    assert talk.session.outcome is not None and "did not answer" in talk.session.outcome.text


def test_a_number_that_no_action_has() -> None:
    for number in (99, 104, -1):
        with pytest.raises(ValueError):
            action_of(number)
