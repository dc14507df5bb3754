"""Liars say everything that can be said."""

from __future__ import annotations

import dataclasses
import random

from scaler_protocol.codec import decode, encode
from scaler_protocol.messages import Envelope, TaskOptions, Tasks
from tests.simulation import lies
from tests.simulation.lies import Lies, Lore

TRIES = 5000


def liar() -> Lies:
    return Lies(random.Random(1), Lore(), b"session of liar.")


def test_every_option_of_tasks_gets_values() -> None:
    said: set[str] = set()
    some = liar()
    for _ in range(TRIES):
        [run] = decode(encode(Envelope(Tasks([some.task_run()])))).body.runs
        said.update(each.name for each in dataclasses.fields(TaskOptions) if _is_set(run.options, each))
    assert said == {each.name for each in dataclasses.fields(TaskOptions)}


def _is_set(options: TaskOptions, field: dataclasses.Field[object]) -> bool:
    return bool(getattr(options, field.name) != field.default)


def test_every_message_is_said() -> None:
    some = liar()
    assert {type(some.body(lies.ALL)) for _ in range(TRIES)} == set(lies.ALL)
