"""``python -m benchmarks.fleet_agents ADDRESS AGENTS WORKERS``: many agents in one process, for ``benchmarks.fleet``.

Their cores, conversations and connections are the real ones; their worker processes are simulated: a task ends at once,
and a task of ``hold`` after ``HOLD_SECONDS``. Prints "joined" and the time whenever all agents have been welcomed.
"""

from __future__ import annotations

import asyncio
import heapq
import os
import secrets
import sys
import time
from collections.abc import Sequence, Set
from typing import Any

from scaler_protocol.codec import ResultRun, TaskRun
from scaler_protocol.command import new_event_loop
from scaler_protocol.command.descriptors import allow_many_descriptors
from scaler_protocol.command.guarded_loop import GuardedLoop
from scaler_protocol.command.turn_guard import TurnGuard
from scaler_protocol.handshake import NONCE_SIZE_BYTES, PeerHandshake, make_hello
from scaler_protocol.heartbeat_slots import seconds_to_next
from scaler_protocol.ids import new_session
from scaler_protocol.keys import worker_keys
from scaler_protocol.messages import ObjectKey, OutputPiece, Role, Status, TaskColumn, WorkerStatus
from scaler_protocol.transport.context import shared_context
from scaler_protocol.transport.dealer_connection import DealerConnection
from scaler_worker.core import held_tasks
from scaler_worker.core.agent import AgentCore
from scaler_worker.core.client_output import ClientOutput
from scaler_worker.core.columns import columns_of
from scaler_worker.core.settings import AgentSettings
from scaler_worker.core.state import AgentState
from scaler_worker.shell.conversation import Conversation, SchedulerConnection
from scaler_worker.symphony.core.store import MemoryStore

HOLD_SECONDS = 1.0
HEARTBEAT_SECONDS = 2.0
DURATION_US = 100
SLICE_TASKS = 64
_LOOK_SECONDS = 0.02
_NONE = b"N."


class SimulatedWorkers:
    """An ``ExecutionBackend`` without processes."""

    hosts_actors = False
    has_environments = False

    def __init__(self, count: int, state: AgentState) -> None:
        self.count = count
        self.client_output = ClientOutput(state)
        self._state = state
        self._held: list[tuple[float, int, TaskRun]] = []
        self._number = 0

    def turn(self, now: float, may_start: bool) -> None:
        state = self._state
        while self._held and self._held[0][0] <= now:
            self._end(heapq.heappop(self._held)[2])
        while may_start and len(self._held) < self.count and (head := state.queue.head()) is not None:
            if head.function_name == "hold":
                self._number += 1
                heapq.heappush(self._held, (now + HOLD_SECONDS, self._number, state.queue.take(1)))
            else:
                self._end(state.queue.take(SLICE_TASKS))

    def _end(self, run: TaskRun) -> None:
        stop, attempt, status = run.first_task + run.count, run.attempt, int(Status.SUCCESS)
        rows = [(task, attempt, status, _NONE, DURATION_US, DURATION_US, 0) for task in range(run.first_task, stop)]
        result = ResultRun(run.session, rows)
        if self._state.is_watched:
            result.set_place(0, bytes(4 * run.count))
        self._state.finished.append(result)

    def withdraw(self, count: int) -> list[TaskColumn]:
        runs = self._state.queue.withdraw(count)
        return columns_of(runs, held_tasks.without_nodes(self._state, runs))

    def cancel(self, column: TaskColumn, now: float) -> None:
        held_tasks.cancel(self._state, column)

    def cancel_unstarted(self, column: TaskColumn) -> TaskColumn:
        held_tasks.cancel(self._state, column)
        return TaskColumn(column.session, (), ())

    def fail_running_once(self, now: float) -> None:
        """There are none."""

    def forget_objects(self, keys: Sequence[ObjectKey]) -> None:
        """There are none."""

    def hold_back_calls(self, lost: Set[ObjectKey]) -> list[TaskRun]:
        """There are none."""
        return []

    def holds(self) -> list[TaskColumn]:
        return columns_of([*self._state.queue.runs(), *(run for _, _, run in self._held)], [])

    def task_of(self, number: int, sequence: int) -> tuple[bytes, int] | None:
        return None

    def number_asked_for(self, session: bytes, task: int, worker: str) -> int | None:
        return None

    def replace_process(self, worker: str, at_once: bool) -> bool:
        return False

    def output_of(self, session: bytes, task: int, worker: str) -> list[OutputPiece]:
        return []

    @property
    def queued(self) -> int:
        return self._state.queue.count

    @property
    def is_idle(self) -> bool:
        return not self._held and not self._state.queue.count

    def next_deadline(self) -> float | None:
        return self._held[0][0] if self._held else None

    def on_deadline(self, now: float) -> None:
        """The turn that follows does it."""

    def correct_counts(self) -> list[str]:
        return self._state.queue.correct_counts()

    def check(self) -> None:
        self._state.queue.check()


class FleetConnection(SchedulerConnection):
    """The agents of a process share the threads of libzmq."""

    def __init__(self, address: str, session: bytes) -> None:
        self.dealer = DealerConnection(shared_context(), address, session, worker_keys)
        self.handshake = PeerHandshake(self.dealer.place, secrets.token_bytes(NONCE_SIZE_BYTES))

    def close(self, linger_milliseconds: int = 0) -> None:
        self.dealer.close(linger_milliseconds)


class FleetAgent:
    def __init__(self, address: str, name: str, workers: int, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = guarded = GuardedLoop(loop, TurnGuard("Agent"))
        session, now = new_session(), time.monotonic()
        connection = FleetConnection(address, session)
        names = tuple(f"{name}-{index}" for index in range(workers))
        self.state = AgentState(MemoryStore(), now)
        self._workers = SimulatedWorkers(workers, self.state)
        hello = make_hello(Role.WORK, session, distribution="scaler-worker")
        settings = AgentSettings(name=name, worker_names=names)
        self._core = AgentCore(settings, hello, self.state, self._workers, now, connection.handshake)
        self._status = tuple(WorkerStatus(each, os.getpid(), 0.0, 0, True, False, False) for each in names)
        self._conversation = Conversation(self._core, connection, guarded, {})
        self._conversation.begin()

    def report(self) -> None:
        self._loop.call_later(seconds_to_next(HEARTBEAT_SECONDS, time.time()), self.report)
        self._core.report(0.0, 0, 0, self._status, time.monotonic())
        self._conversation.expect_turn()

    def start(self, after_seconds: float) -> None:
        self._loop.call_later(after_seconds, self.report)


async def serve(address: str, agents: int, workers: int) -> None:
    loop = asyncio.get_running_loop()
    fleet: list[FleetAgent] = []
    for index in range(agents):
        fleet.append(FleetAgent(address, f"{os.getpid()}-{index}", workers, loop))
        fleet[-1].start(HEARTBEAT_SECONDS * index / agents)
        await asyncio.sleep(0)
    was_joined = False
    while True:
        is_joined = all(agent.state.welcomed for agent in fleet)
        if is_joined and not was_joined:
            print("joined", time.monotonic(), flush=True)
        was_joined = is_joined
        await asyncio.sleep(_LOOK_SECONDS)


def main(arguments: list[str]) -> None:
    address, agents, workers = arguments
    allow_many_descriptors()
    loop: Any = new_event_loop("builtin")
    loop.run_until_complete(serve(address, int(agents), int(workers)))


if __name__ == "__main__":
    main(sys.argv[1:])
