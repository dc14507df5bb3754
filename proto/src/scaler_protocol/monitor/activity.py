"""Activity, computed from event records: tasks that ended, failures, graphs, peers that joined and left.

Nothing here is done once per task: a record holds a whole run of tasks, and its columns go into the log as they are.
Sessions and functions keep the indices that records use; workers get one of the model's own.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from scaler_protocol.messages import Status
from scaler_protocol.monitor import records
from scaler_protocol.monitor.bounds import (
    CAPABILITIES_LIMIT,
    CAPABILITY_LIMIT,
    IDENTITY_LIMIT_BYTES,
    NAMES_LIMIT,
    OPTIONS_LIMIT,
    WORKERS_LIMIT,
    counted,
    measured,
    moment_us,
    shown_text,
)
from scaler_protocol.monitor.daemon_logs import DaemonLogs
from scaler_protocol.monitor.failures import Failure, Failures, read_payload
from scaler_protocol.monitor.function_names import FunctionNames
from scaler_protocol.monitor.graphs import Graphs
from scaler_protocol.monitor.messages import Events
from scaler_protocol.monitor.nested_tasks import NestedTasks, TaskPlace
from scaler_protocol.monitor.output_log import OutputLog
from scaler_protocol.monitor.palette import ColourNumbers
from scaler_protocol.monitor.records import NONE, BadRecord, EndedColumns, Flag, Kind, Naming, Record
from scaler_protocol.monitor.task_log import NO_WORKER, TaskLog, TaskNumbers, extent
from scaler_protocol.monitor.task_times import ExecutionParts, TaskTimes
from scaler_protocol.process_names import UNKNOWN_WORKER, nested_name

INDEX_LIMIT = 1 << 24
"""Indices count from 0 and never come so far."""

NOTICE_LIMIT = 1000
"""Maximum number of the latest arrivals and departures that are kept."""

LARGEST_PRIORITY = 1 << 63

_MICROSECONDS = 1e6
_SHORT = int(Flag.SHORT)


class SessionName(NamedTuple):
    session: bytes
    host: str = ""
    pid: int = 0
    parent: bytes = b""


class FunctionName(NamedTuple):
    digest: bytes
    name: str
    module: str = ""


class ShownOptions(NamedTuple):
    """The options of tasks that monitors show. ``capabilities``: names and amounts of the first ones."""

    priority: int = 0
    capabilities: tuple[tuple[str, float], ...] = ()
    retries: int = 0
    rerun: bool = True
    timeout_seconds: float = 0.0
    memory_bytes: int = 0
    more_capabilities: int = 0
    actor_name: str = ""
    actor: int = 0
    actor_session: bytes = b""
    """The task that has made the actor of which they are calls, and its session if that is another one."""


class WorkerName(NamedTuple):
    """A worker that has run something. ``number`` is None for tasks of which only the agent is known."""

    host: str
    agent: str
    name: str
    number: int | None = None


class Notice(NamedTuple):
    """Something that happened to the cluster."""

    time: float
    event: str
    who: str


@dataclass(slots=True)
class AgentName:
    session: bytes = b""
    name: str = ""
    host: str = ""
    pid: int = 0
    workers: tuple[str, ...] = ()
    indices: array[int] = field(default_factory=lambda: array("I"))
    """The model's index of each of its workers."""

    unnamed: dict[int, int] = field(default_factory=dict)
    """The same for those that ran something and have not been named, by number."""

    unknown: int = NO_WORKER
    """The model's index for tasks of which only this agent is known."""


