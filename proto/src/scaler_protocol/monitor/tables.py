"""The tables that every screen shows: their names, columns and order. Their contents come from the model.

A row is a tuple of plain values, one per column; ``format.format_value(column.kind, value)`` writes one. The columns of
``TableSpec.key`` tell rows apart, so that a selection stays where it was when values change.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal[
    "text",
    "id",
    "pid",
    "count",
    "bytes",
    "percent",
    "share",
    "latency",
    "duration",
    "age",
    "time",
    "rate",
    "byte_rate",
    "flag",
    "estimate",
]
"""The meaning of a value: ``duration``, ``latency`` and ``age`` are seconds, ``time`` is unix seconds, ``share`` is
from 0 to 1, ``id`` is a number that is not a quantity, ``pid`` is the id of a process, or 0 for none, ``byte_rate`` is
bytes per second, ``flag`` is true or false, ``estimate`` is seconds, or 0 if not known."""

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Column:
    key: str
    title: str
    kind: Kind = "text"
    width: int = 8
    """The number of characters that usual values need."""

    help: str = ""

    @property
    def align(self) -> Literal["left", "right"]:
        return "left" if self.kind in ("text", "flag") else "right"


@dataclass(frozen=True, slots=True)
class TableSpec:
    name: str
    title: str
    columns: tuple[Column, ...]
    default_sort: str
    key: tuple[str, ...]
    descending: bool = False
    help: str = ""

    def index(self, key: str) -> int:
        """Return the place of a column. Raises KeyError if no column has this key."""
        for position, column in enumerate(self.columns):
            if column.key == key:
                return position
        raise KeyError(key)


LEFT_HELP = (
    "how long the unfinished tasks will take, at the pace of the last 30 seconds or 10 tasks; "
    "tasks that no worker can run at present do not count; empty: not known"
)

WORKERS = TableSpec(
    "workers",
    "Workers",
    (
        Column("pid", "pid", "pid", 7, "process id of the worker"),
        Column("host", "host", "text", 16, "where it runs"),
        Column("name", "worker", "text", 16, "its name"),
        Column(
            "state",
            "state",
            "text",
            9,
            "of its agent: connected, suspect (silent), paused, draining (leaving) or lost",
        ),
        Column("capabilities", "capabilities", "text", 12, "what it offers to tasks that need it"),
        Column("agent_cpu", "agt_cpu", "percent", 7, "processor time of its agent"),
        Column("agent_rss", "agt_rss", "bytes", 9, "memory of its agent"),
        Column("cpu", "cpu", "percent", 6, "its own processor time"),
        Column("rss", "rss", "bytes", 9, "its own memory"),
        Column("free", "free", "count", 5, "queue slots left"),
        Column("sent", "sent", "count", 5, "tasks handed over and unfinished"),
        Column("queued", "queued", "count", 6, "tasks waiting at its agent"),
        Column("lag", "lag", "latency", 6, "latency between scheduler and agent"),
        Column("itl", "ITL", "text", 3, "initialized, has a task, slot lent to a nested task"),
    ),
    "cpu",
    ("host", "pid", "name"),
    descending=True,
    help="the processes that run tasks",
)

AGENTS = TableSpec(
    "agents",
    "Agents",
    (
        Column("name", "agent", "text", 20, "its name"),
        Column("host", "host", "text", 16, "where it runs"),
        Column("pid", "pid", "pid", 7, "its process id"),
        Column("state", "state", "text", 9, "connected, suspect (silent), paused, draining (leaving) or lost"),
        Column("workers", "workers", "count", 7, "how many workers it has"),
        Column("cpu", "cpu", "percent", 6, "its processor time"),
        Column("rss", "rss", "bytes", 9, "its memory"),
        Column("rss_free", "free mem", "bytes", 9, "memory that its host has left"),
        Column("free", "free", "count", 6, "queue slots left"),
        Column("sent", "sent", "count", 6, "tasks handed over and unfinished"),
        Column("queued", "queued", "count", 6, "tasks waiting there"),
        Column("lag", "lag", "latency", 6, "latency between scheduler and agent"),
        Column("silent", "silent", "age", 6, "since anything was heard from it"),
        Column("capabilities", "capabilities", "text", 16, "what each worker offers to tasks that need it"),
        Column("capabilities_left", "not taken", "text", 14, "of these, by tasks: of all workers together"),
    ),
    "host",
    ("host", "pid", "name"),
    help="one per host: they own the workers",
)

HOSTS = TableSpec(
    "hosts",
    "Hosts",
    (
        Column("host", "host", "text", 20, "its name"),
        Column(
            "state",
            "state",
            "text",
            9,
            "of its agents: connected, suspect (silent), paused, draining (leaving) or lost",
        ),
        Column("memory", "used", "bytes", 9, "memory that all of its processes use"),
        Column("limit", "of", "bytes", 9, "memory that it, or the control group of its agent, may use; 0: not known"),
        Column("share", "full", "share", 7, "the part of its memory that is used"),
        Column("memory_free", "free", "bytes", 9, "memory that it has left"),
        Column("workers_rss", "workers use", "bytes", 11, "memory of its workers"),
        Column("workers", "workers", "count", 7, "how many workers it has"),
        Column("agents", "agents", "count", 6, "how many agents own them"),
        Column("cpu", "cpu", "percent", 7, "processor time of its workers"),
        Column("capabilities", "capabilities", "text", 16, "what each worker offers to tasks that need it"),
        Column("capabilities_left", "not taken", "text", 14, "of these, by tasks: of all workers of an agent together"),
    ),
    "share",
    ("host",),
    descending=True,
    help="the memory of each host with workers",
)

PROCESSORS = TableSpec(
    "processors",
    "Worker processes",
    (
        Column("host", "host", "text", 16, "where it runs"),
        Column("agent", "agent", "text", 20, "whose worker it is"),
        Column("name", "worker", "text", 16, "its name"),
        Column("pid", "pid", "pid", 7, "its process id"),
        Column("cpu", "cpu", "percent", 6, "its processor time"),
        Column("rss", "rss", "bytes", 9, "its memory"),
        Column("initialized", "initialized", "flag", 11, "ready for tasks"),
        Column("has_task", "has task", "flag", 8, "runs a task"),
        Column("slot_lent", "slot lent", "flag", 9, "its task waits for nested tasks, and others run in its place"),
    ),
    "host",
    ("host", "pid", "name"),
    help="what each worker does",
)

CLIENTS = TableSpec(
    "clients",
    "Clients",
    (
        Column("pid", "pid", "pid", 7, "its process id"),
        Column("host", "host", "text", 16, "where it runs"),
        Column("user", "user", "text", 10, "whose process it is, as it says, and the name of its key if that differs"),
        Column("program", "program", "text", 14, "what its process runs, as it says"),
        Column("session", "session", "text", 8, "the beginning of its id"),
        Column("state", "state", "text", 9, "connected, away, or ended"),
        Column("parent", "parent", "text", 8, "a nested client: the client whose task it lives in"),
        Column("unassigned", "waiting", "count", 10, "tasks that are not assigned to an agent"),
        Column("running", "on hosts", "count", 8, "tasks assigned to an agent: they run, or are queued on its host"),
        Column("finished", "finished", "count", 11, "tasks that have ended"),
        Column("failed", "failed", "count", 7, "of those: with an error"),
        Column("canceled", "cancelled", "count", 9, "of those: cancelled"),
        Column("group", "group", "text", 12, "the clients with which it shares the workers"),
        Column("group_weight", "group weight", "text", 12, "of its group among the groups; empty: 1, the usual one"),
        Column("group_limit", "group limit", "text", 11, "how many workers its group may use; empty: any number"),
        Column(
            "weight", "weight", "text", 14,
            "within its group, and the one that it asked for if an operator has set another; empty: 1, the usual one",
        ),
        Column("share", "share", "share", 7, "of all running time, what it and its nested clients are due"),
        Column("used", "used", "estimate", 8, "running time of its tasks and of its nested clients"),
        Column("left", "left", "estimate", 8, LEFT_HELP),
    ),
    "unassigned",
    ("session",),
    descending=True,
    help="who submits tasks",
)  # fmt: skip

FUNCTIONS = TableSpec(
    "functions",
    "Functions",
    (
        Column("name", "function", "text", 32, "its name"),
        Column("unfinished", "unfinished", "count", 10, "tasks that wait or run"),
        Column("finished", "finished", "count", 11, "tasks that have ended"),
        Column("succeeded", "succeeded", "count", 11, "of those: with a result"),
        Column("failed", "failed", "count", 7, "of those: with an error"),
        Column("canceled", "cancelled", "count", 8, "of those: cancelled"),
        Column("progress", "progress", "share", 8, "what part of its tasks has ended"),
        Column("left", "left", "estimate", 8, LEFT_HELP),
        Column(
            "mean", "mean", "estimate", 8,
            "how long one task runs, without fetching and loading arguments and storing results",
        ),
        Column("median", "p50", "estimate", 8, "half of the tasks run no longer; within a quarter, as is p95"),
        Column("p95", "p95", "estimate", 8, "95 % of the tasks run no longer"),
        Column("longest", "longest", "estimate", 8, "how long the longest task ran"),
        Column("total", "total", "estimate", 8, "how long all tasks kept worker processes, together"),
        Column("cpu_time", "cpu time", "estimate", 8, "processor time of all tasks together"),
        Column(
            "parts", "where time goes", "text", 32,
            "parts of the time from submission to result: waiting for dependencies and for a worker, fetching and "
            "loading arguments, running, storing results",
        ),
        Column("module", "module", "text", 16, "where the function is defined; empty: not known"),
        Column("digest", "digest", "text", 8, "of a function of this name"),
    ),
    "total",
    ("name", "digest"),
    descending=True,
    help="tasks by function",
)  # fmt: skip

WAITS = TableSpec(
    "waits",
    "Waiting",
    (
        Column("function", "function", "text", 28, "what waits"),
        Column("reason", "reason", "text", 48, "why it does not run"),
        Column("count", "tasks", "count", 9, "how many wait for this reason"),
        Column("oldest", "oldest", "age", 7, "how long the first of them has waited"),
        Column("session", "client", "text", 8, "their client"),
        Column("task", "task", "id", 8, "the number of one of them"),
        Column(
            "priority",
            "priority",
            "text",
            8,
            "theirs, from the lowest to the highest if they differ; empty: the usual priority, 0",
        ),
    ),
    "count",
    ("function", "reason"),
    descending=True,
    help="tasks that do not run, and why",
)

RUNNING = TableSpec(
    "running",
    "Running",
    (
        Column("function", "function", "text", 28, "what runs"),
        Column("seconds", "for", "age", 7, "since it started: with fetching and loading its arguments"),
        Column(
            "state", "state", "text", 20,
            "stuck?: it has run far longer than usual, or its process has used no CPU time for a while; "
            "blocked: it waits for its own tasks or for a lock; actor: it waits for calls until it is ended",
        ),
        Column("cpu", "cpu", "percent", 6, "processor time of its process"),
        Column("rss", "rss", "bytes", 9, "memory of its process"),
        Column("usual", "usual", "estimate", 7, "how long tasks of this function take; empty: none has ended"),
        Column("host", "host", "text", 12, "where it runs"),
        Column("worker", "worker", "text", 14, "which worker runs it"),
        Column("pid", "pid", "pid", 7, "the process id of the worker process"),
        Column("task", "task", "id", 8, "its number within its client"),
        Column("session", "client", "text", 8, "whose task"),
        Column("started", "started", "time", 12, "when"),
        Column("actor", "actor", "text", 14, "the name of the actor that it is, or of which it is a call"),
        Column("priority", "priority", "text", 8, "empty: the usual priority, 0"),
    ),
    "seconds",
    ("session", "task"),
    descending=True,
    help="tasks that have run for a second or longer",
)  # fmt: skip

ACTORS = TableSpec(
    "actors",
    "Actors",
    (
        Column("function", "class", "text", 24, "of which it is an instance"),
        Column("name", "name", "text", 16, "that get_actor finds; empty: it has none"),
        Column("state", "state", "text", 10, "idle or busy; being made by its worker; or waiting for a worker"),
        Column("running", "running", "count", 8, "calls that run: one, or as many as its max_concurrency allows"),
        Column("waiting", "waiting", "count", 9, "its other unfinished calls, here and at its worker"),
        Column(
            "restarts", "restarts", "text", 12,
            "how often its process or host has died, of the number of times that it is made again",
        ),
        Column("seconds", "for", "age", 7, "since its client asked for it, or since a restart of the scheduler"),
        Column("host", "host", "text", 14, "where it is"),
        Column("worker", "worker", "text", 14, "the worker that it occupies; empty: in its first second"),
        Column("session", "client", "text", 8, "who has made it"),
        Column("task", "task", "id", 8, "the number of the task that makes it, within its client"),
    ),
    "waiting",
    ("session", "task"),
    descending=True,
    help="instances of classes that live in worker processes",
)  # fmt: skip

FAILURES = TableSpec(
    "failures",
    "Failures",
    (
        Column("count", "count", "count", 6, "failed executions; a task that died and ran again has several"),
        Column("status", "status", "text", 16, "what kind of end"),
        Column("type", "error", "text", 20, "the type of the exception"),
        Column("message", "message", "text", 44, "the first line of its message; # for numbers that differ"),
        Column("place", "raised at", "text", 24, "file, line and function that raised it; the details name its folder"),
        Column("functions", "functions", "text", 20, "whose tasks"),
        Column("hosts", "hosts", "text", 16, "where they ran"),
        Column("first", "first", "time", 8, "when it happened first"),
        Column("last", "last", "time", 8, "when it happened last"),
        Column("group", "#", "id", 3, "the number of the group"),
    ),
    "count",
    ("group",),
    descending=True,
    help="failures of one type, raised at one line, with alike messages",
)

OBJECTS = TableSpec(
    "objects",
    "Objects",
    (
        Column("host", "host", "text", 20, "whose object store"),
        Column("objects", "objects", "count", 9, "how many it holds"),
        Column("used", "used", "bytes", 9, "memory that they take"),
        Column("capacity", "capacity", "bytes", 9, "memory that they may take"),
        Column("share", "used %", "share", 6, "how full it is"),
        Column("spilled", "spilled", "bytes", 9, "on disk"),
        Column("spilled_rate", "spilled/s", "byte_rate", 11, "how fast the disk fills, in the last seconds"),
        Column("sent", "sent", "bytes", 9, "to other hosts"),
        Column("sent_rate", "sent/s", "byte_rate", 11, "how fast, in the last seconds"),
        Column("received", "received", "bytes", 9, "from other hosts"),
        Column("received_rate", "received/s", "byte_rate", 11, "how fast, in the last seconds"),
    ),
    "used",
    ("host",),
    descending=True,
    help="objects by host",
)

TRAFFIC = TableSpec(
    "traffic",
    "Traffic",
    (
        Column("source", "from", "text", 20, "the host whose object store has sent"),
        Column("target", "to", "text", 20, "the host whose object store has received"),
        Column("received", "received", "bytes", 9, "since that store started"),
        Column("rate", "received/s", "byte_rate", 11, "how fast, in the last seconds"),
    ),
    "received",
    ("source", "target"),
    descending=True,
    help="large values that hosts have sent to each other",
)

LARGEST = TableSpec(
    "largest",
    "Largest objects",
    (
        Column("object", "object", "text", 18, "a result of a task, an argument, a value that was sent, or a function"),
        Column("session", "client", "id", 8, "of the client that has sent it, or whose task has made it"),
        Column("function", "function", "text", 24, "of the task whose result it is, or its own name"),
        Column("size", "size", "bytes", 9, "how large it is"),
        Column("readers", "needed by", "count", 9, "unfinished tasks that need it, as far as they were looked at"),
        Column("copies", "copies", "count", 6, "how many hosts have it"),
        Column("hosts", "hosts", "text", 24, "which these are"),
    ),
    "size",
    ("session", "object"),
    descending=True,
    help="the largest objects: where they are, and which tasks need them",
)  # fmt: skip

PROGRESS = TableSpec(
    "progress",
    "Progress",
    (
        Column("kind", "of", "text", 8, "all tasks, or those of a client, group, function, map or graph"),
        Column("name", "name", "text", 36, "its name"),
        Column("progress", "progress", "share", 8, "what part has ended"),
        Column("left", "left", "estimate", 8, LEFT_HELP),
        Column("end", "ends at", "text", 16, "when this is, if it goes on like that"),
        Column(
            "unfinished", "remaining", "count", 10,
            "tasks that have not ended, with those that a map has still to submit if it knows how many",
        ),
        Column(
            "cannot_run", "cannot run", "count", 10,
            "of these: no worker is connected, has the capabilities that they need, or accepts tasks",
        ),
        Column(
            "running", "on hosts", "count", 8,
            "of the remaining ones: assigned to an agent, where they run or are queued; of a function, while tasks of "
            "very many functions wait, only those that have run for a second or longer",
        ),
        Column("done", "done", "count", 11, "tasks that have succeeded"),
        Column("failed", "failed", "count", 7, "tasks that have failed"),
        Column("canceled", "cancelled", "count", 9, "tasks that were cancelled"),
    ),
    "unfinished",
    ("kind", "name"),
    descending=True,
    help="how far unfinished work is, and when it will be done",
)  # fmt: skip

GRAPHS = TableSpec(
    "graphs",
    "Graphs",
    (
        Column("graph", "graph", "id", 8, "its number"),
        Column("session", "client", "text", 8, "whose graph"),
        Column("nodes", "nodes", "count", 9, "how many calls"),
        Column("waiting", "waiting", "count", 9, "calls that wait for others"),
        Column("ready", "ready", "count", 9, "calls that could run"),
        Column("running", "on hosts", "count", 9, "calls assigned to an agent: they run, or are queued on its host"),
        Column("done", "done", "count", 9, "calls that succeeded"),
        Column("failed", "failed", "count", 7, "calls that failed"),
        Column("canceled", "cancelled", "count", 9, "calls that were cancelled, or not made because others failed"),
        Column("progress", "progress", "share", 8, "what part has ended"),
        Column("left", "left", "estimate", 8, LEFT_HELP),
    ),
    "graph",
    ("session", "graph"),
    descending=True,
    help="graphs that have not ended",
)

TASKS = TableSpec(
    "tasks",
    "Task log",
    (
        Column("ended", "ended", "time", 12, "when"),
        Column("task", "task", "id", 9, "its number within its client"),
        Column("session", "client", "text", 8, "whose task"),
        Column("function", "function", "text", 28, "what it called"),
        Column("status", "status", "text", 16, "how it ended"),
        Column(
            "duration", "ran", "duration", 8,
            "how long it was running: without fetching and loading arguments and storing the result, as in the table "
            "of functions; of an actor: how long it lived; - if it has not run, or this is not known",
        ),
        Column("host", "host", "text", 16, "where it ran, or waited when it was cancelled"),
        Column("worker", "worker", "text", 16, "who ran it; - if it has not run, or this is not known"),
        Column("actor", "actor", "text", 14, "the name of the actor that it has made or called"),
        Column("attempt", "attempt", "id", 7, "which attempt ended it"),
        Column(
            "parts", "where time went", "text", 32,
            "waiting from submission to start (if that was seen), fetching and loading arguments, running, storing the "
            "result; sorted by all but waiting",
        ),
    ),
    "ended",
    ("session", "task"),
    descending=True,
    help="tasks that have ended, newest first",
)  # fmt: skip

MESSAGES = TableSpec(
    "messages",
    "Messages",
    (
        Column("name", "message", "text", 20, "the protocol's name"),
        Column("sent", "sent", "count", 12, "by the scheduler"),
        Column("received", "received", "count", 12, "by the scheduler"),
    ),
    "name",
    ("name",),
    help="messages of the scheduler since it started",
)

NOTICES = TableSpec(
    "notices",
    "Notices",
    (
        Column("time", "time", "time", 12, "when"),
        Column("event", "event", "text", 16, "what happened"),
        Column("who", "who", "text", 40, "to whom"),
    ),
    "time",
    ("time", "event", "who"),
    descending=True,
    help="who came and who left",
)

SETTINGS = TableSpec(
    "settings",
    "Settings",
    (
        Column("name", "setting", "text", 32, "the long flag"),
        Column("value", "value", "text", 48, "what it is set to"),
    ),
    "name",
    ("name",),
    help="how the scheduler was started",
)

ALERTS = TableSpec(
    "alerts",
    "Alerts",
    (
        Column("severity", "severity", "text", 8, "critical: tasks are about to be lost; warning: tasks wait or fail"),
        Column("age", "for", "age", 7, "how long it has lasted"),
        Column("text", "alert", "text", 90, "what is wrong"),
        Column("since", "since", "time", 12, "when it began"),
        Column("rule", "rule", "text", 8, "the rule that found it"),
    ),
    "severity",
    ("rule",),
    help="what goes wrong, or soon will",
)

LOGS = TableSpec(
    "logs",
    "Logs",
    (
        Column("time", "time", "time", 12, "when the line was written, by the clock of its host"),
        Column("level", "level", "text", 8, "how serious it is"),
        Column("log", "log of", "text", 18, "the scheduler, or the name of an agent or of a worker manager"),
        Column("host", "host", "text", 16, "where it runs"),
        Column("text", "line", "text", 90, "what it says"),
        Column("number", "#", "id", 4, "counts the lines of this log; missing ones were left out"),
    ),
    "time",
    ("host", "log", "number"),
    descending=True,
    help="the newest lines that scheduler, agents, object stores and worker managers have logged",
)

TABLES: dict[str, TableSpec] = {
    table.name: table
    for table in (
        WORKERS,
        AGENTS,
        HOSTS,
        PROCESSORS,
        CLIENTS,
        FUNCTIONS,
        WAITS,
        RUNNING,
        ACTORS,
        FAILURES,
        OBJECTS,
        TRAFFIC,
        LARGEST,
        PROGRESS,
        GRAPHS,
        TASKS,
        MESSAGES,
        NOTICES,
        SETTINGS,
        ALERTS,
        LOGS,
    )
}
