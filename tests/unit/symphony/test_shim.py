"""What travels to Symphony's hosts, and what comes back from a host that has cloudpickle and nothing of Scaler."""

from __future__ import annotations

import os
import pickle
import struct
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import cloudpickle
import pytest

from scaler.client.serializer import DefaultSerializer, serialize_for_sharing
from scaler_protocol.messages import Status
from scaler_worker.symphony import shim
from scaler_worker.symphony.core.answer import SymphonyAnswer
from scaler_worker.symphony.core.effects import Call
from scaler_worker.symphony.payload import Garbage, pack_call, unpack_answer

SERVICE = """
import sys
for name in ("scaler", "scaler_protocol", "scaler_worker", "tblib", "zmq", "psutil"):
    sys.modules[name] = None  # importing it fails
import cloudpickle
function, *args = cloudpickle.loads(sys.stdin.buffer.read())
output = cloudpickle.dumps(function(*args))
sys.__stdout__.buffer.write(b"OUTPUT" + output)
"""


def call(function: Callable[..., Any], *arguments: Any, **options: Any) -> Call:
    slots = tuple(cloudpickle.dumps(each) for each in arguments)
    made = Call(cloudpickle.dumps(function), "f", None, slots, (), b"C" * 16, 7, 2, 3, False, False)
    return replace(made, **options)


def run_elsewhere(made: Call) -> SymphonyAnswer:
    """In a process without Scaler."""
    done = subprocess.run(
        [sys.executable, "-c", SERVICE],
        input=pack_call(5, made, "tcp://127.0.0.1:2345", "grid"),
        capture_output=True,
        timeout=20,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
    )
    assert done.returncode == 0, done.stderr.decode()
    return unpack_answer(done.stdout.split(b"OUTPUT", 1)[1], 5)


def run_here(made: Call) -> SymphonyAnswer:
    function, *args = cloudpickle.loads(pack_call(5, made, "tcp://127.0.0.1:2345", "grid"))
    return unpack_answer(cloudpickle.dumps(function(*args)), 5)


def environment_of(*_: Any) -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith("SCALER_")}


def test_a_host_without_scaler() -> None:
    answer = run_elsewhere(call(lambda left, right: left + right, 1, 2, profiling=True))
    assert (answer.status, pickle.loads(answer.payload)) == (Status.SUCCESS, 3)
    assert answer.memory_peak > 1_000_000


def test_functions_as_clients_send_them_on_a_host_without_scaler() -> None:
    number = 2
    made = call(lambda change: change(1))
    slot = DefaultSerializer.serialize(lambda value: value + number)
    answer = run_elsewhere(replace(made, function=DefaultSerializer.serialize(lambda change: change(1)), slots=(slot,)))
    assert (answer.status, pickle.loads(answer.payload)) == (Status.SUCCESS, 3)


def test_code_next_to_an_array_on_a_host_without_scaler() -> None:
    numpy = pytest.importorskip("numpy")
    layout = serialize_for_sharing([numpy.arange(100_000), lambda array: int(array.sum())])
    assert not isinstance(layout, bytes)
    data = bytearray(layout.size)
    layout.write_into(memoryview(data))
    made = replace(call(len), function=DefaultSerializer.serialize(lambda pair: pair[1](pair[0])), slots=(bytes(data),))
    answer = run_elsewhere(made)
    assert (answer.status, pickle.loads(answer.payload)) == (Status.SUCCESS, 4_999_950_000)


def test_code_of_another_version_of_python_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scaler_protocol.objects.sent_code.VERSION", (3, 99))
    answer = run_elsewhere(replace(call(len), function=DefaultSerializer.serialize(lambda: 1), slots=()))
    _, name, message, _ = pickle.loads(answer.payload)
    assert answer.status == Status.DESERIALIZE_FAILED
    assert name == "TypeError" and "of Python 3.99, and this host runs Python" in message


def test_an_exception_on_a_host_without_scaler() -> None:
    def fail() -> None:
        raise ValueError("oops")

    answer = run_elsewhere(call(fail))
    error, name, message, trace = pickle.loads(answer.payload)
    assert answer.status == Status.EXCEPTION and isinstance(pickle.loads(error), ValueError)
    assert (name, message) == ("ValueError", "oops") and "in fail" in trace


def test_keywords() -> None:
    made = call(lambda *args, **named: (args, named), 1, 2, 3, keywords=("b", "c"))
    assert pickle.loads(run_here(made).payload) == ((1,), {"b": 2, "c": 3})


def test_the_task_knows_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCALER_AGENT_SOCKET", "@another")
    monkeypatch.setenv("SCALER_PARENT", "of another")
    before = environment_of()
    seen = pickle.loads(run_here(call(environment_of)).payload)
    assert seen["SCALER_SCHEDULER_ADDRESS"] == "tcp://127.0.0.1:2345"
    assert seen["SCALER_PARENT"] == f"{(b'C' * 16).hex()}:7:2:3" and seen["SCALER_WORKER_NAME"] == "grid"
    assert "SCALER_AGENT_SOCKET" not in seen and environment_of() == before


