from __future__ import annotations

import random
from array import array
from dataclasses import replace

import pytest

from scaler_protocol import codec
from scaler_protocol.codec import (
    MalformedMessage,
    ResultRun,
    ResultRunBuilder,
    TaskRun,
    TaskRunBuilder,
    decode,
    encode,
)
from scaler_protocol.messages import (
    MAP_TASKS_UNKNOWN,
    MESSAGE_LIMIT_BYTES,
    UNNUMBERED,
    Body,
    Capability,
    ControlRequest,
    Envelope,
    FunctionDefinition,
    ObjectKey,
    Relay,
    Results,
    Status,
    TaskOptions,
    Tasks,
    Withdraw,
)
from tests.unit.protocol import samples


def round_trip(body: Body) -> Body:
    envelope = Envelope(body, 5, 6)
    received = decode(encode(envelope))
    assert (received.sequence, received.acknowledged) == (5, 6)
    return received.body


def contents(run: TaskRun) -> list[list[bytes | ObjectKey]]:
    return [run.slot_bytes(index) for index in range(run.count)]


def rows(run: ResultRun) -> list[tuple[object, ...]]:
    return [(*row[:3], bytes(row[3]), *row[4:]) for row in run.rows()]


@pytest.mark.parametrize("envelope", samples.all_envelopes(), ids=lambda envelope: samples.name_of(envelope.body))
def test_every_body_comes_back_equal(envelope: Envelope) -> None:
    assert decode(encode(envelope)) == envelope


@pytest.mark.parametrize("body", samples.full_bodies(), ids=lambda body: samples.name_of(body))
def test_every_field_of_a_body_comes_back(body: Body) -> None:
    assert round_trip(body) == body


def test_every_option_of_a_task_comes_back() -> None:
    run = samples.plain_run().with_options(samples.FULL_OPTIONS)
    received = round_trip(Tasks([run]))
    assert isinstance(received, Tasks) and received.runs[0].options == samples.FULL_OPTIONS
    defaults = TaskOptions()
    same = [
        field
        for field in TaskOptions.__dataclass_fields__
        if getattr(samples.FULL_OPTIONS, field) == getattr(defaults, field)
    ]
    assert same == ["rerun"], "an option without a value is not tested"


@pytest.mark.parametrize("name", TaskOptions.__dataclass_fields__)
def test_each_option_of_a_task_comes_back_without_the_others(name: str) -> None:
    options = replace(TaskOptions(), **{name: getattr(samples.FULL_OPTIONS, name)})
    received = round_trip(Tasks([samples.plain_run().with_options(options)]))
    assert isinstance(received, Tasks) and received.runs[0].options == options


def test_samples_have_every_body() -> None:
    from scaler_protocol.bodies import BODIES

    sampled = [type(body) for body in samples.all_bodies()]
    missing = [body.__name__ for body in BODIES if body not in sampled]
    assert not missing, f"Add a sample of each to samples.py: {', '.join(missing)}"
    assert sampled == list(BODIES), "The samples are in the order of the union of message.capnp, like messages.Body."
    assert set(UNNUMBERED) <= set(BODIES)


def test_hello_comes_back_even_with_a_session_that_cannot_be() -> None:
    """So that the refusal can say what is wrong."""
    from scaler_protocol.messages import Hello, Role

    hello = Hello(Role.SUBMIT, b"short", major=99)
    assert round_trip(hello) == hello


# ---- task runs ------------------------------------------------------------------------------------------------------


def test_slots() -> None:
    run = samples.rich_run()
    assert (run.count, run.arity, run.attempt, run.first_task) == (4, 2, 3, 2**40)
    assert run.keywords == ("keyword",)
    assert bytes(run.slot(1, 1)) == b"def"
    assert run.slot(0, 1) == samples.KEY
    assert isinstance(run.slot(0, 1), ObjectKey)
    assert [bytes(slot) for slot in run.slots(3)] == [b"1", b"2"]
    assert run.slot_bytes(2) == [samples.KEY, b"x" * 100]
    assert run.references() == [samples.KEY, samples.KEY]
    assert run.has_references


def test_index_errors() -> None:
    run = samples.rich_run()
    for call in (
        lambda: run.slot(4, 0),
        lambda: run.slot(0, 2),
        lambda: run.slot(-1, 0),
        lambda: run.slots(4),
        lambda: run.slice(0, 5),
        lambda: run.slice(2, 2),
        lambda: run.slice(-1, 2),
    ):
        with pytest.raises(IndexError):
            call()


