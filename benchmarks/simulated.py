"""A scheduler's core with simulated peers.

In one process, without sockets, encoding or worker processes. The agents are simulated and answer at once all they were
given; only the time spent in the core is counted. Deadlines come due on the real clock, so that what the core does
per agent and second counts as well.
"""

from __future__ import annotations

import mmap
import time
from collections import deque
from collections.abc import Iterator

from scaler_protocol.codec import ResultRun, TaskRun
from scaler_protocol.ids import digest
from scaler_protocol.link import Link
from scaler_protocol.messages import (
    Acknowledgement,
    AgentAttach,
    Body,
    Envelope,
    FunctionDefinition,
    Hello,
    Results,
    Role,
    Status,
    TaskOptions,
    Tasks,
)
from scaler_protocol.monitor.ring import RING_HEADER_BYTES, RingReader, RingWriter
from scaler_scheduler.core.effects import Send
from scaler_scheduler.core.scheduler import SchedulerCore
from scaler_scheduler.core.settings import Settings

SLOTS = 2
DURATION_US = 100
RUN_TASKS = 10_000
RING_BYTES = 32 * 1024 * 1024
WARM_UP_TASKS = 2 * SLOTS
"""Per agent: then the duration of the function is known."""

PICKLE = b"function"
FUNCTION = digest(PICKLE)
CLIENT = b"c" * 16


class SimulatedPeer:
    """One end of a link, and what has come over it."""

    def __init__(self, session: bytes) -> None:
        self.session = session
        self.link = Link()
        self.runs: list[TaskRun] = []
        self.results = 0

    def take(self, envelope: Envelope) -> None:
        self.link.accept(envelope)
        body = envelope.body
        if type(body) is Tasks:
            self.runs += body.runs
        elif type(body) is Results:
            self.results += sum(run.count for run in body.runs)

    def answer(self, duration_us: int = DURATION_US) -> Results:
        """The results of all that it was given."""
        runs, self.runs = self.runs, []
        return Results([ResultRun(run.session, _rows(run, duration_us)) for run in runs])

    def answers(self, rows: int) -> Iterator[Results]:
        """The same, at most so many in a message, of tasks that take next to no time; each says which worker made
        them, and when."""
        for run in [each for whole in self.answer(0).runs for each in _slices(whole, rows)]:
            run.set_place(0, bytes(4 * run.count))
            yield Results([run])


def _rows(run: TaskRun, duration_us: int) -> list[tuple[int, int, int, bytes, int, int, int]]:
    stop = run.first_task + run.count
    attempt, status = run.attempt, int(Status.SUCCESS)
    return [(task, attempt, status, b"N.", duration_us, duration_us, 0) for task in range(run.first_task, stop)]


def _slices(run: ResultRun, rows: int) -> list[ResultRun]:
    return [run.slice(first, min(first + rows, run.count)) for first in range(0, run.count, rows)]


class Bench:
    """A core with a client. ``seconds``: of processor time spent in the core. ``rows``: how many results come in a
    message, None: as many as there are."""

    def __init__(self, rows: int | None = None) -> None:
        self.rows = rows
        self.ring: RingReader | None = None
        self.core = SchedulerCore(Settings(address="inproc://core", session=b"s" * 16, epoch=1), time.perf_counter())
        self.seconds = 0.0
        self.busy: deque[SimulatedPeer] = deque()
        self.client = SimulatedPeer(CLIENT)
        self.peers = {CLIENT: self.client}
        self._feed(self.client, Envelope(Hello(Role.SUBMIT, CLIENT)))

    def _join(self, agent: SimulatedPeer) -> None:
        self.peers[agent.session] = agent
        self._feed(agent, Envelope(Hello(Role.WORK, agent.session)))
        names = tuple(f"worker {slot}" for slot in range(SLOTS))
        self.says(agent, AgentAttach("agent", "host", 1, names))

    def says(self, peer: SimulatedPeer, body: Body) -> None:
        self._feed(peer, peer.link.wrap(body))

    def _feed(self, peer: SimulatedPeer, envelope: Envelope) -> None:
        core = self.core
        started, now = time.thread_time(), time.perf_counter()
        core.on_message(peer.session, envelope, now)
        deadline = core.next_deadline()
        if deadline is not None and deadline <= now:
            core.on_deadline(now)
        effects = core.take_effects(now)
        self.seconds += time.thread_time() - started
        for effect in effects:
            if type(effect) is Send:
                self._deliver(self.peers[effect.peer], effect.envelope)

    def _deliver(self, peer: SimulatedPeer, envelope: Envelope) -> None:
        waited = bool(peer.runs)
        if envelope.sequence:
            peer.take(envelope)
        if peer.runs and not waited:
            self.busy.append(peer)

    def _submit(self, tasks: int) -> None:
        definition = FunctionDefinition(FUNCTION, "f", PICKLE, 8)
        for first in range(0, tasks, RUN_TASKS):
            slots = [[b"argument"]] * min(RUN_TASKS, tasks - first)
            run = TaskRun(CLIENT, FUNCTION, "f", b"", first, 1, (), TaskOptions(), slots)
            self.says(self.client, Tasks([run], [definition]))

    def _answer_until(self, results: int) -> None:
        while self.client.results < results:
            agent = self.busy.popleft()
            for body in [agent.answer()] if self.rows is None else agent.answers(self.rows):
                self.says(agent, body)
            if self.client.link.owes_acknowledgement:
                self.says(self.client, Acknowledgement())
            while self.ring is not None and self.ring.take(RING_BYTES)[1]:
                pass

    def watch(self) -> None:
        """Event records are wanted from now on."""
        memory = mmap.mmap(-1, RING_HEADER_BYTES + RING_BYTES, mmap.MAP_SHARED | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE)
        self.ring = RingReader(memory)
        self.core.watch(RingWriter(memory), 0.0, time.perf_counter())

    def run(self, agents: int, tasks: int) -> float:
        """Microseconds of the core per task: to take it in, to hand it out and to forward its result. The first
        results, from which the core learns how long tasks take, do not count."""
        self._submit(tasks)
        taken_in = self.seconds / tasks
        for number in range(agents):
            self._join(SimulatedPeer(number.to_bytes(16, "little")))
        self._answer_until(WARM_UP_TASKS * agents)
        self.seconds, before = 0.0, self.client.results
        self._answer_until(tasks)
        self.core.check()
        return (taken_in + self.seconds / (tasks - before)) * 1e6