class Activity:
    """All that records of one epoch said."""

    def __init__(self, task_limit: int) -> None:
        self.log = TaskLog(task_limit)
        self.failures = Failures()
        self.graphs = Graphs()
        self.times = TaskTimes()
        self.nested = NestedTasks()
        self.output = OutputLog()
        self.logs = DaemonLogs()
        self.notices: deque[Notice] = deque(maxlen=NOTICE_LIMIT)
        self.sessions: OrderedDict[int, SessionName] = OrderedDict()
        self.functions: OrderedDict[int, FunctionName] = OrderedDict()
        self.agents: OrderedDict[int, AgentName] = OrderedDict()
        self.options: OrderedDict[int, ShownOptions] = OrderedDict()
        self.actor_names: OrderedDict[tuple[bytes, int], str] = OrderedDict()
        """Names of actors, by the session and the number of the task that has made each."""

        self.workers: list[WorkerName] = []
        self.unplaced_runs: dict[int, tuple[int, int]] = {}
        """The first start and the last end, in unix microseconds, of tasks of which only the agent is known, by the
        index that stands for its workers. Tasks that were cancelled before they started do not count."""

        self.colours = ColourNumbers()
        self.function_names = FunctionNames()
        self.missed = 0
        """Records that did not arrive here, dropped by the scheduler or on the way."""

        self.time = 0.0
        self._next: int | None = None

    def apply(self, events: Events) -> None:
        """Take in what of these has not been seen; those with a count of 0 have no numbers. BadRecord when they cannot
        be read to the end."""
        seen = self._follow_numbers(events) if events.count else 0
        self.time = max(self.time, events.time)
        for number, record in enumerate(records.records(events.records)):
            if number >= seen or record.kind in records.LASTING:
                self._take(record)

    def _take(self, record: Record) -> None:
        """Raises BadRecord, whatever is wrong with the record, so that no record can end a reader."""
        take = _TAKERS.get(record.kind)
        if take is None:
            return
        try:
            take(self, record)
        except BadRecord:
            raise
        except Exception as error:
            raise BadRecord("An event record cannot be processed.") from error

    def expect(self, recorded: int, time: float) -> None:
        """Note the number of records made before this time: one that has not arrived by now does not arrive. Harmless
        before the first ones."""
        if self._next is not None and recorded > self._next:
            self._on_missed(recorded - self._next, time)
            self._next = recorded

    def _follow_numbers(self, events: Events) -> int:
        """Return how many of these records have been seen."""
        expected = events.first if self._next is None else self._next
        if events.first > expected:
            self._on_missed(events.first - expected, events.time)
        self._next = max(expected, events.first + events.count)
        return max(0, expected - events.first)

    def function_name(self, index: int) -> str:
        """Return its name for people; empty if it is not known."""
        named = self.functions.get(index)
        return self.function_names.shown(named.name, named.module) if named is not None else ""

    def functions_named(self, name: str) -> list[int]:
        """Return the functions with this name for people."""
        return [index for index in self.functions if self.function_name(index) == name]

    def colour_number(self, index: int) -> int:
        """Return the number of the colour of a function: those of one name have one colour (see ``palette``)."""
        return self.colours.number_of(self.function_name(index))

    def options_of(self, session: int, task: int) -> ShownOptions | None:
        """The options of a task whose arrival was seen; None: they are not known."""
        return self.options.get(self.times.options_of(session, task))

    def actor_of(self, session: int, task: int) -> tuple[bytes, int] | None:
        """Return the session and the number of the task that has made the actor of which a task is a call; None if it
        is not a call, or if that is not known."""
        options = self.options_of(session, task)
        if options is None or not options.actor:
            return None
        return options.actor_session or self.session_of(session), options.actor

    def actor_name(self, session: int, task: int) -> str:
        """Return the name of the actor that a task makes or calls; empty if there is none, or it is not known."""
        options = self.options_of(session, task)
        return self._actor_in(session, options) if options is not None else ""

    def _actor_in(self, session: int, options: ShownOptions) -> str:
        if not options.actor:
            return options.actor_name
        return self.actor_names.get((options.actor_session or self.session_of(session), options.actor), "")

    def tasks_of_actors(self, numbers: Mapping[str, int]) -> TaskNumbers:
        """Return the tasks that make or call the actors with these names, each with the number of the name."""
        found = TaskNumbers()
        actors = {index: each for index, each in self.options.items() if each.actor or each.actor_name}
        for session, firsts, stops, options in self.times.ranges_with(actors):
            names = (self._actor_in(session, actors[index]) for index in options)
            found.add(session, firsts, stops, array("q", [numbers.get(name, -1) for name in names]))
        return found

    def session_of(self, index: int) -> bytes:
        named = self.sessions.get(index)
        return named.session if named is not None else b""

    def worker_of(self, index: int) -> WorkerName:
        return self.workers[index] if index < len(self.workers) else WorkerName("", "", "")

    def worker_index(self, agent: int, number: int) -> int:
        """The model's index of an agent's worker, made when it is new. ``number`` NONE: whichever it was."""
        if agent == NONE:
            return NO_WORKER
        named = self._agent(agent)
        if number >= records.NO_WORKER:
            return self._unknown_worker(named)
        return named.indices[number] if number < len(named.indices) else self._unnamed_worker(named, number)

    def indices_of_agents(self) -> dict[bytes, int]:
        """Return the numbers that records use for the agents that have a name, by session."""
        return {agent.session: index for index, agent in self.agents.items() if agent.session}

    def add_workers(self, processes: Iterable[tuple[bytes, int]], time: float) -> None:
        """Make the worker of each process that runs a task at this time, given by the session of its agent and its
        number, if the agent has a name: no record may have told of the process yet."""
        agents = self.indices_of_agents()
        for session, number in processes:
            if session in agents:
                index = self.worker_index(agents[session], number)
                if number >= records.NO_WORKER:
                    self._note_unplaced(index, int(time * _MICROSECONDS), 1)

    # ---- one method for each kind of record ----------------------------------------------------------------------

    def _on_name(self, record: Record) -> None:
        value = records.name_of(record)
        if record.first >= INDEX_LIMIT:
            raise BadRecord("An event record names an impossible index.")
        if record.flags == Naming.SESSION:
            _make_room(self.sessions)
            session, parent = _identity(value.get("session")), _identity(value.get("parent"))
            self.sessions[record.first] = SessionName(
                session, _text(value.get("host")), _number(value.get("pid")), parent
            )
        elif record.flags == Naming.FUNCTION:
            _make_room(self.functions)
            name, module = _text(value.get("name")), _text(value.get("module"))
            self.functions[record.first] = FunctionName(_identity(value.get("digest")), name, module)
            self.function_names.add(name, module)
            self.colour_number(record.first)
        elif record.flags == Naming.AGENT:
            self._name_agent(self._agent(record.first), value)
        elif record.flags == Naming.OPTIONS:
            _make_room(self.options, OPTIONS_LIMIT)
            self.options[record.first] = _options(value)

    def _on_submitted(self, record: Record) -> None:
        moment = moment_us(record.time)
        if self.times.add_arrival(
            record.session, record.first, record.count, moment, record.function, record.attempt, record.worker
        ):
            self.nested.add_children(record.session, record.first, record.count)
        if record.count == 1 and (options := self.options.get(record.attempt)) is not None and options.actor_name:
            _make_room(self.actor_names)
            self.actor_names[self.session_of(record.session), record.first] = options.actor_name

    def _on_nested(self, record: Record) -> None:
        first_child, parent_session = records.nested_of(record)
        self.nested.add(record.session, first_child, TaskPlace(parent_session, record.first))
        arrived = sum(map(len, self.times.arrived_between(record.session, first_child, None)))
        if arrived:  # after a restart, the children may come before their parent
            self.nested.add_children(record.session, first_child, arrived)

    def _on_parts(self, record: Record) -> None:
        """Parts that are longer than the whole are refused."""
        for task, attempt, *microseconds in self.log.place_parts(record.session, list(records.parts_of(record))):
            parts = ExecutionParts(*(value / _MICROSECONDS for value in microseconds))
            self.times.add_parts(record.session, task, attempt, parts)

    def _on_handed(self, record: Record) -> None:
        self.graphs.hand(record.session, record.first, record.count)

    def _on_ended(self, record: Record) -> None:
        columns = records.ended_columns(record)
        indices, worker = array("I"), NO_WORKER
        if record.agent != NONE:
            agent = self._agent(record.agent)
            last, some_unknown = extent(columns.workers) if columns.workers is not None else (-1, True)
            indices = agent.indices if last < len(agent.indices) else self._indices_of(agent, columns.workers, last)
            worker = self.worker_index(record.agent, record.worker) if some_unknown else NO_WORKER
            if some_unknown:
                self._note_unplaced(worker, moment_us(record.time), _longest_unplaced(columns))
        self.log.extend(record.session, record.function, worker, moment_us(record.time), columns, indices)

    def _on_ran(self, record: Record) -> None:
        flags, time, worker = record.flags, moment_us(record.time), self._worker_of_stretch(record)
        try:
            self.log.extend_stretch(
                record.session, record.function, worker, time, record.first, record.attempt, flags & 0xFF,
                record.count, flags & _SHORT != 0, record.body,
            )  # fmt: skip
        except ValueError:
            raise BadRecord(records.CUT_OFF) from None

    def _on_stepped(self, record: Record) -> None:
        worker = self._worker_of_stretch(record)
        try:
            self.log.extend_steps(
                record.session, record.function, worker, moment_us(record.time), record.first, record.attempt,
                record.flags & 0xFF, record.count, record.body,
            )  # fmt: skip
        except ValueError:
            raise BadRecord(records.CUT_OFF) from None

    def _on_failed(self, record: Record) -> None:
        _, payload = records.failure_of(record)
        kind, message, details = read_payload(record.flags, payload)
        worker = self.worker_of(self.worker_index(record.agent, record.worker))
        session, function = self.session_of(record.session), self.function_name(record.function)
        self.failures.add(
            Failure(
                record.time / _MICROSECONDS, record.first, session, function, worker.host, worker.name,
                record.attempt, record.flags, kind, message, details, self.actor_name(record.session, record.first),
            )
        )  # fmt: skip

    def _on_output(self, record: Record) -> None:
        printed = records.output_of(record)
        session = self.session_of(record.session) if record.session != NONE else b""
        function = self.function_name(self.times.function_of(record.session, record.first)) or printed.function
        self.output.add(
            record.time / _MICROSECONDS, session, record.first, record.attempt, function, printed.worker,
            record.flags, printed.left_out, printed.data,
        )  # fmt: skip

    def _on_log(self, record: Record) -> None:
        self.logs.add(record.agent, records.log_line_of(record))

    def _on_graph(self, record: Record) -> None:
        graph, edges = records.edges_of(record)
        cut = bool(record.flags & records.Flag.CUT)
        self.graphs.add(record.session, graph, record.first, record.count, record.function, edges, cut)

    def _on_agent(self, record: Record) -> None:
        named = self.agents.get(record.agent)
        who = f"{named.name} on {named.host}" if named is not None else ""
        gone = "agent left" if record.first else "agent lost"
        self._notice(record, "agent joined" if record.kind == Kind.AGENT_JOINED else gone, who)

    def _on_client(self, record: Record) -> None:
        named = self.sessions.get(record.session)
        who = f"{named.pid} on {named.host}" if named is not None else ""
        self._notice(record, "client joined" if record.kind == Kind.CLIENT_JOINED else "client left", who)

    def _on_gap(self, record: Record) -> None:
        self._on_missed(record.first, record.time / _MICROSECONDS)

    # ---- names ---------------------------------------------------------------------------------------------------

    def _on_missed(self, count: int, time: float) -> None:
        self.missed += count
        self.notices.append(Notice(time, "events missed", f"{count:,}"))

    def _notice(self, record: Record, event: str, who: str) -> None:
        self.notices.append(Notice(record.time / _MICROSECONDS, event, who))

    def _agent(self, index: int) -> AgentName:
        known = self.agents.get(index)
        if known is None:
            _make_room(self.agents)
            known = self.agents[index] = AgentName()
        return known

    def _name_agent(self, agent: AgentName, value: dict[str, Any]) -> None:
        agent.session, agent.pid = _identity(value.get("session")), _number(value.get("pid"))
        agent.name, agent.host = _text(value.get("name")), _text(value.get("host"))
        workers = value.get("workers")
        names = workers[: records.NO_WORKER] if isinstance(workers, list) else []
        agent.workers = tuple(_text(name) for name in names)
        for number in range(len(agent.indices), len(agent.workers)):
            unnamed = agent.unnamed.pop(number, None)
            agent.indices.append(self._new_worker(agent, number) if unnamed is None else unnamed)
        known: list[tuple[int | None, int]] = [*enumerate(agent.indices), *agent.unnamed.items(), (None, agent.unknown)]
        for worker, index in known:
            if index != NO_WORKER:
                self.workers[index] = _worker_name(agent, worker)

    def _new_worker(self, agent: AgentName, number: int | None) -> int:
        if len(self.workers) >= WORKERS_LIMIT:
            return NO_WORKER
        self.workers.append(_worker_name(agent, number))
        return len(self.workers) - 1

    def _worker_of_stretch(self, record: Record) -> int:
        """The index of the worker of consecutive tasks, all of which ended alike."""
        index = self.worker_index(record.agent, record.worker)
        if record.worker >= records.NO_WORKER and record.flags & 0xFF != Status.CANCELLED:
            self._note_unplaced(index, moment_us(record.time), 1)
        return index

    def _note_unplaced(self, index: int, time_us: int, longest_us: int) -> None:
        """Tasks ended at about this time. ``longest_us``: the duration of the longest one; 0: none of them has run."""
        if longest_us:
            first, last = self.unplaced_runs.get(index, (time_us, time_us))
            self.unplaced_runs[index] = min(first, time_us - longest_us), max(last, time_us)

    def _unnamed_worker(self, agent: AgentName, number: int) -> int:
        """One that ran something before it was named: only such a one is made, whatever its number."""
        index = agent.unnamed.get(number)
        if index is None:
            index = self._new_worker(agent, number)
            if index != NO_WORKER:
                agent.unnamed[number] = index
        return index

    def _indices_of(self, agent: AgentName, workers: memoryview | None, last: int) -> array[int]:
        """Like ``agent.indices``, with the unnamed workers in this column of numbers."""
        found = array("I", [NO_WORKER]) * (last + 1)
        found[: len(agent.indices)] = agent.indices
        for number in set(workers or ()):
            if len(agent.indices) <= number < records.NO_WORKER:
                found[number] = self._unnamed_worker(agent, number)
        return found

    def _unknown_worker(self, agent: AgentName) -> int:
        if agent.unknown == NO_WORKER:
            agent.unknown = self._new_worker(agent, None)
        return agent.unknown


