"""The client session against a scheduler's end that is driven by hand, in virtual time."""

from __future__ import annotations

import math
import operator
import pickle
from collections.abc import Sequence

import pytest

from scaler.client.calls import shape_of
from scaler.core.effects import PushObject, WriteOutput
from scaler.core.large_results import LargeResult
from scaler.core.outcome import DISCONNECTED
from scaler.core.outgoing import BATCH_LIMIT_BYTES
from scaler.core.session import SCHEDULER
from scaler.core.upload_queue import FIRST_LIMIT_BYTES
from scaler.core.uploads import FIRST_PIECE_BYTES, Stored
from scaler_protocol.messages import (
    CHUNK_SIZE_BYTES,
    CONTROL_SINCE_MINOR,
    OBJECT_WINDOW_BYTES,
    OBJECTS_STORED_SINCE_MINOR,
    Body,
    Cancel,
    Clear,
    ClusterInfoReply,
    ClusterInfoRequest,
    ControlAction,
    ControlRequest,
    Envelope,
    ExplainRequest,
    Explanation,
    Goodbye,
    ObjectChunk,
    ObjectCredit,
    ObjectKey,
    ObjectLocations,
    ObjectRelease,
    ObjectRequest,
    ObjectsStored,
    ObjectStored,
    Output,
    Ping,
    ProfileReply,
    ProfileRequest,
    RefusalReason,
    Refused,
    Results,
    ShutdownReply,
    ShutdownRequest,
    StackRequest,
    Status,
    TaskOptions,
    Tasks,
    WhoAreYou,
)
from tests.unit.client.scheduler_side import SESSION, SchedulerSide, Sink, success, tasks_in

# ---- batches -------------------------------------------------------------------------------------------------------


def test_nothing_leaves_before_the_welcome() -> None:
    side = SchedulerSide()
    side.submit(math.sqrt, 4.0)
    assert side.exchange() == []
    side.session.on_connected(side.now)
    assert side.exchange() == [] and side.hellos[0].session == SESSION
    side.welcome()
    assert tasks_in(side.exchange()) == [1]


def test_an_idle_session_sends_at_once_and_a_busy_one_collects(side: SchedulerSide) -> None:
    side.submit(math.sqrt, 1.0)
    assert tasks_in(side.exchange()) == [1]
    for value in range(5):
        side.submit(math.sqrt, float(value))
        assert side.exchange() == []
    assert tasks_in(side.acknowledge()) == [2, 3, 4, 5, 6]


def test_a_full_batch_does_not_wait(side: SchedulerSide) -> None:
    side.submit(math.sqrt, 1.0)
    side.exchange()
    count = BATCH_LIMIT_BYTES // 1000 + 1
    for _ in range(count):
        side.submit(len, b"x" * 1000)
    assert len(tasks_in(side.exchange())) == count


def test_whoever_waits_makes_the_open_batch_leave(side: SchedulerSide) -> None:
    side.submit(math.sqrt, 1.0)
    side.exchange()
    side.submit(math.sqrt, 2.0)
    assert side.exchange() == []
    assert side.session.submissions.ask_flush()
    assert tasks_in(side.exchange()) == [2]


def test_alternating_functions_make_one_run_each(side: SchedulerSide) -> None:
    side.submit(math.sqrt, 0.0)
    side.exchange()
    for value in range(10):
        side.submit(math.sqrt, float(value))
        side.submit(math.exp, float(value))
    (message,) = side.acknowledge()
    assert isinstance(message, Tasks)
    assert [(run.first_task, run.count) for run in message.runs] == [(2, 10), (12, 10)]


def test_a_function_rides_with_its_first_batch_only(side: SchedulerSide) -> None:
    side.submit(math.sqrt, 1.0)
    (first,) = side.exchange()
    side.submit(math.sqrt, 2.0)
    (second,) = side.acknowledge()
    assert isinstance(first, Tasks) and isinstance(second, Tasks)
    assert [definition.name for definition in first.functions] == ["sqrt"]
    assert second.functions == []


def test_options_separate_runs(side: SchedulerSide) -> None:
    side.submit(math.sqrt, 0.0)
    side.exchange()
    side.submit(math.sqrt, 1.0, options=TaskOptions(priority=1))
    side.submit(math.sqrt, 1.0, options=TaskOptions(priority=2))
    (message,) = side.acknowledge()
    assert isinstance(message, Tasks)
    assert [run.options.priority for run in message.runs] == [1, 2]


