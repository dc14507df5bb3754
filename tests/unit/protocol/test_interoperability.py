"""The hand-written hot messages are ordinary Cap'n Proto: its library and its command read them, and the reverse."""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any

import capnp as library
import pytest

import scaler_protocol
from scaler_protocol import layout
from scaler_protocol.codec import MalformedMessage, ResultRun, decode, encode
from scaler_protocol.messages import (
    Cancel,
    Envelope,
    Explanation,
    Heartbeat,
    Results,
    TaskColumn,
    TaskName,
    TaskOptions,
    Tasks,
    Withdraw,
)
from tests.unit.protocol import samples

SCHEMA_FILE = Path(scaler_protocol.__file__).parent / "schemas" / "message.capnp"
library.remove_import_hook()
schema = library.load(str(SCHEMA_FILE))
needs_capnp = pytest.mark.skipif(shutil.which("capnp") is None, reason="the capnp command is not installed")


def capnp(verb: str, data: bytes) -> bytes:
    command = ["capnp", verb, str(SCHEMA_FILE), "Message"]
    return subprocess.run(command, input=data, capture_output=True, check=True, timeout=30).stdout


def segments(data: bytes) -> int:
    return int(struct.unpack_from("<I", data)[0]) + 1


def test_library_reads_tasks() -> None:
    rich = samples.rich_run()
    envelope = Envelope(Tasks([samples.plain_run(), rich], [samples.function()], [], True), 2**40, 9)
    head, payload = encode(envelope)
    with schema.Message.from_bytes(head) as message:
        assert (message.sequence, message.acknowledged, message.which()) == (2**40, 9, "tasks")
        assert message.tasks.resubmitted
        plain, run = message.tasks.runs
        assert (run.session, run.function, run.functionName) == (rich.session, rich.function, rich.function_name)
        assert (run.firstTask, run.count, run.attempt, run.arity) == (2**40, 4, 3, 2)
        assert list(run.keywords) == ["keyword"]
        assert run.options.priority == -3 and run.options.startOnce and run.options.timeoutSeconds == 1.5
        assert [(item.name, item.amount) for item in run.options.capabilities] == [("gpu", 2), ("größe", 1)]
        ends = struct.unpack("<8I", run.ends)
        assert ends == (0, 24, 27, 30, 54, 154, 155, 156)
        assert run.references == bytes([0, 1, 0, 0, 1, 0, 0, 0])
        assert payload[run.payloadOffset :][ends[1] : ends[3]] == b"abcdef"
        assert plain.references == b"" and plain.options.depth == 0
        assert message.tasks.functions[0].payload == b"the pickle"


def test_library_reads_the_options_of_graphs() -> None:
    run = samples.plain_run().with_options(TaskOptions(intermediate=True, graph=2**32 - 1))
    head, _ = encode(Envelope(Tasks([run])))
    with schema.Message.from_bytes(head) as message:
        options = message.tasks.runs[0].options
        assert options.intermediate and options.graph == 2**32 - 1 and not options.streamOutput


@pytest.mark.parametrize("parent", [None, TaskName(samples.SESSION, 2**40, 3, 9)])
def test_library_reads_the_parent_of_nested_tasks(parent: TaskName | None) -> None:
    frames = encode(Envelope(Tasks([samples.plain_run()], [samples.function()], parent=parent)))
    with schema.Message.from_bytes(frames[0]) as message:
        name = message.tasks.parent
        assert (name.session, name.task, name.attempt, name.depth) == (parent or (b"", 0, 0, 0))
    assert decode(frames).body.parent == parent


def test_a_parent_without_a_session_is_refused() -> None:
    message = schema.Message.new_message()
    message.init("tasks").init("parent").task = 1
    with pytest.raises(MalformedMessage):
        decode([message.to_bytes(), b""])


def test_library_reads_results() -> None:
    head, payload = encode(Envelope(Results([samples.result_run(), samples.result_run().slice(2, 4)]), 1, 0))
    with schema.Message.from_bytes(head) as message:
        whole, part = message.results.runs
        assert struct.unpack("<5Q", whole.tasks) == (0, 3, 6, 9, 12)
        assert struct.unpack("<5I", whole.attempts) == (1, 2, 3, 4, 5)
        assert whole.statuses == bytes(range(5))
        assert struct.unpack("<2Q", part.durations) == (12, 13)
        assert struct.unpack("<2Q", part.cpuTimes) == (7, 8)
        assert struct.unpack("<2Q", part.memoryPeaks) == (2, 3)
        assert struct.unpack("<2I", part.ends) == (2, 5)
        assert payload[part.payloadOffset :][: part.payloadSize] == b"rrrrr"