def test_slices_behave_as_runs_of_their_own() -> None:
    chance = random.Random(1)
    for _ in range(300):
        run = samples.random_run(chance)
        expected = contents(run)
        start = chance.randrange(run.count)
        stop = chance.randrange(start + 1, run.count + 1)
        piece = run.slice(start, stop)
        assert piece.first_task == run.first_task + start
        assert contents(piece) == expected[start:stop]
        assert piece.has_references == any(
            isinstance(slot, ObjectKey) for task in expected[start:stop] for slot in task
        )
        middle = chance.randrange(piece.count)
        assert contents(piece.slice(middle, piece.count)) == expected[start + middle : stop]
        received = round_trip(Tasks([piece, run]))
        assert isinstance(received, Tasks)
        assert received.runs == [piece, run]
        assert contents(received.runs[0]) == expected[start:stop]
        assert contents(received.runs[1].slice(start, stop)) == expected[start:stop]


def test_copies_change_one_thing() -> None:
    run = samples.rich_run()
    again = run.with_attempt(9)
    assert again.attempt == 9 and run.attempt == 3
    assert again != run and again.with_attempt(3) == run
    deeper = run.with_options(TaskOptions(depth=7))
    assert deeper.options.depth == 7 and contents(deeper) == contents(run) and deeper != run
    assert run != "a run"


def test_a_run_keeps_its_bytes_alive() -> None:
    received = decode(encode(Envelope(Tasks([samples.plain_run(100)])))).body
    assert isinstance(received, Tasks)
    view = received.runs[0].slice(50, 60).slot(3, 0)
    del received
    assert bytes(view) == bytes(samples.plain_run(100).slot(53, 0))


def test_tasks_without_arguments() -> None:
    run = TaskRun(samples.SESSION, samples.FUNCTION, "f", b"", 0, 1, (), TaskOptions(), [()] * 1000)
    received = round_trip(Tasks([run.slice(10, 1000)]))
    assert isinstance(received, Tasks)
    assert received.runs[0].count == 990 and received.runs[0].slots(7) == []


def test_options_and_capabilities() -> None:
    for options in (
        TaskOptions(),
        TaskOptions(rerun=False),
        TaskOptions(priority=-(2**63)),
        TaskOptions(capabilities=(Capability("x"),)),
        TaskOptions(intermediate=True),
        TaskOptions(graph=2**32 - 1),
        TaskOptions(shares_values=True),
        TaskOptions(grows=True),
        TaskOptions(hosts_actor=True),
        TaskOptions(hosts_actor=True, max_concurrency=2**16 - 1),
        TaskOptions(map_number=2**32 - 1),
        TaskOptions(map_number=2, map_tasks=MAP_TASKS_UNKNOWN),
        TaskOptions(map_number=2, map_tasks=7, submitted_at=1.5e9),
        TaskOptions(map_number=1, actor=3, actor_session=b"s" * 16, priority=2),
        TaskOptions(submitted_at=1.5e9),
        TaskOptions(submitted_at=1.5e9, ready_at=1.6e9, graph=3, map_number=2),
        TaskOptions(actor=2**64 - 1),
        TaskOptions(actor=1, actor_session=b"s" * 16),
        samples.OPTIONS,
    ):
        received = round_trip(Tasks([samples.plain_run().with_options(options)]))
        assert isinstance(received, Tasks) and received.runs[0].options == options


def test_a_serializer_names_an_environment() -> None:
    definitions = [samples.function("Serializer", '{"variables":{"A":"ö"}}'), samples.function("Other")]
    definitions += [replace(each, module="größe.module") for each in definitions]
    received = round_trip(Tasks([samples.plain_run()], [], definitions))
    assert isinstance(received, Tasks) and received.serializers == definitions


def test_numbers_out_of_range_are_value_errors() -> None:
    for body in (Tasks([samples.plain_run().with_options(TaskOptions(priority=2**70))]), Withdraw(2**40), Withdraw(-1)):
        with pytest.raises(ValueError):
            encode(Envelope(body))