# ---- results -------------------------------------------------------------------------------------------------------


def test_results_find_their_sinks_in_any_order(side: SchedulerSide) -> None:
    sinks = [side.submit(math.sqrt, float(value)) for value in range(3)]
    side.exchange()
    side.say(Results([side.results((3, *success(2)), (1, *success(0)), (99, *success(9)), (2, *success(1)))]))
    assert [pickle.loads(sink.outcomes[0].payload) for sink in sinks] == [0, 1, 2]
    assert not side.session.has_unfinished


def test_a_result_counts_once(side: SchedulerSide) -> None:
    sink = side.submit(math.sqrt, 4.0)
    side.exchange()
    side.say(Results([side.results((1, *success(2.0)))]))
    side.say(Results([side.results((1, *success(3.0)))]))
    assert [pickle.loads(outcome.payload) for outcome in sink.outcomes] == [2.0]


def test_what_is_received_is_acknowledged_in_time(side: SchedulerSide) -> None:
    side.submit(math.sqrt, 4.0)
    side.exchange()
    side.say(Results([side.results((1, *success(2.0)))]))
    assert side.link.in_flight == 1
    side.exchange()
    for _ in range(3):
        envelopes = side.session.next_deadline()
        assert envelopes is not None
        side.pass_time(max(0.0, envelopes - side.now))
    assert side.session._connection.link.owes_acknowledgement is False


# ---- cancelling ----------------------------------------------------------------------------------------------------


def test_a_task_cancelled_before_it_leaves_never_leaves(side: SchedulerSide) -> None:
    side.submit(math.sqrt, 0.0)
    side.exchange()
    sinks = [side.submit(math.sqrt, float(value)) for value in range(4)]
    assert side.cancel(sinks[0]) and side.cancel(sinks[2])
    bodies = side.acknowledge()
    assert tasks_in(bodies) == [3, 5]
    assert not any(isinstance(body, Cancel) for body in bodies)


def test_a_sent_task_is_cancelled_by_message_and_its_result_is_dropped(side: SchedulerSide) -> None:
    sink = side.submit(math.sqrt, 0.0)
    side.exchange()
    assert side.cancel(sink)
    assert not side.cancel(sink)
    assert side.exchange() == []  # a millisecond, so that many cancels travel together
    (message,) = side.pass_time(0.002)
    assert isinstance(message, Cancel) and message.columns[0].tasks == (1,)
    side.say(Results([side.results((1, *success(0.0)))]))
    assert sink.outcomes == []


def test_clear_ends_everything(side: SchedulerSide) -> None:
    sinks = [side.submit(math.sqrt, float(value)) for value in range(3)]
    side.exchange()
    side.session.clear()
    assert [sink.outcomes[0].status for sink in sinks] == [Status.CANCELLED] * 3
    assert side.exchange() == [Clear()]
    again = side.submit(math.sqrt, 1.0)
    (message,) = side.acknowledge()
    assert isinstance(message, Tasks) and message.functions  # the scheduler dropped it too
    assert again.outcomes == []


# ---- connection ----------------------------------------------------------------------------------------------------


def test_a_resumed_session_repeats_what_was_lost(side: SchedulerSide) -> None:
    side.submit(math.sqrt, 0.0)
    side.session.take_effects(side.now)  # lost on the way
    side.session.on_peer_lost(b"", side.now)
    side.session.on_connected(side.now)
    side.exchange()
    assert side.hellos[-1].epoch == 7
    side.welcome(7, resumed=True)
    assert tasks_in(side.exchange()) == [1]


def test_a_restarted_scheduler_is_told_of_all_that_is_unfinished(side: SchedulerSide) -> None:
    sinks = [side.submit(math.sqrt, float(value)) for value in range(4)]
    side.exchange()
    side.say(Results([side.results((2, *success(1.0)))]))
    waiting = side.submit(math.exp, 1.0)
    side.session.on_peer_lost(b"", side.now)
    side.connect(epoch=8)
    bodies = [*side.exchange(), *side.acknowledge()]
    assert tasks_in(bodies) == [1, 3, 4, 5]
    again = [body for body in bodies if isinstance(body, Tasks) and body.resubmitted]
    assert tasks_in(again) == [1, 3, 4]
    assert {definition.name for body in bodies if isinstance(body, Tasks) for definition in body.functions} == {
        "sqrt",
        "exp",
    }
    assert all(not sink.outcomes for sink in (sinks[0], sinks[2], sinks[3], waiting))


