"""The Symphony agent's core on a stage: the scheduler and Symphony say what the test says."""

from __future__ import annotations

import time
from typing import Any

from scaler_protocol.link import Link
from scaler_protocol.messages import Envelope, Hello, Results, ResultsReleased, Role, TaskOptions
from scaler_worker.core.settings import AgentSettings
from scaler_worker.symphony.core.agent import SymphonyCore
from scaler_worker.symphony.core.answer import SymphonyAnswer
from scaler_worker.symphony.core.effects import OpenSession, SendInput
from tests.unit.worker.playbook import AGENT, Stage


class GridStage(Stage):
    """With a session open, unless ``session`` is False."""

    def __init__(self, slots: int = 2, *, welcome: bool = True, session: bool = True, **settings: Any) -> None:
        self.now = time.monotonic()
        names = tuple(f"w{index}" for index in range(slots))
        hello = Hello(Role.WORK, AGENT, host="stage", pid=1)
        self.core: SymphonyCore = SymphonyCore(AgentSettings("agent", names, **settings), hello, self.now)
        self.processes = {}
        self.welcomed: list[int] = []
        self.released = 0
        self.sent: list[Envelope] = []
        self.effects: list[Any] = []
        self.link = Link()
        self.turn()
        if session:
            self.open_session()
        if welcome:
            self.connect()

    def open_session(self) -> None:
        self.core.on_session_opened(self.of(OpenSession)[-1].session, self.now)
        self.turn()

    def welcome(self, epoch: int = 1, resumed: bool = False, received: int = 0) -> None:
        self.welcomed.append(epoch)
        super().welcome(epoch, resumed, received)

    def release(self) -> None:
        """The clients have all results."""
        sequences = [each.sequence for each in self.sent[self.released :] if isinstance(each.body, Results)]
        self.released = len(self.sent)
        if sequences:
            self.say(ResultsReleased(tuple(sequences)))

    def end_session(self, text: str = "it ended") -> None:
        self.core.on_session_failed(self.core.grid.session.number, text, self.now)
        self.turn()

    def of(self, kind: type) -> list[Any]:
        return [effect for effect in self.effects if isinstance(effect, kind)]

    @property
    def inputs(self) -> list[SendInput]:
        """Everything given to Symphony, ever."""
        return self.of(SendInput)

    @property
    def tasks_there(self) -> list[int]:
        """Tasks in Symphony, in the order in which they were sent."""
        return [sent.run.first_task for sent in self.core.grid.sent.by_number.values()]

    def number_of(self, task: int) -> int:
        return next(number for number, sent in self.core.grid.sent.by_number.items() if sent.run.first_task == task)

    def answer(self, task: int, payload: bytes = b"r", status: int = 0, **figures: Any) -> None:
        self.answer_number(self.number_of(task), payload, status, **figures)

    def answer_number(self, number: int, payload: bytes = b"r", status: int = 0, **figures: Any) -> None:
        self.core.on_answer(number, SymphonyAnswer(status, payload, **figures), self.now)
        self.turn()


def nested(depth: int, **options: Any) -> TaskOptions:
    return TaskOptions(depth=depth, **options)
