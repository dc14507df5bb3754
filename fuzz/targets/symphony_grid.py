"""The core of a Symphony agent, attacked by Symphony: answers, refusals and failures of any execution, repeated and
late, and sessions that open and end in any order.

No exception escapes, and the core's own check holds after each step. Every task that the agent was given is answered or
given back, once, when Symphony behaves again; nothing is left of them.
"""

from __future__ import annotations

from collections.abc import Iterator

from fuzz.choices import Choices
from fuzz.tally import TALLY
from scaler_protocol.messages import (
    INLINE_LIMIT_BYTES,
    Cancel,
    Hello,
    Results,
    Status,
    TaskColumn,
    TaskOptions,
    Withdraw,
    Withdrawn,
)
from scaler_worker.core.effects import Exit
from scaler_worker.symphony.core.answer import SymphonyAnswer
from scaler_worker.symphony.core.effects import OpenSession
from tests.unit.symphony.playbook import GridStage
from tests.unit.worker.playbook import CLIENT, nothing, run_of

LONGEST_INPUT_BYTES = 1024
MOST_STEPS = 64
MOST_SLOTS = 3
PAUSES_SECONDS = (0.05, 0.2, 0.6, 3.0, 6.0)
SIZES_BYTES = (0, 1, 100, INLINE_LIMIT_BYTES, INLINE_LIMIT_BYTES + 1)
STATUSES = (Status.SUCCESS, Status.SUCCESS, Status.SUCCESS, Status.EXCEPTION)
END_ROUNDS = 40


class AttackedGrid(GridStage):
    """``given``: the tasks that the agent has to answer. ``hellos``: those in the first ``looked_at`` of ``sent``."""

    def __init__(self, choices: Choices) -> None:
        self.hellos = self.looked_at = 0
        super().__init__(1 + choices.below(MOST_SLOTS), session=choices.flag())
        self.given = 0

    def turn(self) -> None:
        """The scheduler welcomes the agent when it joins again."""
        super().turn()
        self.count_hellos()
        if self.welcomed and self.hellos > len(self.welcomed):
            self.welcome()

    def count_hellos(self) -> None:
        """Look at what was sent since the last look only: there are thousands of turns."""
        sent = self.sent[self.looked_at :]
        self.looked_at += len(sent)
        self.hellos += sum(isinstance(envelope.body, Hello) for envelope in sent)

    def step(self, choices: Choices) -> None:
        operation = choices.below(10)
        if operation <= 1:
            self.give_some(choices)
        elif operation == 2:
            self.say(Cancel((TaskColumn(CLIENT, self.some_tasks(choices), ()),), choices.flag()))
        elif operation == 3:
            self.say(Withdraw(choices.below(8)))
        elif operation == 4:
            self.pass_time(choices.pick(PAUSES_SECONDS))
        elif operation == 5:
            self.release()
        else:
            self.hear(operation, choices)
        self.turn()
        TALLY.count_messages()

    def give_some(self, choices: Choices) -> None:
        count = 1 + choices.below(4)
        limit = choices.pick((0.0, 0.0, 0.5))
        options = TaskOptions(rerun=not choices.flag(3), depth=choices.below(3), timeout_seconds=limit)
        self.give(run_of(count, first=self.given + 1, function=nothing, options=options))
        self.given += count

    def some_tasks(self, choices: Choices) -> tuple[int, ...]:
        first = choices.below(self.given + 2)
        return tuple(range(first, first + choices.below(4)))

    def hear(self, operation: int, choices: Choices) -> None:
        """Symphony says something of an execution that exists, existed, or never did, or of a session that it was to
        open at some time."""
        number, session = choices.below(self.given + 4), choices.pick(self.of(OpenSession)).session
        if operation == 6:
            self.core.on_answer(number, any_answer(choices), self.now)
        elif operation == 7:
            self.core.on_failure(number, "{task} failed", self.now, choices.pick((b"", b"report")))
        elif operation == 8 and choices.flag():
            self.core.on_taken(number, self.now)
        elif operation == 8:
            self.core.on_refused(number, "full", self.now)
        elif choices.flag():
            self.core.on_session_opened(session, self.now)
        else:
            self.core.on_session_failed(session, "it ended", self.now)

    def end(self) -> None:
        """Symphony behaves: it opens the session that is wanted, and answers what is there."""
        for _ in range(END_ROUNDS + self.given):  # one slot answers one task per round
            wanted = self.of(OpenSession)
            if wanted:
                self.core.on_session_opened(wanted[-1].session, self.now)
                self.turn()
            for number in list(self.core.grid.sent.by_number):
                self.answer_number(number)
            self.pass_time(0.5)
            self.release()

    def check_ends(self) -> None:
        rows = [row for results in self.bodies(Results) for run in results.runs for row in run.rows()]
        results = {(row[0], row[2], bytes(row[3])) for row in rows}  # some are sent again when it has joined again
        back = [task for body in self.bodies(Withdrawn) for column in body.columns for task in column.tasks]
        ended = sorted([*(task for task, _, _ in results), *back])
        assert ended == list(range(1, self.given + 1)), (ended, self.given)
        assert not self.of(Exit), "an agent leaves that Symphony is there for"
        assert self.core.grid.is_idle and not self.core.grid.sent.by_number


def any_answer(choices: Choices) -> SymphonyAnswer:
    return SymphonyAnswer(
        int(choices.pick(STATUSES)), bytes(choices.pick(SIZES_BYTES)), stdout=choices.pick((b"", b"x"))
    )


def one_input(data: bytes) -> None:
    choices = Choices(data)
    grid = AttackedGrid(choices)
    for _ in range(MOST_STEPS):
        if not choices.more:
            break
        grid.step(choices)
    grid.end()
    grid.check_ends()


def seeds() -> Iterator[bytes]:
    for first in range(4):
        yield bytes([first, 1, *range(200)])
        yield bytes([first, 0, *(number * 37 % 256 for number in range(400))])