def test_cancelled_tasks_are_not_stated_again(side: SchedulerSide) -> None:
    sinks = [side.submit(math.sqrt, float(value)) for value in range(3)]
    side.exchange()
    side.cancel(sinks[1])
    side.connect(epoch=8)
    bodies = side.exchange()
    assert tasks_in(bodies) == [1, 3]


def cancelled_in(bodies: list[Body]) -> list[int]:
    return [task for body in bodies if isinstance(body, Cancel) for column in body.columns for task in column.tasks]


@pytest.mark.parametrize("was_sent", [True, False])
def test_cancels_that_were_not_acknowledged_are_stated_again(side: SchedulerSide, was_sent: bool) -> None:
    """A scheduler that was stopped, and killed then, has told no agent of them."""
    sinks = [side.submit(math.sqrt, float(value)) for value in range(3)]
    side.exchange()
    side.acknowledge()
    if not was_sent:
        side.session.on_peer_lost(SCHEDULER, side.now)
    side.cancel(sinks[1])
    assert cancelled_in(side.exchange()) == ([2] if was_sent else [])
    side.connect(epoch=8)
    assert cancelled_in(side.exchange()) == [2]


def test_a_cancel_that_was_acknowledged_is_not_stated_again(side: SchedulerSide) -> None:
    sinks = [side.submit(math.sqrt, float(value)) for value in range(3)]
    side.exchange()
    side.acknowledge()
    side.cancel(sinks[1])
    assert cancelled_in(side.exchange()) == [2]
    side.acknowledge()
    side.connect(epoch=8)
    assert cancelled_in(side.exchange()) == []


def test_who_are_you_is_answered_with_hello(side: SchedulerSide) -> None:
    count = len(side.hellos)
    side.deliver(Envelope(WhoAreYou()))
    side.exchange()
    assert len(side.hellos) == count + 1
    side.submit(math.sqrt, 0.0)
    assert side.exchange() == []


def test_a_gap_makes_the_client_say_hello(side: SchedulerSide) -> None:
    side.link.wrap(Explanation(1, ""))  # lost
    count = len(side.hellos)
    side.say(Explanation(2, ""))
    side.exchange()
    assert len(side.hellos) == count + 1


def test_out_of_reach_fails_what_waits_and_clears_later() -> None:
    side = SchedulerSide(timeout_seconds=5)
    side.connect()
    sink = side.submit(math.sqrt, 0.0)
    side.exchange()
    side.session.on_peer_lost(b"", side.now)
    side.pass_time(4.9)
    assert not sink.outcomes
    side.pass_time(0.2)
    assert sink.outcomes[0].status == DISCONNECTED
    side.connect(resumed=True)
    bodies = side.exchange()
    assert Clear() in bodies and tasks_in(bodies) == []


def test_hello_is_repeated_until_answered() -> None:
    side = SchedulerSide()
    side.session.on_connected(side.now)
    side.exchange()
    side.pass_time(1.1)
    assert len(side.hellos) == 2


def test_a_refusal_ends_everything() -> None:
    side = SchedulerSide()
    sink = side.submit(math.sqrt, 0.0)
    side.session.on_connected(side.now)
    side.exchange()
    side.deliver(Envelope(Refused(RefusalReason.TOKEN, "Another user's scheduler.")))
    assert sink.outcomes[0].status == DISCONNECTED
    assert side.session.refusal == "Another user's scheduler."


def test_what_is_asked_after_a_refusal_fails_with_its_reason() -> None:
    side = SchedulerSide()
    side.session.on_connected(side.now)
    side.exchange()
    side.deliver(Envelope(Refused(RefusalReason.TOKEN, "Another user's scheduler.")))
    assert side.session.next_deadline() is None
    welcome, information = Sink(), Sink()

    def fails(sink: Sink) -> bool:
        side.pass_time(0.0)
        (outcome,) = sink.outcomes
        is_told = outcome.status == DISCONNECTED and outcome.payload == b"Another user's scheduler."
        return is_told and side.session.next_deadline() is None and len(side.hellos) == 1

    assert fails(side.submit(math.sqrt, 0.0))
    side.session.questions.await_welcome(welcome)
    assert fails(welcome)
    side.session.questions.ask_cluster_info(information)
    assert fails(information)