def _longest_unplaced(columns: EndedColumns) -> int:
    """The longest duration of those of the tasks whose worker is not known."""
    if columns.workers is None:
        return int(max(columns.durations, default=0))
    pairs = zip(columns.durations, columns.workers, strict=True)
    return max((duration for duration, worker in pairs if worker == records.NO_WORKER), default=0)


def _make_room(names: OrderedDict[Any, Any], limit: int = NAMES_LIMIT) -> None:
    """The oldest name goes when there are too many."""
    if len(names) >= limit:
        names.popitem(last=False)


def _text(value: Any) -> str:
    return shown_text(value) if isinstance(value, str) else ""


def _number(value: Any) -> int:
    return counted(value) if isinstance(value, int) else 0


def _identity(value: Any) -> bytes:
    """Return the bytes of hexadecimal digits; empty if ``text`` is not hexadecimal."""
    try:
        return bytes.fromhex(_text(value)[: 2 * IDENTITY_LIMIT_BYTES])
    except ValueError:
        return b""


def _amount(value: Any) -> float:
    return measured(float(value)) if isinstance(value, float) else float(min(_number(value), 1 << 50))


def _options(value: dict[str, Any]) -> ShownOptions:
    """Whatever has the wrong type is as usual."""
    capabilities, priority, name = (value.get(key) for key in ("capabilities", "priority", "actor_name"))
    pairs = list(capabilities.items()) if isinstance(capabilities, dict) else []
    shown = pairs[:CAPABILITIES_LIMIT]
    return ShownOptions(
        max(-LARGEST_PRIORITY, min(priority, LARGEST_PRIORITY)) if isinstance(priority, int) else 0,
        tuple((shown_text(each, CAPABILITY_LIMIT), _amount(amount)) for each, amount in shown),
        _number(value.get("retries")),
        value.get("rerun") is not False,
        _amount(value.get("timeout_seconds")),
        _number(value.get("memory_bytes")),
        counted(_number(value.get("more_capabilities")) + len(pairs) - len(shown)),
        shown_text(name) if isinstance(name, str) else "",
        _number(value.get("actor")),
        _identity(value.get("actor_session")),
    )


