"""Failures of tasks as bytes."""

from __future__ import annotations

import pickle
import threading
from typing import Any

import pytest

from scaler_protocol.messages import Status
from scaler_worker.processor.errors import MESSAGE_LIMIT_CHARACTERS, PAYLOAD_LIMIT_BYTES, exception_payload


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
    status, error, _, _ = sent(raised(ValueError("x" * 1_000_000, 7)))
    assert status == Status.EXCEPTION and type(error) is ValueError
    assert error.args == ("x" * MESSAGE_LIMIT_CHARACTERS + "... (1,000,000 characters)", 7)


def test_a_cause_that_is_too_large_is_left_out() -> None:
    status, error, _, _ = sent(raised(KeyError("small"), raised(ValueError(bytes(PAYLOAD_LIMIT_BYTES)))))
    assert status == Status.EXCEPTION and error.args == ("small",) and error.__cause__ is None


@pytest.mark.parametrize("held", [bytes(PAYLOAD_LIMIT_BYTES), threading.Lock()])
def test_what_cannot_travel_is_told_by_name(held: object) -> None:
    status, error, name, _ = sent(raised(RuntimeError(held)))
    assert (status, error, name) == (Status.EXCEPTION_NOT_SERIALIZABLE, None, "RuntimeError")
