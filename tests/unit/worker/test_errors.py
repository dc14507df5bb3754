"""Failures of tasks as bytes."""

from __future__ import annotations

import pickle
import re
import threading
from typing import Any

import pytest

from scaler.utility.exceptions import ObjectStoreError
from scaler_protocol.messages import Status
from scaler_worker.worker_process.errors import PAYLOAD_LIMIT_BYTES, exception_payload
from scaler_worker.worker_process.shortening import PART_LIMIT_BYTES


def raised(error: BaseException, cause: BaseException | None = None) -> BaseException:
    with pytest.raises(type(error)) as caught:
        raise error from cause
    return caught.value


def sent(error: BaseException) -> tuple[int, Any, str, str]:
    """Status, the exception as a client loads it, type name, message."""
    status, payload = exception_payload(error)
    data, name, message, _ = pickle.loads(payload)
    return status, pickle.loads(data) if data else None, name, message


def test_an_exception_keeps_type_and_message() -> None:
    status, error, name, message = sent(raised(KeyError("lost")))
    assert (status, type(error), error.args, name, message) == (
        Status.EXCEPTION,
        KeyError,
        ("lost",),
        "KeyError",
        "'lost'",
    )
    assert error.__traceback__ is None  # the formatted one travels


def test_a_message_that_is_too_long_is_cut_and_the_type_stays() -> None:
    status, error, _, _ = sent(raised(ValueError("begin" + "x" * 1_000_000 + "end", 7)))
    assert status == Status.EXCEPTION and type(error) is ValueError
    text, number = error.args
    assert number == 7 and text.startswith("beginxxx") and text.endswith("xxxend")
    assert "... (1,000,008 characters) ..." in text and len(text) < 2 * PART_LIMIT_BYTES
    (note,) = error.__notes__
    assert re.fullmatch(r"This exception takes 1,000,\d+ bytes, of which at most 262,144 are sent: .* are cut\.", note)


@pytest.mark.parametrize(
    ("held", "kept"),
    [
        (bytes(30_000_000), rb"\x00+\.\.\. \(30,000,000 bytes\) \.\.\.\x00+"),
        ([0] * 1_000_000, "<list, left out: [0-9,]+ bytes>"),
    ],
    ids=["bytes", "list"],
)
def test_what_is_too_large_is_cut_or_left_out_wherever_it_is_held(held: object, kept: Any) -> None:
    status, error, _, _ = sent(raised(ValueError("it holds", held)))
    assert status == Status.EXCEPTION and type(error) is ValueError and error.args[0] == "it holds"
    assert re.fullmatch(kept, error.args[1])


def test_attributes_are_cut_too_and_the_others_stay() -> None:
    status, short, name, _ = sent(raised(Hidden(bytes(30_000_000))))
    assert (status, name, type(short), short.code) == (Status.EXCEPTION, "Hidden", Hidden, 7)
    assert len(short.table) < 2 * PART_LIMIT_BYTES and short.args == ()


class Hidden(Exception):
    def __init__(self, table: object = None) -> None:
        super().__init__()
        self.table = table
        self.code = 7


def test_a_cause_that_is_too_large_is_left_out() -> None:
    status, error, _, _ = sent(raised(KeyError("small"), raised(ValueError(bytes(PAYLOAD_LIMIT_BYTES)))))
    assert status == Status.EXCEPTION and error.args == ("small",) and error.__cause__ is None


def test_what_cannot_travel_is_told_by_name() -> None:
    status, error, name, _ = sent(raised(RuntimeError(threading.Lock())))
    assert (status, error, name) == (Status.EXCEPTION_NOT_SERIALIZABLE, None, "RuntimeError")


class OfAnApplication(Exception):
    """The root of an application's exceptions."""


class OutOfRoom(OfAnApplication, MemoryError):
    """``MemoryError.__new__`` refuses this type, whose layout is that of its first base."""


class Numbered(Exception):
    """``__new__`` needs an argument, and ``__init__`` does not pass it on."""

    def __new__(cls, number: int) -> Numbered:
        return super().__new__(cls, number)

    def __init__(self, number: int) -> None:
        super().__init__(number)


@pytest.mark.parametrize("error", [OutOfRoom("full"), Numbered(7), ObjectStoreError("full")], ids=repr)
def test_an_exception_that_cannot_be_made_without_its_arguments_keeps_its_type(error: Exception) -> None:
    status, received, _, _ = sent(raised(error))
    assert (status, type(received), received.args) == (Status.EXCEPTION, type(error), error.args)


def test_a_long_message_leaves_the_place_and_its_last_words() -> None:
    try:
        raise RuntimeError("first words " + "x" * 500_000 + " last words")
    except RuntimeError as error:
        _, payload = exception_payload(error)
    _, _, message, text = pickle.loads(payload)
    for part in (message, text):
        assert "first words" in part and part.rstrip().endswith("last words") and "are left out" in part
    assert "Traceback" in text and len(message) < 17_000 and len(text) < 66_000