def test_output_is_copied(capfd: pytest.CaptureFixture[str]) -> None:
    def speak() -> None:
        print("to out")
        sys.stderr.writelines(["to err", "\n"])
        assert sys.stdout.fileno() >= 0 and sys.stdout.buffer is not None

    streams = sys.stdout, sys.stderr
    answer = run_here(call(speak, stream_output=True))
    assert (answer.stdout, answer.stderr) == (b"to out\n", b"to err\n")
    assert capfd.readouterr() == ("to out\n", "to err\n") and (sys.stdout, sys.stderr) == streams
    assert run_here(call(speak)).stdout == b""


def test_output_has_a_limit() -> None:
    answer = run_here(call(lambda: print("x" * 1_000_000), stream_output=True))
    assert len(answer.stdout) < 300_000 and b"left out" in answer.stdout


class UpperCase:
    @staticmethod
    def serialize(value: Any) -> bytes:
        return repr(value).upper().encode()

    @staticmethod
    def deserialize(data: bytes) -> Any:
        assert type(data) is bytes
        return eval(data.decode().lower())


def test_a_serializer() -> None:
    made = call(len, serializer=cloudpickle.dumps(UpperCase))
    made = replace(made, function=b"LEN", slots=(bytearray(b"[1, 2]"),))
    assert run_here(made).payload == b"2"


class NoBytes(UpperCase):
    @staticmethod
    def serialize(value: Any) -> Any:
        return "text"


class Liar(Exception):
    """Nothing of it works."""

    def __str__(self) -> str:
        raise SystemExit

    def __reduce__(self) -> Any:
        raise KeyboardInterrupt


def raise_liar() -> None:
    raise Liar


@pytest.mark.parametrize(
    ("made", "status", "name"),
    [
        (call(len, 1), Status.EXCEPTION, "TypeError"),
        (call(raise_liar), Status.EXCEPTION_NOT_SERIALIZABLE, "Liar"),
        (replace(call(len), function=b"garbage"), Status.DESERIALIZE_FAILED, "UnpicklingError"),
        (replace(call(len, 1), slots=(b"",)), Status.DESERIALIZE_FAILED, "EOFError"),
        (replace(call(len), serializer=b""), Status.DESERIALIZE_FAILED, "EOFError"),
        (
            replace(call(len), serializer=cloudpickle.dumps(NoBytes), function=b"LEN", slots=(b"[]",)),
            Status.EXCEPTION,
            "TypeError",
        ),
        (call(lambda: (each for each in ())), Status.EXCEPTION, "TypeError"),
    ],
)
def test_failures_are_told_apart(made: Call, status: Status, name: str) -> None:
    answer = run_here(made)
    assert (answer.status, pickle.loads(answer.payload)[1]) == (status, name)


def recurse() -> Any:
    return recurse()


def raise_much() -> None:
    raise ValueError("x" * 1_000_000) from KeyError("y" * 1_000_000)


def test_large_exceptions_keep_their_type() -> None:
    """As with ordinary workers: what is too deep or too long is left out."""
    deep, long = [run_here(call(each)) for each in (recurse, raise_much)]
    assert deep.status == long.status == Status.EXCEPTION
    error = pickle.loads(pickle.loads(deep.payload)[0])
    assert type(error) is RecursionError and "maximum recursion depth" in str(error)
    error = pickle.loads(pickle.loads(long.payload)[0])
    assert type(error) is ValueError and str(error).endswith("x... (1,000,000 characters)")


def good_output(number: int = 5) -> bytes:
    return pickle.dumps(struct.pack(shim.HEADER, shim.MAGIC, number, 0, 1, 2, 3, 1, 1) + b"oer")


def test_an_answer() -> None:
    assert unpack_answer(good_output(), 5) == SymphonyAnswer(0, b"r", 1, 2, 3, b"o", b"e")


@pytest.mark.parametrize(
    ("output", "text"),
    [
        (b"", "0 bytes that are not a pickle"),
        (pickle.dumps("text"), "a value of type str"),
        (pickle.dumps(Fraction), "a pickle that names fractions.Fraction"),
        (pickle.dumps(b"short"), "an answer of 5 bytes"),
        (pickle.dumps(bytes(100)), "not an answer"),
        (good_output(6), "the answer of another task"),
        (pickle.dumps(struct.pack(shim.HEADER, shim.MAGIC, 5, 4, 0, 0, 0, 0, 0)), "not an answer"),
        (pickle.dumps(struct.pack(shim.HEADER, shim.MAGIC, 5, 0, 0, 0, 0, 1, 0)), "not an answer"),
    ],
)
def test_garbage_is_told_apart(output: bytes, text: str) -> None:
    with pytest.raises(Garbage, match=text):
        unpack_answer(output, 5)


def test_a_small_task_is_a_small_input() -> None:
    assert len(pack_call(1, call(len, [1]), "tcp://127.0.0.1:2345", "grid")) < 22_000