def _worker_name(agent: AgentName, number: int | None) -> WorkerName:
    if number is None:
        return WorkerName(agent.host, agent.name, UNKNOWN_WORKER, None)
    count = len(agent.workers)
    if number < count:
        return WorkerName(agent.host, agent.name, agent.workers[number], number)
    name = nested_name(agent.name, number - count + 1) if count else f"{agent.name}#{number}"
    return WorkerName(agent.host, agent.name, name, number)


_TAKERS: dict[int, Callable[[Activity, Record], None]] = {
    Kind.NAME: Activity._on_name,
    Kind.SUBMITTED: Activity._on_submitted,
    Kind.PARTS: Activity._on_parts,
    Kind.HANDED: Activity._on_handed,
    Kind.ENDED: Activity._on_ended,
    Kind.RAN: Activity._on_ran,
    Kind.STEPPED: Activity._on_stepped,
    Kind.FAILED: Activity._on_failed,
    Kind.GRAPH: Activity._on_graph,
    Kind.OUTPUT: Activity._on_output,
    Kind.LOG: Activity._on_log,
    Kind.NESTED: Activity._on_nested,
    Kind.AGENT_JOINED: Activity._on_agent,
    Kind.AGENT_LOST: Activity._on_agent,
    Kind.CLIENT_JOINED: Activity._on_client,
    Kind.CLIENT_LEFT: Activity._on_client,
    Kind.GAP: Activity._on_gap,
}