def test_wrong_ids_are_refused() -> None:
    for session, function, serializer in ((b"x", b"f" * 16, b""), (b"s" * 16, b"", b""), (b"s" * 16, b"f" * 16, b"1")):
        with pytest.raises(ValueError):
            TaskRun(session, function, "f", serializer, 0, 1, (), TaskOptions(), [[b""]])
    with pytest.raises(ValueError):
        TaskRun(b"s" * 16, b"f" * 16, "f", b"", 0, 1, (), TaskOptions(), [])


# ---- builders -------------------------------------------------------------------------------------------------------


def builder(arity: int = 1) -> TaskRunBuilder:
    return TaskRunBuilder(samples.SESSION, samples.FUNCTION, "f", b"", 100, arity, (), TaskOptions())


def test_builder() -> None:
    tasks = builder()
    for index in range(10_000):
        tasks.append_one(b"%d" % index)
    assert tasks.count == 10_000 and tasks.payload_bytes == 38_890
    first = tasks.build()
    tasks.append_one(b"more")
    assert first.count == 10_000 and tasks.build().count == 10_001
    assert bytes(first.slot(9_999, 0)) == b"9999"
    assert first.attempt == 1


def test_builder_takes_references_after_bytes() -> None:
    tasks = builder()
    tasks.append_one(b"one")
    tasks.append([samples.KEY])
    tasks.append_one(b"three")
    assert contents(tasks.build()) == [[b"one"], [samples.KEY], [b"three"]]


def test_a_task_that_cannot_be_appended_leaves_no_trace() -> None:
    tasks = builder(2)
    tasks.append([b"a", b"b"])
    for bad in (
        [b"a"],
        [b"a", "text"],
        [b"a", ObjectKey(b"short", 1)],
        [samples.KEY, None],
        [b"", ObjectKey(b"o" * 16, -1)],
    ):
        with pytest.raises((ValueError, TypeError, OverflowError)):
            tasks.append(bad)  # type: ignore[arg-type]
    with pytest.raises(ValueError):
        tasks.append_one(b"a")
    tasks.append([b"c", b"d"])
    assert contents(tasks.build()) == [[b"a", b"b"], [b"c", b"d"]]


def test_fits_keeps_a_message_under_its_limit() -> None:
    tasks = builder()
    while tasks.fits(1000):
        tasks.append_one(b"x" * 1000)
    size = sum(map(len, encode(Envelope(Tasks([tasks.build()])))))
    assert 0.99 * MESSAGE_LIMIT_BYTES < size <= MESSAGE_LIMIT_BYTES


# ---- result runs ----------------------------------------------------------------------------------------------------


def test_result_run() -> None:
    run = samples.result_run()
    assert (run.task(2), run.attempt(2), run.status(2), bytes(run.payload(2))) == (6, 3, 2, b"rr")
    assert (run.duration_us(2), run.cpu_time_us(2), run.memory_peak(2)) == (12, 7, 2)
    assert run.payload_copy(3) == b"rrr"
    assert list(run.task_column) == [0, 3, 6, 9, 12]
    assert list(run.attempt_column) == [1, 2, 3, 4, 5]
    assert list(run.status_column) == [0, 1, 2, 3, 4]
    assert list(run.duration_column) == [10, 11, 12, 13, 14]
    for index in (-1, 5):
        with pytest.raises(IndexError):
            run.task(index)


def test_parts_of_durations_travel_and_follow_slices() -> None:
    received = round_trip(Results(samples.timed_runs()))
    assert isinstance(received, Results)
    alike, others = received.runs
    assert alike.parts is None and others.parts == samples.timed_runs()[1].parts
    assert others.slice(1, 3).parts == array("I", [1, 2**32 - 1, 0, 7]).tobytes()
    others.forget_parts()
    assert others.parts is None


def test_parts_of_rows_that_do_not_exist_are_malformed() -> None:
    frames = encode(Envelope(Results(samples.timed_runs()[1:])))
    place = frames[0].index(array("I", [2, 2**32 - 1, 0, 7]).tobytes())
    head = bytearray(frames[0])
    head[place : place + 4] = (3).to_bytes(4, "little")
    with pytest.raises(MalformedMessage):
        decode([bytes(head), *frames[1:]])


