"""Which exception a task's outcome becomes."""

from __future__ import annotations

import pickle

from scaler.client.outcomes import actor_died, failure_of
from scaler.core.outcome import Outcome
from scaler.utility.exceptions import DeserializeObjectError, ObjectStoreError
from scaler_protocol.messages import Status
from scaler_protocol.objects.errors import StoreFull


def outcome_of(error: BaseException, status: Status) -> Outcome:
    return Outcome(status, pickle.dumps((pickle.dumps(error), type(error).__name__, str(error), "")))


def test_no_room_in_the_store() -> None:
    failure = failure_of(outcome_of(StoreFull("Raise --object-store-memory."), Status.EXCEPTION))
    assert type(failure) is ObjectStoreError
    assert str(failure) == "Raise --object-store-memory."


def test_what_cannot_be_loaded_says_why() -> None:
    failure = failure_of(outcome_of(ValueError("odd"), Status.DESERIALIZE_FAILED))
    assert type(failure) is DeserializeObjectError
    assert str(failure) == "ValueError: odd"


def test_an_unknown_actor_is_known_by_its_status_whatever_the_sentence() -> None:
    failure = actor_died("Counter", Outcome(Status.NOT_FOUND, b"Any other sentence."), None, 0)
    assert str(failure).startswith("The actor of Counter is unknown to this cluster: ")
    failure = actor_died("Counter", Outcome(Status.WORKER_DIED, b"The actor is unknown to this cluster."), None, 0)
    assert str(failure).startswith("The actor of Counter has died.")