def test_an_idle_client_pings(side: SchedulerSide) -> None:
    assert Ping() in side.pass_time(2.1)


def test_idle_clients_ping_together() -> None:
    """In the last slot before the interval has passed, by the clocks of all hosts."""
    side = SchedulerSide(wall_offset_seconds=1000.02)
    side.connect()
    assert side.session.next_deadline() == pytest.approx(101.98)
    assert Ping() in side.pass_time(1.981)
    assert side.session.next_deadline() == pytest.approx(103.98)


def test_goodbye(side: SchedulerSide) -> None:
    sink = side.submit(math.sqrt, 0.0)
    side.exchange()
    side.session.quit(side.now)
    assert sink.outcomes[0].status == Status.CANCELLED
    assert Goodbye() in side.exchange()


# ---- requests ------------------------------------------------------------------------------------------------------


def test_explanations_and_shutdown_reach_who_asked(side: SchedulerSide) -> None:
    task, answer, end = side.submit(math.sqrt, 0.0), Sink(), Sink()
    side.exchange()
    side.session.explain(1, answer)
    side.session.questions.shut_down(end)
    assert side.exchange() == [ExplainRequest(1), ShutdownRequest()]
    side.say(Explanation(1, "It waits."))
    side.say(ShutdownReply(False, "no"))
    assert answer.outcomes[0].payload == b"It waits."
    assert (end.outcomes[0].status, end.outcomes[0].payload) == (Status.EXCEPTION, b"no")
    assert not task.outcomes


def test_the_end_of_a_profile_does_not_take_the_answer_to_its_beginning(side: SchedulerSide) -> None:
    beginning, end = Sink(), Sink()
    side.session.questions.profile(1, 5_000, beginning)
    side.session.questions.profile(1, 0, end)  # the coroutine that awaited the beginning was cancelled
    assert side.exchange() == [ProfileRequest(1, bytes(16), 5_000), ProfileRequest(1, bytes(16), 0)]
    side.say(ProfileReply(1, True))
    assert beginning.outcomes[0].status == Status.SUCCESS and not end.outcomes
    side.say(ProfileReply(1, True, "", 1, b"first host"))
    side.say(ProfileReply(1, True, "", 0, b"second host"))
    assert end.outcomes[0].payload == [b"first host", b"second host"]


def test_a_profile_of_a_scheduler_that_is_too_old_fails() -> None:
    side, end = SchedulerSide(), Sink()
    side.session.questions.profile(1, 5_000, end)
    side.session.on_connected(side.now)
    side.exchange()
    side.welcome(minor=CONTROL_SINCE_MINOR - 1)
    assert ProfileRequest(1, bytes(16), 5_000) not in side.exchange()
    assert end.outcomes[0].status == Status.EXCEPTION and b"too old" in bytes(end.outcomes[0].payload)


def test_what_tasks_print_is_written(side: SchedulerSide) -> None:
    side.say(Output(SESSION, 1, 2, b"text"))
    assert WriteOutput(2, b"text") in side.session.take_effects(side.now)


# ---- a scheduler that is away ----------------------------------------------------------------------------------------

ADDRESS = "tcp://127.0.0.1:2345"


def test_waiting_for_a_scheduler_is_told_once_after_a_second() -> None:
    side = SchedulerSide(address=ADDRESS)
    assert side.session.next_deadline() == side.now + 1
    side.pass_time(0.9)
    assert not side.lines
    side.pass_time(0.2)
    assert len(side.lines) == 1 and "none answers" in side.lines[0]
    assert side.lines[0].endswith(f"Start one there with: scaler_scheduler {ADDRESS}")
    side.pass_time(100)
    assert len(side.lines) == 1


def test_each_loss_is_told_when_it_lasts() -> None:
    side = SchedulerSide(address=ADDRESS)
    side.connect()
    side.pass_time(5)
    assert not side.lines
    for number in range(1, 3):
        side.session.on_peer_lost(b"", side.now)
        side.pass_time(0.5)
        side.connect(epoch=number)
        side.session.on_peer_lost(b"", side.now)
        side.pass_time(1.1)
        side.pass_time(1.1)
        assert len(side.lines) == number and "connection is lost" in side.lines[-1] and ADDRESS in side.lines[-1]
        side.connect(epoch=number + 10)