def test_select_and_slice() -> None:
    chance = random.Random(2)
    for _ in range(300):
        run = samples.random_results(chance)
        expected = rows(run)
        indices = sorted(chance.sample(range(run.count), chance.randrange(run.count + 1)))
        chosen = run.select(indices)
        assert rows(chosen) == [expected[index] for index in indices]
        if chosen.count:
            received = round_trip(Results([chosen, run]))
            assert isinstance(received, Results)
            assert rows(received.runs[0]) == rows(chosen) and received.runs[1] == run
            assert rows(received.runs[1].slice(0, 1)) == expected[:1]
    with pytest.raises(IndexError):
        samples.result_run(3).select([0, 3])
    assert rows(samples.result_run(3).select([2, 0])) == [rows(samples.result_run(3))[index] for index in (2, 0)]


def test_result_builder_takes_any_buffer() -> None:
    results = ResultRunBuilder(samples.SESSION)
    for payload in (b"bytes", bytearray(b"bytes"), memoryview(b"bytes"), memoryview(b"")):
        results.append(1, 1, 0, payload, 1, 1, 0)  # type: ignore[arg-type]
    assert [bytes(row[3]) for row in results.build().rows()] == [b"bytes", b"bytes", b"bytes", b""]
    assert results.payload_bytes == 15


def test_results_equal_by_value() -> None:
    one = ResultRun(samples.SESSION, [(1, 1, 0, b"x", 1, 1, 0)])
    assert one == ResultRun(samples.SESSION, [(1, 1, 0, b"x", 1, 1, 0)])
    assert one != ResultRun(samples.SESSION, [(1, 1, 0, b"y", 1, 1, 0)])
    assert one != ResultRun(samples.SESSION, [(1, 1, 0, b"x", 1, 1, 5)])
    assert one != ResultRun(samples.SESSION, [])


# ---- limits ---------------------------------------------------------------------------------------------------------


def test_split_tasks() -> None:
    chance = random.Random(3)
    tasks = [[chance.randbytes(chance.randrange(3000))] for _ in range(2000)]
    run = TaskRun(samples.SESSION, samples.FUNCTION, "f", b"", 0, 1, (), TaskOptions(), tasks)
    groups = list(codec.split([run, samples.rich_run(), run]))
    sizes = [sum(map(len, encode(Envelope(Tasks(group))))) for group in groups]
    assert max(sizes) <= MESSAGE_LIMIT_BYTES and min(sizes[:-1]) > 0.9 * MESSAGE_LIMIT_BYTES
    pieces = [piece for group in groups for piece in group]
    assert [slot for piece in pieces for slot in contents(piece)] == contents(run) + contents(
        samples.rich_run()
    ) + contents(run)


def test_split_keeps_small_runs_together() -> None:
    runs = [samples.plain_run(), samples.rich_run()]
    assert list(codec.split(runs)) == [runs]
    assert list(codec.split([])) == []


def test_split_counts_tasks_too() -> None:
    run = TaskRun(samples.SESSION, samples.FUNCTION, "f", b"", 0, 1, (), TaskOptions(), [()] * (2**20))
    groups = list(codec.split([run, run.slice(0, 10)]))
    assert [[piece.count for piece in group] for group in groups] == [[2**20], [10]]
    with pytest.raises(ValueError):
        encode(Envelope(Tasks([run, run])))


def test_split_lets_a_large_task_travel_alone() -> None:
    run = TaskRun(samples.SESSION, samples.FUNCTION, "f", b"", 0, 1, (), TaskOptions(), [[b"x" * 1_500_000], [b"y"]])
    assert [[piece.count for piece in group] for group in codec.split([run])] == [[1], [1]]


def test_split_results() -> None:
    rows_made = [(index, 1, 0, bytes(index % 3000), 1, 1, 1) for index in range(3000)]
    run = ResultRun(samples.SESSION, rows_made)
    groups = list(codec.split_results([run, run]))
    sizes = [sum(map(len, encode(Envelope(Results(group))))) for group in groups]
    assert max(sizes) <= MESSAGE_LIMIT_BYTES
    assert [row[0] for group in groups for piece in group for row in piece.rows()] == [row[0] for row in rows_made * 2]


