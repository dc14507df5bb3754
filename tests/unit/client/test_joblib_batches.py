"""The sizes of joblib's batches, and how they are pickled."""

from __future__ import annotations

import io
import pickle
from typing import Any

import pytest

pytest.importorskip("joblib")

from scaler.client.reducers import ArgumentReducers  # noqa: E402
from scaler.integrations.joblib import _BatchPickler, grown_batch_size  # noqa: E402  # needs joblib

IDEAL_SECONDS = 0.2


@pytest.mark.parametrize(
    ("size", "seconds", "next_size"),
    [
        (1, 0.0, 1),  # no batch of this size has ended
        (1, 0.001, 8),
        (8, 0.008, 64),
        (8, 0.05, 32),
        (64, 0.099, 129),
        (64, 0.1, 64),
        (64, 0.3, 64),
    ],
)
def test_short_batches_grow_to_the_ideal_time(size: int, seconds: float, next_size: int) -> None:
    assert grown_batch_size(size, seconds, IDEAL_SECONDS) == next_size


FITS = 20


def contexts_of_fits(*callbacks: object) -> list[Any]:
    """What a search of scikit-learn with these callbacks gives to its fits."""
    module = pytest.importorskip("sklearn.callback._callback_context")
    search = type("Search", (), {"_skl_callbacks": list(callbacks)})()
    root = module.CallbackContext._from_estimator(search, "fit", 0, FITS, sequential_subtasks=True)
    return [root.subcontext(f"fit {number}") for number in range(FITS)]


def sent_and_loaded(batch: object) -> Any:
    file = io.BytesIO()
    _BatchPickler(file, (), lambda array: None, ArgumentReducers({}, False), []).dump(batch)
    return pickle.loads(file.getvalue())


def test_contexts_of_other_fits_do_not_travel_with_a_batch() -> None:
    third, fourth = sent_and_loaded(contexts_of_fits()[3:5])
    assert (third.task_name, third.task_id, fourth.task_id) == ("fit 3", 3, 4)
    assert third.parent is fourth.parent
    assert (third.parent.task_name, third.parent.estimator_name) == ("fit", "Search")
    assert len(list(third.parent)) == 1


def test_callbacks_see_all_contexts() -> None:
    (third,) = sent_and_loaded(contexts_of_fits(print)[3:4])
    assert third._callbacks == [print]
    assert len(list(third.parent)) == 1 + FITS