def test_something_else_that_listens_there_is_told() -> None:
    side = SchedulerSide(address=ADDRESS)
    side.session.on_connected(side.now)
    side.pass_time(1.1)
    assert "does not answer as one" in side.lines[0]


def test_a_client_inside_a_task_tells_nothing() -> None:
    side = SchedulerSide(address=ADDRESS, parent=b"p" * 16)
    side.pass_time(5)
    assert not side.lines and side.session.next_deadline() is None


# ---- objects -------------------------------------------------------------------------------------------------------


def large_submit(side: SchedulerSide, data: bytes) -> tuple[Sink, ObjectKey]:
    upload = side.session.objects.add(side.session.objects.next_key(), data)
    sink = Sink()
    side.session.submissions.add(shape_of(side.book.find(len), 1, (), TaskOptions()), [upload.key], 24, sink)
    side.session.objects.refer(sink.task_range, sink.task_index, [upload])
    side.session.objects.let_go(upload)
    return sink, upload.key


def pieces_in(bodies: list[Body]) -> list[ObjectChunk]:
    return [body for body in bodies if isinstance(body, ObjectChunk)]


def test_an_upload_keeps_to_its_credit_and_its_task_is_not_behind_it(side: SchedulerSide) -> None:
    size = OBJECT_WINDOW_BYTES + 3 * CHUNK_SIZE_BYTES
    _, key = large_submit(side, bytes(size))
    bodies = side.exchange()
    assert [type(body) for body in bodies[:3]] == [ObjectChunk, Tasks, ObjectChunk]
    while more := side.acknowledge():
        bodies += more
    chunks = pieces_in(bodies)
    assert sum(len(chunk.data) for chunk in chunks) == OBJECT_WINDOW_BYTES
    assert all(chunk.size == size and 0 < len(chunk.data) <= CHUNK_SIZE_BYTES for chunk in chunks)
    side.say(ObjectCredit(key, 2 * CHUNK_SIZE_BYTES))
    chunks += pieces_in(side.exchange())
    assert sum(len(chunk.data) for chunk in chunks) == OBJECT_WINDOW_BYTES + 2 * CHUNK_SIZE_BYTES
    ends = [chunk.offset + len(chunk.data) for chunk in chunks]
    assert [chunk.offset for chunk in chunks] == [0, *ends[:-1]]


def test_small_tasks_leave_at_once_while_an_object_is_on_its_way(side: SchedulerSide) -> None:
    large_submit(side, bytes(8_000_000))
    sent = sum(len(piece.data) for piece in pieces_in(side.exchange()))
    assert sent <= FIRST_LIMIT_BYTES + FIRST_PIECE_BYTES
    for task in range(2, 8):  # nothing has been acknowledged
        side.submit(math.sqrt, 4.0)
        assert side.session.submissions.ask_flush()
        assert tasks_in(side.exchange()) == [task]


def test_a_small_object_passes_a_large_one(side: SchedulerSide) -> None:
    large_submit(side, bytes(8_000_000))
    side.exchange()
    _, small = large_submit(side, bytes(60_000))
    bodies: list[Body] = []
    while sum(len(piece.data) for piece in pieces_in(bodies) if piece.key == small) < 60_000:
        side.now += 0.2  # the uplink is slow
        bodies += side.acknowledge()
    assert sum(len(piece.data) for piece in pieces_in(bodies)) < 600_000


def test_pieces_follow_one_another_when_more_waits_than_may_be_under_way(side: SchedulerSide) -> None:
    for _ in range(100):
        large_submit(side, bytes(60_000))
    bodies = side.exchange()
    while more := side.acknowledge():
        bodies += more
    received: dict[ObjectKey, int] = {}
    for piece in pieces_in(bodies):
        assert piece.offset == received.get(piece.key, 0)
        received[piece.key] = piece.offset + len(piece.data)
    assert list(received.values()) == [60_000] * 100 and tasks_in(bodies) == list(range(1, 101))


def test_an_object_that_was_dropped_is_not_sent_to_its_end(side: SchedulerSide) -> None:
    sink, key = large_submit(side, bytes(8_000_000))
    side.exchange()
    assert side.cancel(sink)
    bodies = [*side.exchange(), *side.acknowledge()]
    assert ObjectRelease((key,)) in bodies and not pieces_in(bodies)
    assert not side.session._outgoing


