"""A monitor stream made up for tests: what a busy cluster would say, the same for the same seed."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

from scaler_protocol.messages import LogLine, Status, WorkerStatus
from scaler_protocol.monitor import records
from scaler_protocol.monitor.messages import (
    ActorStatus,
    AgentStatus,
    ClientStatus,
    Events,
    EventTotals,
    FunctionStatus,
    GraphStatus,
    HostStoreStatus,
    HostTraffic,
    MessageCount,
    MonitorMessage,
    ObjectStatus,
    RunningTaskStatus,
    SchedulerStatus,
    Setting,
    Snapshot,
    TaskCounts,
    WaitGroup,
)
from scaler_protocol.monitor.records import Kind, Naming

START_TIME = 1_700_000_000.0
EPOCH = 7
MIB = 1024 * 1024
BATCH_SECONDS = 0.1
WORKERS_PER_AGENT = 8
FUNCTIONS = ("simulate", "price_option", "load_prices", "collect.<locals>.<lambda>", "numpy.linalg.eigh", "report")
SESSIONS = (b"\xab" * 16, b"\xcd" * 16)
GRAPH_NODES = 60
OBJECTS = (
    ObjectStatus(SESSIONS[0], 2**63 + 2**62 - 1, b"", 30 * MIB, 2, "node-0, node-1", 2, "30 31"),
    ObjectStatus(SESSIONS[0], 30, b"", 5 * MIB, 1, "node-0"),
)
ACTORS = (
    ActorStatus(SESSIONS[0], 98, FUNCTIONS[5], "node-0", "node-0-1", True, 1, 41, 1, 3, 75.0),
    ActorStatus(SESSIONS[0], 97, FUNCTIONS[2], waiting=2),
)
FAILURE_SHARE, CANCEL_SHARE = 0.004, 0.003
_CERTIFICATE = {
    "host": "node-0",
    "pid": 4711,
    "signal": "SIGSEGV",
    "exit_code": None,
    "out_of_memory": False,
    "peak_memory": 300 * MIB,
    "stack": 'Fatal Python error: Segmentation fault\n\nCurrent thread:\n  File "job.py", line 7',
    "stderr": ["loading prices", "double free or corruption"],
}


def synthetic_messages(
    seconds: float = 10.0, workers: int = 8, tasks_per_second: int = 2_000, seed: int = 1, start: float = START_TIME
) -> Iterator[MonitorMessage]:
    """``seconds`` of a cluster: a snapshot a second (one at the start), events each tenth of a second, a last snapshot
    whose counts are exact. Rows: names, tasks of several functions, failures of several causes, cancels, a graph."""
    cluster = SyntheticCluster(workers, tasks_per_second, seed, start)
    yield cluster.snapshot()
    yield cluster.names()
    yield cluster.graph()
    for turn in range(round(seconds / BATCH_SECONDS)):
        yield cluster.batch()
        if turn % round(1 / BATCH_SECONDS) == round(1 / BATCH_SECONDS) - 1:
            yield cluster.snapshot()
    yield cluster.snapshot()


class SyntheticCluster:
    """The state of the made-up cluster. Workers are divided over agents, each of them busy most of the time."""

    def __init__(self, workers: int, tasks_per_second: int, seed: int, start: float = START_TIME) -> None:
        self.random = Random(seed)
        self.start = self.time = start
        self.turns = 0
        self.workers = workers
        self.tasks_per_second = tasks_per_second
        self.counts = dict.fromkeys(Status, 0)
        self.by_function = [[0, 0, 0, 0.0] for _ in FUNCTIONS]  # succeeded, failed, canceled, seconds
        self.first = 0
        self.next_task = [1 + GRAPH_NODES, 1]
        self.free_at = [start] * workers

    @property
    def agents(self) -> int:
        return (self.workers + WORKERS_PER_AGENT - 1) // WORKERS_PER_AGENT

    def names(self) -> Events:
        found = [
            records.name_record(
                Naming.SESSION, index, {"session": session.hex(), "host": "notebook", "pid": 777 + index}
            )
            for index, session in enumerate(SESSIONS)
        ]
        found += [
            records.name_record(Naming.FUNCTION, index, {"digest": _digest(index).hex(), "name": name})
            for index, name in enumerate(FUNCTIONS)
        ]
        found += [records.name_record(Naming.AGENT, index, _agent_name(self, index)) for index in range(self.agents)]
        found += [self._record(Kind.AGENT_JOINED, agent=index) for index in range(self.agents)]
        found += [
            records.log_record(LogLine(0, self.time, 20, "Worker[0] started"), index) for index in range(self.agents)
        ]
        found += [self._record(Kind.CLIENT_JOINED, session=index) for index in range(len(SESSIONS))]
        return self._events(found)

    def graph(self) -> Events:
        """Layers of ten nodes; each needs two of the layer before."""
        edges: list[int] = []
        for node in range(11, GRAPH_NODES + 1):
            edges += [node, node - 10, node, (node - 10) // 10 * 10 + 1]
        body = b"".join(value.to_bytes(8, "little") for value in [GRAPH_NODES, *edges])
        graph = self._record(Kind.GRAPH, session=0, first=1, count=GRAPH_NODES, function=0, body=body)
        handed = self._record(Kind.HANDED, session=0, first=1, count=40, agent=0, attempt=1)
        ended = records.ended_record(
            list(range(1, 31)), [2000] * 30, [1] * 30, [0] * 30,
            time=self._microseconds(), session=0, function=0, agent=0, worker=0,
        )  # fmt: skip
        self.counts[Status.SUCCESS] += 30
        self.by_function[0][0] += 30
        return self._events([graph, handed, ended])

    def batch(self) -> Events:
        """A tenth of a second: a record of ended tasks for each agent, and one for each failure."""
        self.turns += 1
        self.time = round(self.start + self.turns * BATCH_SECONDS, 3)
        found: list[bytes] = []
        share = self.tasks_per_second * BATCH_SECONDS / self.agents
        for agent in range(self.agents):
            found += self._ended(agent, int(share) + (self.random.random() < share % 1))
        return self._events(found)

    def snapshot(self) -> Snapshot:
        counts = self.counts
        return Snapshot(
            scheduler=SchedulerStatus(
                "tcp://127.0.0.1:2345", EPOCH, "1.0.0", "node-0", 4242, self.time - self.start, 12.5, 130 * MIB
            ),
            tasks=TaskCounts(
                unassigned=2_000 + self.random.randrange(500),
                running=self.workers,
                success=counts[Status.SUCCESS],
                failed=counts[Status.EXCEPTION] + counts[Status.PROCESSOR_DIED] + counts[Status.TIMED_OUT],
                canceled=counts[Status.CANCELLED],
            ),
            sent=(MessageCount("HeartbeatEcho", 283_701), MessageCount("Tasks", 53_766)),
            received=(MessageCount("Heartbeat", 283_701), MessageCount("Results", 53_794)),
            agents=tuple(self._agent(index) for index in range(self.agents)),
            clients=(
                ClientStatus(SESSIONS[0], "notebook", 777, True, 2_000, self.workers, self.next_task[0]),
                ClientStatus(SESSIONS[1], "notebook", 778, True, 0, 0, self.next_task[1], SESSIONS[0]),
            ),
            functions=tuple(self._function(index) for index in range(len(FUNCTIONS))),
            time=self.time,
            settings=(Setting("per-worker-queue-size", "1000"), Setting("protected", "True")),
            waits=(
                WaitGroup(_digest(1), FUNCTIONS[1], "no worker has the capability gpu", 120, 33.0, SESSIONS[0], 99),
                WaitGroup(_digest(0), FUNCTIONS[0], "all workers are busy", 1_880, 0.4, SESSIONS[0], 100),
            ),
            graphs=(GraphStatus(SESSIONS[0], GRAPH_NODES, GRAPH_NODES, 10, 10, 10, 30, 0),),
            objects=OBJECTS,
            actors=ACTORS,
            actor_count=len(ACTORS),
            stores=tuple(self._store(index) for index in range(self.agents)),
            traffic=(HostTraffic("node-0", "node-1", 300 * MIB),),
            events=EventTotals(self.first, 0),
            function_count=len(FUNCTIONS),
            wait_count=2,
            graph_count=1,
        )

    def _ended(self, agent: int, count: int) -> list[bytes]:
        if not count:
            return []
        session = 0 if self.random.random() < 0.8 else 1
        first = self.next_task[session]
        self.next_task[session] += count
        rows = [self._execution(agent) for _ in range(count)]
        rows.sort(key=lambda row: -row[0])
        ages, workers, functions, durations, statuses = map(list, zip(*rows, strict=True))
        failed = [
            self._failure(agent, session, first + row, workers[row], functions[row], status)
            for row, status in enumerate(statuses)
            if status not in (Status.SUCCESS, Status.CANCELLED)
        ]
        tasks = range(first, first + count)
        ended = records.ended_record(
            tasks, durations, [1] * count, statuses,
            time=self._microseconds(), session=session, functions=functions, ages=ages, workers=workers, agent=agent,
        )  # fmt: skip
        return [ended, *failed]

    def _execution(self, agent: int) -> tuple[int, int, int, int, int]:
        """Age of its end, worker, function, duration and status. Workers run one task after another."""
        chance = self.random
        first = agent * WORKERS_PER_AGENT
        own = range(first, min(first + WORKERS_PER_AGENT, self.workers))
        worker = min(own, key=self.free_at.__getitem__)
        begin = max(self.free_at[worker], self.time - BATCH_SECONDS)
        mean = 0.8 * self.workers / self.tasks_per_second
        function = min(len(FUNCTIONS) - 1, int(chance.expovariate(0.7)))
        duration = mean * (0.3 + 1.4 * chance.random())
        end = min(self.time, begin + duration)
        duration = max(1e-6, end - begin)
        self.free_at[worker] = end
        status = self._status()
        self._count(function, status, duration)
        return int((self.time - end) * 1e6), worker - first, function, int(duration * 1e6), status

    def _status(self) -> Status:
        chance = self.random.random()
        if chance < FAILURE_SHARE:
            return self.random.choice((Status.EXCEPTION, Status.EXCEPTION, Status.PROCESSOR_DIED, Status.TIMED_OUT))
        return Status.CANCELLED if chance < FAILURE_SHARE + CANCEL_SHARE else Status.SUCCESS

    def _count(self, function: int, status: Status, duration: float) -> None:
        self.counts[status] += 1
        totals = self.by_function[function]
        totals[0 if status is Status.SUCCESS else 2 if status is Status.CANCELLED else 1] += 1
        totals[3] += duration

    def _failure(self, agent: int, session: int, task: int, worker: int, function: int, status: int) -> bytes:
        return records.failed_record(
            status, failure_payload(status, task),
            time=self._microseconds(), session=session, task=task, attempt=1, agent=agent, function=function,
            worker=worker,
        )  # fmt: skip

    def _agent(self, index: int) -> AgentStatus:
        names = _agent_name(self, index)
        workers = tuple(
            WorkerStatus(
                name, 20_000 + 100 * index + number, 50 + 50 * self.random.random(), 113 * MIB, True, True, False
            )
            for number, name in enumerate(names["workers"])
        )
        return AgentStatus(
            _session(index), names["name"], names["host"], names["pid"], cpu_percent=2.5, rss_bytes=111 * MIB,
            rss_free_bytes=4096 * MIB, queued=40, lag_seconds=0.0007, sent=50, free=1000 * len(workers) - 50,
            workers=workers, running=(self._running(index),),
        )  # fmt: skip

    def _running(self, index: int) -> RunningTaskStatus:
        """The first worker of each agent has run a task for a minute."""
        return RunningTaskStatus(
            _session(0), FUNCTIONS[0], _digest(0), 1_000_000 + index, 1, 0, 20_000 + 100 * index, 60.0, 60.0, 0.5,
            0.0, 113 * MIB,
        )  # fmt: skip

    def _function(self, index: int) -> FunctionStatus:
        succeeded, failed, canceled, seconds = self.by_function[index]
        finished = int(succeeded + failed + canceled)
        unfinished = 1_880 if index == 0 else 120 if index == 1 else 0
        return FunctionStatus(
            _digest(index), FUNCTIONS[index], unfinished, finished, int(succeeded), int(failed), int(canceled), seconds
        )

    def _store(self, index: int) -> HostStoreStatus:
        used = (200 + 50 * (index % 5)) * MIB
        return HostStoreStatus(f"node-{index}", 120 + index, used, 1024 * MIB, 0, 3 * used, 2 * used)

    def _record(self, kind: Kind, **header: Any) -> bytes:
        return records.record(kind, time=self._microseconds(), **header)

    def _microseconds(self) -> int:
        return int(self.time * 1e6)

    def _events(self, found: Sequence[bytes]) -> Events:
        first, self.first = self.first, self.first + len(found)
        return Events(self.time, first, b"".join(found), 0, len(found), EPOCH)


def failure_payload(status: int, task: int) -> bytes:
    """What a failed task's payload looks like."""
    if status == Status.PROCESSOR_DIED:
        return json.dumps([{**_CERTIFICATE, "pid": 4711 + task % 3}]).encode()
    if status == Status.TIMED_OUT:
        return b"The task ran longer than 2 seconds."
    kind, message = [("ValueError", "negative price"), ("KeyError", "'EURUSD'")][task % 2]
    text = (
        f'Traceback (most recent call last):\n  File "job.py", line {20 + task % 2}, in simulate\n{kind}: {message}\n'
    )
    return pickle.dumps((b"\x80\x05cjob\nMyError\n.", kind, message, text))


def _agent_name(cluster: SyntheticCluster, index: int) -> dict[str, Any]:
    count = min(WORKERS_PER_AGENT, cluster.workers - index * WORKERS_PER_AGENT)
    name = f"node-{index}-agent"
    workers = [f"node-{index}-{number}" for number in range(count)]
    return {
        "session": _session(index).hex(),
        "name": name,
        "host": f"node-{index}",
        "pid": 9_000 + index,
        "workers": workers,
    }


def _session(agent: int) -> bytes:
    return bytes([1]) + agent.to_bytes(15, "big")


def _digest(function: int) -> bytes:
    return bytes([function + 1]) * 16