def test_too_large_a_message_is_refused() -> None:
    large = TaskRun(
        samples.SESSION, samples.FUNCTION, "f", b"", 0, 1, (), TaskOptions(), [[bytes(2 * MESSAGE_LIMIT_BYTES)]]
    )
    for body in (
        Tasks([large]),
        Tasks([samples.plain_run()], [FunctionDefinition(samples.FUNCTION, "f", bytes(2 * MESSAGE_LIMIT_BYTES), 1)]),
        Results([ResultRun(samples.SESSION, [(1, 1, 0, bytes(2 * MESSAGE_LIMIT_BYTES), 1, 1, 0)])]),
        Relay(samples.SESSION, (bytes(2 * MESSAGE_LIMIT_BYTES),)),
    ):
        with pytest.raises(ValueError, match="over the limit"):
            encode(Envelope(body))


def test_a_full_message_can_be_relayed() -> None:
    tasks = builder()
    while tasks.fits(1000):
        tasks.append_one(b"x" * 1000)
    frames = encode(Envelope(Tasks([tasks.build()])))
    relayed = round_trip(Relay(samples.SESSION, tuple(frames)))
    assert isinstance(relayed, Relay) and list(relayed.frames) == frames


def test_unchanged_payload_is_not_copied() -> None:
    run = samples.plain_run(100)
    frames = encode(Envelope(Tasks([run])))
    forwarded = decode(frames).body
    assert isinstance(forwarded, Tasks)
    assert encode(Envelope(Tasks(forwarded.runs)))[1] is frames[1]


def test_nodes_of_a_graph_join_by_columns() -> None:
    def builder() -> TaskRunBuilder:
        return TaskRunBuilder(samples.SESSION, samples.FUNCTION, "f", b"", 7, 2, (), TaskOptions())

    data: list[bytes | ObjectKey] = [b"abc", samples.KEY]
    ends, slots, tasks = array("q", [2, 4, 6]), array("q", [-1, -2, 0, -1, 1, 1]), array("q", [7, 8, 9])
    by_columns = builder()
    assert by_columns.append_nodes(array("q", [0, 1, 2]), ends, slots, tasks, data, 10**6) == 3
    one_by_one = builder()
    one_by_one.append([b"abc", samples.KEY])
    one_by_one.append([ObjectKey(samples.SESSION, 7), b"abc"])
    one_by_one.append([ObjectKey(samples.SESSION, 8)] * 2)
    assert by_columns.build() == one_by_one.build()
    assert builder().append_nodes(array("q", [0, 1, 2]), ends, slots, tasks, data, 50) == 2
    for calls, wrong_slots, error in (([3], slots, IndexError), ([0], array("q", [-3, 3] * 3), IndexError)):
        with pytest.raises(error):
            builder().append_nodes(array("q", calls), ends, wrong_slots, tasks, data, 10**6)
    with pytest.raises(ValueError, match="2 slots"):
        builder().append_nodes(array("q", [0]), array("q", [1]), slots, tasks, data, 10**6)


def test_references_to_tasks_and_to_uploads_are_told_apart() -> None:
    session, other = b"s" * 16, b"o" * 16
    upload, foreign = ObjectKey(session, 2**64 - 1), ObjectKey(other, 3)
    tasks = [[ObjectKey(session, 3), b"x", upload], [foreign, ObjectKey(session, 4), ObjectKey(session, 4)]]
    run = TaskRun(session, b"f" * 16, "f", b"", 10, 1, (), TaskOptions(graph=11), tasks)
    assert list(run.inputs()) == [10, 3, 11, 4, 11, 4]
    assert run.uploads() == [upload, foreign]
    assert list(run.slice(1, 2).inputs()) == [11, 4, 11, 4]
    plain = TaskRun(session, b"f" * 16, "f", b"", 10, 1, (), TaskOptions(), [[b"x"]])
    assert list(plain.inputs()) == [] and plain.uploads() == []


@pytest.mark.parametrize("status", [len(Status), 0x80, 255])
def test_a_status_that_does_not_exist_is_malformed(status: int) -> None:
    run = ResultRun(samples.SESSION, [(1, 1, 0, b"", 0, 0, 0), (2, 1, status, b"", 0, 0, 0)])
    with pytest.raises(MalformedMessage, match="status"):
        decode(encode(Envelope(Results([run]))))


def test_an_action_of_a_later_version_is_read() -> None:
    """The scheduler refuses it with a sentence, and the session goes on."""
    request = ControlRequest(1, 200, "vm")  # type: ignore[arg-type]
    assert decode(encode(Envelope(request))).body == request