def test_a_large_function_is_sent_in_pieces(side: SchedulerSide) -> None:
    text = "x" * 3_000_000
    side.submit(lambda: text)
    bodies = side.exchange()
    assert tasks_in(bodies) == [1]
    while more := side.acknowledge():
        bodies += more
    pieces = pieces_in(bodies)
    assert sum(len(piece.data) for piece in pieces) == pieces[0].size > 3_000_000
    assert not side.session.objects.uploads


def test_pieces_that_were_lost_are_sent_again(side: SchedulerSide) -> None:
    large_submit(side, bytes(1_000_000))
    side.session.take_effects(side.now)  # they are lost with the connection
    side.session.on_peer_lost(b"", side.now)
    side.connect(epoch=side.epoch, resumed=True)
    pieces = pieces_in(side.exchange())
    while more := side.acknowledge():
        pieces += pieces_in(more)
    assert sum(len(piece.data) for piece in pieces) == 1_000_000
    assert side.session._outgoing.uploads.bytes_under_way == 0


def test_an_argument_is_released_when_its_last_task_ended(side: SchedulerSide) -> None:
    _, key = large_submit(side, b"x" * 100_000)
    side.exchange()
    side.acknowledge()
    side.say(Results([side.results((1, *success(100_000)))]))
    assert ObjectRelease((key,)) in side.exchange()


def test_uploads_are_repeated_to_a_restarted_scheduler(side: SchedulerSide) -> None:
    large_submit(side, b"x" * 100_000)
    side.exchange()
    side.connect(epoch=8)
    bodies = side.exchange()
    kinds = [type(body) for body in bodies]
    assert kinds.index(ObjectChunk) < kinds.index(Tasks) and tasks_in(bodies) == [1]


def large_result(side: SchedulerSide, size: int) -> tuple[Sink, LargeResult]:
    sink = side.submit(operator.mul, b"x", size)
    side.exchange()
    side.say(Results([side.results((1, int(Status.SUCCESS_LARGE), size.to_bytes(8, "little")))]))
    large = sink.outcomes[0].payload
    assert isinstance(large, LargeResult) and large.size == size
    return sink, large


def test_a_large_result_is_fetched_in_pieces_and_released(side: SchedulerSide) -> None:
    _, large = large_result(side, 100)
    assert side.session.has_unfinished
    answer, key = Sink(), ObjectKey(SESSION, 1)
    side.session.large.fetch(large, answer)
    assert ObjectRequest(key) in side.exchange()
    side.say(ObjectChunk(key, 100, 0, b"a" * 60))
    assert ObjectCredit(key, 60) in side.exchange()
    side.say(ObjectChunk(key, 100, 60, b"b" * 40))
    assert bytes(answer.outcomes[0].payload) == b"a" * 60 + b"b" * 40
    assert ObjectRelease((key,)) in side.exchange()
    assert not side.session.has_unfinished


def test_a_large_result_nobody_wants_is_released(side: SchedulerSide) -> None:
    sink, large = large_result(side, 100)
    sink.outcomes.clear()
    del large
    assert ObjectRelease((ObjectKey(SESSION, 1),)) in side.exchange()
    assert not side.session.has_unfinished


def test_a_large_result_whose_agent_died_starts_anew(side: SchedulerSide) -> None:
    _, large = large_result(side, 100)
    answer, key = Sink(), ObjectKey(SESSION, 1)
    side.session.large.fetch(large, answer)
    side.exchange()
    side.say(ObjectChunk(key, 100, 0, b"a" * 60))
    side.say(Results([side.results((1, int(Status.SUCCESS_LARGE), (90).to_bytes(8, "little")))]))
    assert ObjectRequest(key) in side.exchange()
    side.say(ObjectChunk(key, 90, 0, b"c" * 90))
    assert bytes(answer.outcomes[0].payload) == b"c" * 90


def test_a_large_result_that_failed_on_its_second_run_fails_its_fetch(side: SchedulerSide) -> None:
    _, large = large_result(side, 100)
    answer = Sink()
    side.session.large.fetch(large, answer)
    side.exchange()
    side.say(Results([side.results((1, int(Status.WORKER_DIED), b"gone"))]))
    assert answer.outcomes[0].status == Status.WORKER_DIED
    assert not side.session.has_unfinished