def fill_tasks(message: Any, run_count: int = 3) -> bytes:
    """What a peer in another language writes, through the library; the payload frame is returned."""
    message.sequence = 4
    runs = message.init("tasks").init("runs", run_count)
    payload = b""
    for index, run in enumerate(runs):
        run.session, run.function = samples.SESSION, samples.FUNCTION
        run.functionName = "a rather long name of a function " * 20
        run.firstTask, run.count, run.attempt, run.arity = index * 100, 50, 1, 2
        run.init("keywords", 1)[0] = "keyword"
        if index:
            run.options.depth = index
            run.options.init("capabilities", 1)[0] = schema.Capability.new_message(name="gpu", amount=1)
        run.ends = struct.pack("<100I", *(3 * piece for piece in range(1, 101)))
        run.payloadOffset, run.payloadSize = len(payload), 300
        payload += bytes([index]) * 300
    return payload


def check_tasks(frames: list[bytes]) -> None:
    body = decode(frames).body
    assert isinstance(body, Tasks) and len(body.runs) == 3
    for index, run in enumerate(body.runs):
        assert (run.first_task, run.count, run.keywords) == (index * 100, 50, ("keyword",))
        assert run.function_name.startswith("a rather") and run.options.depth == index
        assert run.slot_bytes(49) == [bytes([index]) * 3] * 2
    again = decode(encode(Envelope(body, 4)))
    assert again.body == body


@pytest.mark.parametrize("first_segment_words", [None, 1, 8, 40, 100])
def test_tasks_of_the_library_are_read(first_segment_words: int | None) -> None:
    message = schema.Message.new_message(num_first_segment_words=first_segment_words)
    payload = fill_tasks(message)
    head = message.to_bytes()
    if first_segment_words in (1, 8, 40):
        assert segments(head) > 1
    check_tasks([head, payload])


def test_results_of_the_library_are_read() -> None:
    for words in (None, 1, 20):
        message = schema.Message.new_message(num_first_segment_words=words)
        run = message.init("results").init("runs", 1)[0]
        run.session, run.count = samples.SESSION, 2
        run.tasks, run.attempts, run.statuses = struct.pack("<2Q", 7, 8), struct.pack("<2I", 1, 2), b"\0\2"
        run.durations, run.cpuTimes = struct.pack("<2Q", 10, 20), struct.pack("<2Q", 5, 6)
        run.ends, run.payloadSize = struct.pack("<2I", 1, 3), 3
        body = decode([message.to_bytes(), b"abc"]).body
        expected = ResultRun(samples.SESSION, [(7, 1, 0, b"a", 10, 5, 0), (8, 2, 2, b"bc", 20, 6, 0)])
        assert body == Results([expected])


@pytest.mark.parametrize("envelope", samples.all_envelopes(), ids=lambda envelope: samples.name_of(envelope.body))
@needs_capnp
def test_command_reads_every_body(envelope: Envelope) -> None:
    """To text and back by the command, the message says the same."""
    frames = encode(envelope)
    text = capnp("decode", frames[0])
    assert decode([capnp("encode", text), *frames[1:]]) == envelope


@needs_capnp
def test_message_written_by_hand_in_text() -> None:
    text = b"""( sequence = 3, acknowledged = 2, results = ( runs = [ (
        session = "0123456789abcdef", count = 1, tasks = "\\x05\\0\\0\\0\\0\\0\\0\\0", attempts = "\\1\\0\\0\\0",
        statuses = "\\0", durations = "\\x0a\\0\\0\\0\\0\\0\\0\\0", cpuTimes = "\\x05\\0\\0\\0\\0\\0\\0\\0",
        ends = "\\2\\0\\0\\0", payloadSize = 2 ) ] ) )"""
    expected = ResultRun(b"0123456789abcdef", [(5, 1, 0, b"ok", 10, 5, 0)])
    assert decode([capnp("encode", text), b"ok"]) == Envelope(Results([expected]), 3, 2)


def with_double_far_pointer() -> bytes:
    """An Acknowledgement-like message whose root struct is in a third segment, found through two landing words."""
    tag_resubmitted = (1 << 32) | (3 << 48)
    root = struct.pack("<Q", 2 | 4 | (0 << 3) | (1 << 32))
    landing = struct.pack("<QQ", 2 | (1 << 3) | (2 << 32), (3 << 32) | (1 << 48))
    content = struct.pack("<9Q", 99, 11, 12, 0, (0 << 2) | tag_resubmitted, 1, 0, 0, 0)
    sizes = struct.pack("<IIII", 2, 1, 2, 9)
    return sizes + root + landing + content


def test_double_far_pointers_are_followed() -> None:
    assert decode([with_double_far_pointer(), b""]) == Envelope(Tasks([], [], [], True), 11, 12)
    with schema.Message.from_bytes(with_double_far_pointer()) as message:
        assert message.sequence == 11 and message.tasks.resubmitted


