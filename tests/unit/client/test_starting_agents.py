"""A client keeps the names of the agents that may have started its tasks with ``rerun=False``, and states them."""

from __future__ import annotations

import math

from scaler_protocol.messages import Acknowledgement, Body, StartingAgents, Tasks
from tests.unit.client.scheduler_side import SchedulerSide

FIRST, SECOND = b"1" * 16, b"2" * 16


def named_in(bodies: list[Body]) -> list[bytes]:
    """What the first message names, if it comes before all tasks."""
    kinds = [type(body) for body in bodies if isinstance(body, (StartingAgents, Tasks))]
    assert StartingAgents not in kinds[1:], "tasks came first"
    return [body.sessions for body in bodies if isinstance(body, StartingAgents)]


def test_each_scheduler_that_knows_nothing_of_the_session_is_told(side: SchedulerSide) -> None:
    side.submit(math.sqrt, 1.0)
    side.exchange()
    side.say(StartingAgents(FIRST + SECOND))
    side.exchange()
    side.connect(epoch=8)
    assert named_in(side.exchange()) == [FIRST + SECOND]
    side.say(StartingAgents(b"3" * 16, gone=FIRST))
    side.exchange()
    side.connect(epoch=9)
    assert named_in(side.exchange()) == [SECOND + b"3" * 16]


def test_a_scheduler_that_resumes_the_session_or_is_older_is_not_told(side: SchedulerSide) -> None:
    side.submit(math.sqrt, 1.0)
    side.exchange()
    side.say(StartingAgents(FIRST))
    side.exchange()
    side.connect(resumed=True)
    assert named_in(side.exchange()) == []
    side.connect(epoch=8, minor=3)
    assert named_in(side.exchange()) == []


def test_the_names_are_confirmed_at_once(side: SchedulerSide) -> None:
    """A task waits for that."""
    side.say(StartingAgents(FIRST))
    assert any(isinstance(body, Acknowledgement) for body in side.exchange())
