"""The agent's core, attacked by its worker processes: real boards, scribbled over by user code, and deaths at any time.

No exception escapes, and the core's own check holds after each step. Every task that the agent was given is answered,
whatever became of the processes, once those that were scribbled over have ended: one that skips a task is like one that
never ends it.
"""

from __future__ import annotations

from fuzz.choices import Choices
from fuzz.tally import TALLY
from scaler_protocol.messages import Cancel, TaskColumn, Withdraw, Withdrawn
from scaler_worker.core.effects import Kill
from tests.unit.worker.playbook import CLIENT, Stage, nothing, run_of

PLACES = (64, 72, 80, 128, 192, 256, 320, 4096, 4097, 4096 + 16384, 4096 + 16384 + 32)
MOST_STEPS = 48
NUMBERS = (0, 1, 2, 48, 2**20, 2**32 - 1, 2**63, 2**64 - 1)
END_ROUNDS = 30


class Workshop(Stage):
    """``given``: tasks that the agent has to answer. ``scribbled``: processes whose boards were written over."""

    def __init__(self) -> None:
        super().__init__(2)
        self.given: list[int] = []
        self.next_task = 1
        self.scribbled: set[int] = set()

    def step(self, choices: Choices) -> None:
        operation = choices.below(8)
        if operation <= 1:
            self.give_some(choices)
        elif operation == 2:
            self.scribble(choices)
        elif operation == 3:
            self.say(Cancel((TaskColumn(CLIENT, tuple(range(1, 1 + choices.below(8))), ()),), choices.below(2) == 1))
        elif operation == 4:
            self.say(Withdraw(choices.below(8)))
        elif operation == 5:
            self.end_one(choices)
        elif operation == 6:
            self.pass_time(choices.pick([0.05, 0.5, 3.0]))
        else:
            self.work(choices)
        self.end_killed()
        TALLY.count_messages()

    def give_some(self, choices: Choices) -> None:
        count = 1 + choices.below(6)
        self.give(run_of(count, first=self.next_task, function=nothing), function=nothing)
        self.given += range(self.next_task, self.next_task + count)
        self.next_task += count

    def work(self, choices: Choices) -> None:
        """One process runs what it has; one whose board was scribbled over may find no room for a result, ever."""
        numbers = list(self.processes)
        if numbers:
            number = choices.pick(numbers)
            try:
                self.processes[number].run()
            except AssertionError:
                self.die(number, signal="SIGKILL")
            else:
                self.core.on_worker_process_news(number, self.now)
                self.turn()
        self.ready()

    def scribble(self, choices: Choices) -> None:
        """Over a board, and say that there is news."""
        numbers = list(self.processes)
        if not numbers:
            return
        number = choices.pick(numbers)
        self.scribbled.add(number)
        memory = self.processes[number].memory
        new = choices.pick(NUMBERS).to_bytes(8, "little") if choices.flag() else choices.take(8)
        place = choices.pick(PLACES)
        memory[place : place + len(new)] = new
        self.core.on_worker_process_news(number, self.now)
        self.turn()

    def end_one(self, choices: Choices) -> None:
        if self.processes:
            self.die(choices.pick(list(self.processes)), signal="SIGSEGV")

    def end_killed(self) -> None:
        """End the processes that the core wants killed, like the shell."""
        wanted = [effect.number for effect in self.effects if isinstance(effect, Kill)]
        self.effects.clear()
        for number in wanted:
            if number in self.processes:
                self.die(number, signal="SIGKILL")
        self.ready()

    def end(self) -> None:
        """All goes its way; then what was scribbled over ends, and the rest goes on."""
        self.finish_some()
        for number in self.scribbled & set(self.processes):
            self.die(number, signal="SIGKILL")
        self.ready()
        self.finish_some()

    def finish_some(self) -> None:
        for number in range(END_ROUNDS):
            self.work(Choices(bytes([number])))
            self.pass_time(0.2)
            self.end_killed()

    def check_answers(self) -> None:
        """Results and what was given back."""
        back = [task for body in self.bodies(Withdrawn) for column in body.columns for task in column.tasks]
        answered = sorted([*self.results(), *back])
        assert sorted(set(answered)) == sorted(set(self.given)), (answered, self.given)


def one_input(data: bytes) -> None:
    choices = Choices(data)
    workshop = Workshop()
    for _ in range(MOST_STEPS):
        if not choices.more:
            break
        workshop.step(choices)
    workshop.end()
    workshop.check_answers()