@pytest.mark.parametrize(
    "root",
    [
        2 | (5 << 3) | (1 << 32),  # beyond its segment
        2 | (0 << 3) | (9 << 32),  # no such segment
        2 | 4 | (1 << 3) | (1 << 32),  # the second landing word is outside
        2 | (0 << 3) | (1 << 32),  # lands on another far pointer
        3,  # a capability
        1,  # a list
        0xFFFFFFF0 | (3 << 32),  # before the segment
    ],
)
def test_wrong_far_pointers_are_refused(root: int) -> None:
    data = with_double_far_pointer()
    with pytest.raises(MalformedMessage):
        decode([data[:16] + struct.pack("<Q", root) + data[24:], b""])


def test_too_many_segments_are_refused() -> None:
    message = schema.Message.new_message()
    fill_tasks(message)
    words = message.to_bytes()[8:]
    with pytest.raises(MalformedMessage):
        decode([struct.pack("<I", 64) + struct.pack("<65I", len(words) // 8, *[0] * 64) + words, b""])


def test_fields_of_a_newer_minor_version_are_skipped() -> None:
    """Structs with more data words and pointers than this version knows are read; their excess is ignored."""
    head, _ = encode(Envelope(Tasks([], [], [], True), 1, 2))
    words = list(struct.unpack(f"<{len(head) // 8}Q", head))
    assert words[1] == (3 << 32) | (1 << 48)
    newer = [0, (4 << 32) | (2 << 48), 1, 2, 0, 0xFFFF, (1 << 2) | (2 << 32) | (4 << 48), 0, 1, 0xFFFF, 0, 0, 0, 0]
    newer[0] = (len(newer) - 1) << 32
    assert decode([struct.pack(f"<{len(newer)}Q", *newer), b""]) == Envelope(Tasks([], [], [], True), 1, 2)


def test_fields_of_an_older_minor_version_have_their_defaults() -> None:
    older = [0, 3 << 32 | 1 << 48, 1, 2, 0, 0]
    older[0] = (len(older) - 1) << 32
    assert decode([struct.pack(f"<{len(older)}Q", *older), b""]) == Envelope(Tasks([]), 1, 2)


def test_null_options_are_the_defaults() -> None:
    message = schema.Message.new_message()
    run = message.init("tasks").init("runs", 1)[0]
    run.session, run.function, run.count = samples.SESSION, samples.FUNCTION, 1
    body = decode([message.to_bytes(), b""]).body
    assert isinstance(body, Tasks) and body.runs[0].options == TaskOptions()


def test_fields_are_where_the_library_has_them() -> None:
    names = [name for name in layout._texts if name != "Message"]
    assert len(names) > 30
    for name in names:
        placed = layout.layout(name)
        node = getattr(schema, name).schema.node.struct
        assert (placed.data_words, placed.pointer_words) == (node.dataWordCount, node.pointerCount)
        expected = {field.name: field.slot.offset for field in node.fields}
        assert {name: field.offset // (field.bits or 1) for name, field in placed.fields.items()} == expected
    assert layout.bodies() == list(schema.Message.schema.union_fields)


@pytest.mark.parametrize("first_segment_words", [1, 7, 20, 60])
def test_every_body_of_the_library_is_read(first_segment_words: int) -> None:
    """In many segments, with far pointers between them."""
    for envelope in samples.all_envelopes():
        frames = encode(envelope)
        with schema.Message.from_bytes(frames[0]) as message:
            builder = schema.Message.new_message(num_first_segment_words=first_segment_words)
            builder.from_dict(message.to_dict())
            assert decode([builder.to_bytes(), *frames[1:]]) == envelope


def test_a_report_without_rows_of_workers_is_read() -> None:
    report = Envelope(Heartbeat(1.5, 0.25, 99.5, 2**31, 2**33, 12, (), workers_unchanged=True))
    with schema.Message.from_bytes(encode(report)[0]) as message:
        assert message.heartbeat.workersUnchanged
    assert decode(encode(report)) == report


@pytest.mark.parametrize(
    "body", [Withdraw(2**32), Withdraw(-1), Explanation(2**64, ""), Heartbeat(0, 0, 0, -1, 0, 0, ()), Withdraw("many")]
)
def test_numbers_out_of_range_are_not_written(body: Any) -> None:
    with pytest.raises(ValueError):
        encode(Envelope(body))


def test_more_attempts_than_tasks() -> None:
    with pytest.raises(MalformedMessage, match="1 tasks have 2 attempts"):
        decode(encode(Envelope(Cancel((TaskColumn(samples.SESSION, (1,), (1, 2)),)))))