def test_an_unfetched_large_result_is_stated_again(side: SchedulerSide) -> None:
    _, large = large_result(side, 100)
    side.connect(epoch=8)
    assert tasks_in(side.exchange()) == [1]
    assert large.size == 100


def add_stored(side: SchedulerSide, stores: Sequence[bytes]) -> list[ObjectKey]:
    keys = [side.session.objects.next_key() for _ in stores]
    for size, (key, store) in enumerate(zip(keys, stores, strict=True), 40_000):
        side.session.objects.add(key, Stored(size, store, lambda _: None))
    return keys


def test_objects_in_one_store_are_announced_with_one_message(side: SchedulerSide) -> None:
    one, other = b"1" * 16, b"2" * 16
    keys = add_stored(side, [one, one, one, other])
    numbers = tuple(key.number for key in keys[:3])
    assert side.exchange() == [
        ObjectsStored(side.session.session, numbers, (40_000, 40_001, 40_002), one),
        ObjectStored(keys[3], 40_003, other),
    ]


def test_a_scheduler_that_knows_no_other_message_is_told_of_each_object(side: SchedulerSide) -> None:
    side.connect(epoch=8, minor=OBJECTS_STORED_SINCE_MINOR - 1)
    side.exchange()
    keys = add_stored(side, [b"1" * 16] * 2)
    assert side.exchange() == [ObjectStored(key, size, b"1" * 16) for size, key in enumerate(keys, 40_000)]


def test_an_object_that_the_client_keeps_is_announced_and_pushed(side: SchedulerSide) -> None:
    session, content = side.session, memoryview(b"x" * 5_000_000)
    key = session.objects.next_key()
    upload = session.objects.add(key, Stored(len(content), b"", lambda _: content))
    assert ObjectStored(key, len(content), b"") in side.exchange()
    side.say(ObjectLocations(key, len(content), ("tcp://there",)))
    pushes = [effect for effect in session.take_effects(side.now) if isinstance(effect, PushObject)]
    assert pushes == [PushObject(key, content, "tcp://there")]
    session.objects.on_request(ObjectRequest(key), side.now)  # it could not be pushed
    assert any(isinstance(body, ObjectChunk) and body.key == key for body in side.exchange())
    session.objects.let_go(upload)
    session.objects.on_locations(ObjectLocations(key, len(content), ("tcp://there",)), side.now)
    assert not [effect for effect in session.take_effects(side.now) if isinstance(effect, PushObject)]


def test_questions_without_an_answer_are_asked_again_after_a_restart_of_the_scheduler(side: SchedulerSide) -> None:
    """They follow the tasks: before, the scheduler would not know the task."""
    side.submit(math.sqrt, 0.0)
    side.exchange()
    explanation, info = Sink(), Sink()
    side.session.explain(1, explanation)
    side.session.questions.ask_cluster_info(info)
    assert side.exchange() == [ExplainRequest(1), ClusterInfoRequest()]
    side.connect(epoch=8)
    bodies = side.exchange()
    assert tasks_in(bodies) == [1] and bodies[-2:] == [ExplainRequest(1), ClusterInfoRequest()]
    side.say(Explanation(1, "It waits."))
    side.say(ClusterInfoReply(b"snapshot"))
    assert explanation.outcomes and info.outcomes


def test_requests_that_an_earlier_scheduler_may_have_carried_out_are_not_repeated(side: SchedulerSide) -> None:
    ask = side.session.questions
    sent, unsent = [Sink() for _ in range(4)], Sink()
    ask.shut_down(sent[0])
    ask.control(ControlAction.PAUSE, "worker", 0.0, sent[1])
    ask.ask_stack(1, "", sent[2])
    ask.profile(1, 5_000, sent[3])
    assert len(side.exchange()) == 4
    side.session.on_peer_lost(SCHEDULER, side.now)
    ask.control(ControlAction.RESUME, "worker", 0.0, unsent)
    side.connect(epoch=8)
    (again,) = [body for body in side.exchange() if isinstance(body, (ControlRequest, ShutdownRequest, StackRequest))]
    assert isinstance(again, ControlRequest) and again.action == ControlAction.RESUME
    assert all(b"has been restarted" in bytes(sink.outcomes[0].payload) for sink in sent) and not unsent.outcomes
