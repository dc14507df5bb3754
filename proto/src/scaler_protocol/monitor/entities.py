"""The page of one thing: all that is known of a task, worker, host, client, group, function, graph,
map or object, and of the scheduler. Pure.

A page has facts, then tables with some of the rows of ``tables``, then a text. Every screen shows the same, and finds
more through the links of facts and rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from scaler_protocol.messages import WorkerStatus
from scaler_protocol.monitor import links
from scaler_protocol.monitor.activity import ShownOptions
from scaler_protocol.monitor.failures import details_of_task
from scaler_protocol.monitor.format import (
    format_bytes,
    format_count,
    format_duration,
    format_latency,
    format_moment,
    format_percent,
    format_share,
    format_span,
    format_value,
)
from scaler_protocol.monitor.graphs import WatchedGraph
from scaler_protocol.monitor.host_memory import HostMemory, memory_by_host
from scaler_protocol.monitor.links import EntityLink
from scaler_protocol.monitor.messages import (
    AgentStatus,
    ClientStatus,
    EndedClientStatus,
    FunctionStatus,
    GraphStatus,
    GroupStatus,
    MapStatus,
    ObjectStatus,
    user_of_client,
)
from scaler_protocol.monitor.model import Model
from scaler_protocol.monitor.nested_tasks import ChildTasks, TaskPlace
from scaler_protocol.monitor.output_log import PrintedBy, PrintedLine
from scaler_protocol.monitor.parts import parts_of_function, parts_text
from scaler_protocol.monitor.progress import (
    CLIENT,
    FUNCTION,
    GRAPH,
    GROUP,
    MAP,
    Progress,
    failed_apart,
    left_text,
)
from scaler_protocol.monitor.reasons import RESULTS_MISSING
from scaler_protocol.monitor.records import NONE
from scaler_protocol.monitor.rows import short_id, task_row
from scaler_protocol.monitor.shares import group_limit_sentence, groups_by_name, weight_sentence
from scaler_protocol.monitor.stored_objects import function_of, is_result, label_of, reader_tasks
from scaler_protocol.monitor.tables import TABLES, Row
from scaler_protocol.monitor.task_log import NOT_ENDED
from scaler_protocol.process_names import UNKNOWN_WORKER

ROWS_LIMIT = 50
"""Maximum number of rows of one table on a page."""

NEIGHBOURS_LIMIT = 20
"""Tasks named as needed by a task, or as needing it."""


CHILDREN_LIMIT = 10
"""Children named by a task; the page of the client that has submitted them shows the others."""


STAYS_LIMIT = 1_000
"""Stays of nested clients in a task that are looked at, for its children."""


OUTPUT_LINES_LIMIT = 100
"""Lines of output on a page, the newest ones."""


ENDED, NOT_CONNECTED = GONE_STATES = ("ended", "not connected")
"""States of what does not exist any more."""


class Fact(NamedTuple):
    name: str
    text: str
    link: EntityLink | None = None


class Section(NamedTuple):
    """Rows of a table, and how many there are in truth."""

    title: str
    table: str
    rows: Sequence[Row]
    total: int


class EntityPage(NamedTuple):
    kind: str
    title: str
    facts: Sequence[Fact] = ()
    sections: Sequence[Section] = ()
    text: str = ""
    """Tracebacks and death certificates."""

    moments: tuple[float, float] | None = None
    """The times at which an ended task began and ended, in unix seconds."""


def page_of(model: Model, link: EntityLink) -> EntityPage | None:
    """None: nothing is known of it, or no longer. ValueError for what is not the name of a thing."""
    found = _PAGES.get(link.kind)
    if found is None:
        raise ValueError(f"there are no pages of {link.kind!r}")
    make, parts = found
    if len(link.key) != parts:
        raise ValueError(f"{link.kind} is named by {parts} texts")
    return make(model, *link.key)


def output_of(model: Model, link: EntityLink) -> tuple[list[PrintedLine], int]:
    """The newest lines that a task, or the tasks of a worker, have printed, and how many lines are kept in all."""
    wanted = _printed_by(model, link)
    return model.activity.output.newest(wanted, 0, OUTPUT_LINES_LIMIT) if wanted is not None else ([], 0)


def _printed_by(model: Model, link: EntityLink) -> PrintedBy | None:
    if link.kind == links.WORKER:
        return PrintedBy(worker=link.key[1])
    if link.kind != links.TASK:
        return None
    indices = _session_indices(model, link.key[0])
    return PrintedBy(session=model.activity.session_of(indices[0]), task=_number(link.key[1])) if indices else None


# ---- tasks -----------------------------------------------------------------------------------------------------------


def _task(model: Model, client: str, number: str) -> EntityPage | None:
    task = _number(number)
    indices = _session_indices(model, client)
    serials, total = model.log.query(sessions=indices, task=task, limit=ROWS_LIMIT) if indices else ([], 0)
    rows = [task_row(model, serial) for serial in serials]
    running = _rows_with(model, "running", session=client, task=task)
    actors = _rows_with(model, "actors", session=client, task=task)
    arrived, objects = _arrival(model, indices, task), _object_facts(model, client, task)
    if not rows and not running and not actors and arrived is None and not objects:
        return None
    columns = [column.key for column in TABLES["tasks" if rows else "running"].columns]
    newest = dict(zip(columns, (rows or running or [()])[0], strict=False))
    whole = _seconds_in_worker(model, serials)
    name = actors[0][TABLES["actors"].index("function")] if actors else newest.get("function", "")
    function = str(name) or _arrived_function(model, indices, task)
    facts = [
        *_function_fact(function),
        Fact("client", client, EntityLink(links.CLIENT, (client,))),
        Fact("state", _task_state(rows, running, actors)),
        *([Fact("submitted", format_moment(arrived))] if arrived is not None else []),
        *_actor_facts(model, indices, task),
        *_option_facts(model, indices, task),
        *_argument_facts(model, indices, task),
        *_last_execution(newest, whole if rows else None),
        *_graph_facts(model, indices, client, task),
        *objects,
        *_parent_facts(model, indices, task),
        *_children_facts(model, indices, task),
        *(_reasons(model, indices, client, task, function) if not rows and not running and not actors else ()),
    ]
    sections = [
        *_section("Actor", "actors", actors),
        *_section("Running", "running", running),
        *_section("Executions", "tasks", rows, total),
    ]
    text = details_of_task(model.activity.failures, client, task)
    moments = (newest["ended"] - whole, newest["ended"]) if rows else None
    return EntityPage(links.TASK, f"Task {number}", facts, sections, text, moments)


def _task_state(rows: Sequence[Row], running: Sequence[Row], actors: Sequence[Row]) -> str:
    if actors:
        return f"actor, {actors[0][TABLES['actors'].index('state')]}"
    if running:
        return str(running[0][TABLES["running"].index("state")])
    return str(rows[0][TABLES["tasks"].index("status")]) if rows else "waiting, or running for less than a second"


def _seconds_in_worker(model: Model, serials: Sequence[int]) -> float:
    """Return how long the newest of these executions kept its worker process; 0 if there is none."""
    row = model.log.row(serials[0]) if serials else None
    return row[2] / 1e6 if row is not None else 0.0


def _last_execution(newest: dict[str, object], whole: float | None) -> list[Fact]:
    """Return where and when the last execution ran, and the parts of its time. ``whole``: how long it kept its worker
    process; None: it has not ended."""
    host, worker = (str(newest.get(name) or "") for name in ("host", "worker"))
    facts = []
    if worker:
        known = worker != UNKNOWN_WORKER
        facts.append(Fact("worker", worker, EntityLink(links.WORKER, (host, worker)) if known else None))
    if host:
        facts.append(Fact("host", host, EntityLink(links.HOST, (host,))))
    if whole is not None:
        ended, duration = float(newest["ended"]), newest["duration"]  # type: ignore[arg-type]
        facts += [
            Fact("started", format_moment(ended - whole) if duration is not None else "-"),
            Fact("ended", format_moment(ended)),
            Fact("ran", format_value("duration", duration)),
            Fact("attempt", str(newest["attempt"])),
        ]
        facts += [Fact("where time went", str(newest["parts"]))] if newest["parts"] else []
    return facts


def _actor_facts(model: Model, indices: Iterable[int], task: int) -> list[Fact]:
    """Return the actor of which a task is a call, by its name or else by the task that has made it."""
    found = ((index, model.activity.actor_of(index, task)) for index in indices)
    index, actor = next(((index, each) for index, each in found if each is not None), (0, None))
    if actor is None:
        return []
    session, maker = actor
    name = model.activity.actor_name(index, task) or f"task {maker}"
    return [Fact("actor", name, _task_link(short_id(session), maker))]


def _option_facts(model: Model, indices: Iterable[int], task: int) -> list[Fact]:
    """Return the priority of a task, what it needs, and its limits if it has any."""
    options = _options_of(model, indices, task)
    if options is None:
        return [Fact("priority, capabilities", "not known: not recorded, or before this monitor watched")]
    needed = ", ".join(f"{name}={amount:g}" for name, amount in options.capabilities)
    needed += f" and {format_count(options.more_capabilities)} more" if options.more_capabilities else ""
    return [
        *([Fact("actor name", options.actor_name)] if options.actor_name else []),
        Fact("priority", str(options.priority)),
        Fact("capabilities", needed or "none needed"),
        *([Fact("retries", format_count(options.retries))] if options.retries else []),
        *([] if options.rerun else [Fact("runs again", "never, once it has started")]),
        *([Fact("time limit", format_span(options.timeout_seconds))] if options.timeout_seconds else []),
        *([Fact("memory limit", format_bytes(options.memory_bytes))] if options.memory_bytes else []),
    ]


def _argument_facts(model: Model, indices: Iterable[int], task: int) -> list[Fact]:
    """Return the size of the arguments of a task, without that of the objects among them."""
    found = (model.activity.times.arguments_of(index, task) for index in indices)
    known = next((each for each in found if each is not None), None)
    if known is None:
        return []
    size, count = known
    together = f" on average, of {format_count(count)} tasks that came together" if count > 1 else ""
    return [Fact("arguments", f"{format_bytes(size)}{together}")]


def _options_of(model: Model, indices: Iterable[int], task: int) -> ShownOptions | None:
    found = (model.activity.options_of(index, task) for index in indices)
    return next((each for each in found if each is not None), None)


def _graph_facts(model: Model, indices: Sequence[int], client: str, task: int) -> list[Fact]:
    """The graph of a node, and its neighbours there."""
    for graph in model.activity.graphs.all():
        if graph.session in indices and graph.has(task):
            facts = [Fact("graph", str(graph.graph), EntityLink(links.GRAPH, (client, str(graph.graph))))]
            needed = [needed for node, needed in graph.edges if node == task]
            needing = [node for node, needed in graph.edges if needed == task]
            facts += _neighbours("needs", needed, graph, model, client)
            return facts + _neighbours("needed by", needing, graph, model, client)
    return []


def _neighbours(name: str, tasks: Sequence[int], graph: WatchedGraph, model: Model, client: str) -> list[Fact]:
    functions = {
        task: function for first, count, function in graph.functions for task in tasks if first <= task < first + count
    }
    facts = [
        Fact(name, f"task {task} {model.activity.function_name(functions.get(task, -1))}", _task_link(client, task))
        for task in tasks[:NEIGHBOURS_LIMIT]
    ]
    more = len(tasks) - NEIGHBOURS_LIMIT
    return [*facts, Fact(name, f"{format_count(more)} more")] if more > 0 else facts


def _parent_facts(model: Model, indices: Sequence[int], task: int) -> list[Fact]:
    """Return the task that submitted this one."""
    found = (model.activity.nested.parent_of(index, task) for index in indices)
    parent = next((each for each in found if each is not None), None)
    return [_relative("parent", model, parent)] if parent is not None else []


def _children_facts(model: Model, indices: Sequence[int], task: int) -> list[Fact]:
    """Return the first tasks that this one has submitted, and how many others there are."""
    nested = model.activity.nested
    places = [TaskPlace(index, task) for index in indices]
    stays = islice((stay for place in places for stay in nested.children_of(place)), STAYS_LIMIT)
    children = (TaskPlace(stay.session, task) for stay in stays for task in _tasks_of(model, stay))
    shown = list(islice(children, CHILDREN_LIMIT))
    facts = [_relative("children", model, child) for child in shown]
    more = sum(map(nested.count_children, places)) - len(facts)
    if more <= 0 or not shown:
        return facts
    client = short_id(model.activity.session_of(shown[-1].session))
    return [*facts, Fact("children", f"{format_count(more)} more", EntityLink(links.CLIENT, (client,)))]


def _tasks_of(model: Model, stay: ChildTasks) -> Iterator[int]:
    """The tasks of a stay; the first of them if it is too long ago to know the others."""
    known = False
    for tasks in model.activity.times.arrived_between(*stay):
        known = True
        yield from tasks
    if not known and model.activity.nested.has_children(stay):
        yield stay.first


def _relative(name: str, model: Model, place: TaskPlace) -> Fact:
    client = short_id(model.activity.session_of(place.session))
    function = _arrived_function(model, [place.session], place.task)
    return Fact(name, f"task {place.task} {function}".rstrip(), _task_link(client, place.task))


def _arrived_function(model: Model, indices: Iterable[int], task: int) -> str:
    """Return the name of the function of a task whose arrival was seen."""
    found = (model.activity.times.function_of(index, task) for index in indices)
    return model.activity.function_name(next((each for each in found if each != NONE), NONE))


def _reasons(model: Model, indices: Sequence[int], client: str, task: int, function: str) -> list[Fact]:
    """Return why tasks of its client and function wait, of all functions if it is not known: of these, only tasks that
    are like this one, if there are any."""
    waits = model.snapshot.waits if model.snapshot is not None else ()
    groups = [each for each in waits if short_id(each.session) == client and function in ("", each.function)]
    options = _options_of(model, indices, task)
    demand = None if options is None or options.more_capabilities else _shown_demand(options)
    misses_results = _misses_results(model, indices, task)
    alike = [
        each for each in groups
        if demand in (None, each.demand) and misses_results == each.reason.casefold().startswith(RESULTS_MISSING)
    ]  # fmt: skip
    return [Fact("may wait because", f"{each.reason} {each.place}".rstrip()) for each in alike or groups][:3]


def _shown_demand(options: ShownOptions) -> str:
    """Write capabilities as groups of waiting tasks have them."""
    return ", ".join(f"{name}={amount:.15g}" for name, amount in sorted(options.capabilities))


def _misses_results(model: Model, indices: Sequence[int], task: int) -> bool:
    graphs = [graph for graph in model.activity.graphs.all() if graph.session in indices and graph.has(task)]
    needed = ((graph.session, needed) for graph in graphs for node, needed in graph.edges if node == task)
    return any(model.log.endings(session, first, 1)[0] == NOT_ENDED for session, first in needed)


def _arrival(model: Model, indices: Iterable[int], task: int) -> float | None:
    found = [model.activity.times.arrived_us(index, task) for index in indices]
    return next((each / 1e6 for each in found if each is not None), None)


def _task_link(client: str, task: int) -> EntityLink:
    return EntityLink(links.TASK, (client, str(task)))


# ---- workers and hosts -----------------------------------------------------------------------------------------------


def _worker(model: Model, host: str, name: str) -> EntityPage | None:
    """All workers of one name on a host: two clusters may use the same."""
    found = [
        (agent, worker) for agent in _agents(model) if agent.host == host for worker in agent.workers
        if worker.name == name
    ]  # fmt: skip
    indices = [index for index, each in enumerate(model.activity.workers) if (each.host, each.name) == (host, name)]
    if not found and not indices:
        return None
    facts = [Fact("host", host, EntityLink(links.HOST, (host,)))]
    for agent, worker in found:
        facts += _worker_facts(agent, worker)
    running = _rows_with(model, "running", host=host, worker=name)
    if not found:
        facts.append(Fact("state", "runs a nested task" if running else NOT_CONNECTED))
    sections = [
        *_section("Running", "running", running),
        *_section("Actor", "actors", _rows_with(model, "actors", host=host, worker=name)),
        *_executions(model, workers=indices),
    ]
    return EntityPage(links.WORKER, f"Worker {name}", facts, sections)


def _worker_facts(agent: AgentStatus, worker: WorkerStatus) -> list[Fact]:
    return [
        Fact("agent", f"{agent.name} (pid {agent.pid}), {agent.state_name}"),
        Fact("process id", str(worker.pid)),
        Fact("state", state_of_worker(worker)),
        Fact("CPU", format_percent(worker.cpu_percent)),
        Fact("memory", format_bytes(worker.rss_bytes)),
        Fact("capabilities", agent.capabilities or "none"),
    ]


def state_of_worker(worker: WorkerStatus) -> str:
    """A few words."""
    if not worker.initialized:
        return "starting"
    if worker.slot_lent:
        return "its task waits for nested tasks"
    return "runs a task" if worker.has_task else "idle"


def _host(model: Model, host: str) -> EntityPage | None:
    agents = [agent for agent in _agents(model) if agent.host == host]
    indices = [index for index, each in enumerate(model.activity.workers) if each.host == host]
    clients = _rows_with(model, "clients", host=host)
    logs = _rows_with(model, "logs", host=host)
    if not agents and not indices and not clients and not logs:
        return None
    workers = [worker for agent in agents for worker in agent.workers]
    facts = (
        []
        if not agents
        else [
            Fact("workers", f"{len(workers)}, {sum(worker.has_task for worker in workers)} busy"),
            Fact("CPU of workers", format_percent(sum(worker.cpu_percent for worker in workers))),
            Fact("memory of workers", format_bytes(sum(worker.rss_bytes for worker in workers))),
            Fact("memory of the host", memory_by_host(agents).get(host, HostMemory()).text or "not known"),
            Fact("queued tasks", format_count(sum(agent.queued for agent in agents))),
            Fact("lag", format_latency(agents[0].lag_seconds)),
        ]
    )
    if not agents:
        facts.append(Fact("state", "no agent is connected"))
    sections = [
        *_section("Agents", "agents", _rows_with(model, "agents", host=host)),
        *_section("Workers", "workers", _rows_with(model, "workers", host=host)),
        *_section("Running", "running", _rows_with(model, "running", host=host)),
        *_section("Actors", "actors", _rows_with(model, "actors", host=host)),
        *_section("Objects", "objects", _rows_with(model, "objects", host=host)),
        *_section("Its largest objects", "largest", _rows_on(model, host)),
        *_section("Received from", "traffic", _rows_with(model, "traffic", target=host)),
        *_section("Sent to", "traffic", _rows_with(model, "traffic", source=host)),
        *_section("Clients", "clients", clients),
        *_section("Log", "logs", logs),
        *_executions(model, workers=indices),
    ]
    return EntityPage(links.HOST, f"Host {host}", facts, sections)


def _scheduler(model: Model, name: str) -> EntityPage | None:
    if model.snapshot is None or name != links.SCHEDULER:
        return None
    status = model.snapshot.scheduler
    facts = [
        Fact("address", status.address),
        Fact("host", status.host, EntityLink(links.HOST, (status.host,))),
        Fact("process id", str(status.pid)),
        Fact("version", status.version),
        Fact("runs for", format_duration(status.uptime_seconds)),
        Fact("CPU", format_percent(status.cpu_percent)),
        Fact("memory", format_bytes(status.rss_bytes)),
    ]
    sections = [
        *_section("Log", "logs", _rows_with(model, "logs", log=links.SCHEDULER)),
        *_section("Settings", "settings", model.rows("settings")[0]),
    ]
    return EntityPage(links.SCHEDULER, "Scheduler", facts, sections)


def _rows_on(model: Model, host: str) -> list[Row]:
    """Rows of the largest objects, of those that a host has."""
    table = TABLES["largest"]
    names = {(label_of(each), short_id(each.session)) for each in _objects(model) if host in each.host_names}
    places = table.index("object"), table.index("session")
    return [row for row in model.rows("largest")[0] if (row[places[0]], row[places[1]]) in names]


# ---- clients ---------------------------------------------------------------------------------------------------------


def _client(model: Model, client: str) -> EntityPage | None:
    indices = _session_indices(model, client)
    clients = model.snapshot.clients if model.snapshot is not None else ()
    ended = model.snapshot.ended_clients if model.snapshot is not None else ()
    present = next((each for each in clients if short_id(each.session) == client), None)
    past = next((each for each in ended if each.session and short_id(each.session) == client), None)
    if present is not None:
        facts = _client_facts(present, model)
    elif past is not None:
        facts = _ended_client_facts(past)
    elif indices:
        named = model.activity.sessions[indices[0]]
        facts = [*_place_facts(named.host, named.pid, named.parent), Fact("state", ENDED)]
    else:
        return None
    sections = [
        *_section("Running", "running", _rows_with(model, "running", session=client)),
        *_section("Actors", "actors", _rows_with(model, "actors", session=client)),
        *_section("Graphs", "graphs", _rows_with(model, "graphs", session=client)),
        *_section("Its largest objects", "largest", _rows_with(model, "largest", session=client)),
        *_section("Nested clients", "clients", _rows_with(model, "clients", parent=client)),
        *_section("Waiting", "waits",
                  _rows_with(model, "waits", session=client)),
        *_executions(model, sessions=indices),
    ]  # fmt: skip
    return EntityPage(links.CLIENT, f"Client {client}", facts, sections)


def _client_facts(client: ClientStatus, model: Model) -> list[Fact]:
    progress = model.progress.find(CLIENT, client.session)
    return [
        *_place_facts(client.host, client.pid, client.parent_session),
        *_program_facts(client),
        Fact("state", "connected" if client.connected else "away"),
        Fact("waiting", format_count(client.unassigned)),
        Fact("on hosts", format_count(client.running)),
        *_finished_facts(client),
        *_progress_facts(progress, model),
        *_facts_of_group(model, client.group),
        Fact("weight", weight_sentence(client)),
        Fact("share of running time", format_share(min(client.share, 1.0))),
        Fact("running time used", format_span(client.used_seconds)),
    ]


def _ended_client_facts(client: EndedClientStatus) -> list[Fact]:
    return [
        *_place_facts(client.host, client.pid, b""),
        *_program_facts(client),
        Fact("state", ENDED),
        *_finished_facts(client),
        Fact("running time used", format_span(client.used_seconds)),
    ]


def _program_facts(client: ClientStatus | EndedClientStatus) -> list[Fact]:
    facts = Fact("user", user_of_client(client)), Fact("program", client.program)
    return [fact for fact in facts if fact.text]


def _finished_facts(client: ClientStatus | EndedClientStatus) -> list[Fact]:
    return [
        Fact("finished", format_count(client.finished)),
        Fact("failed", format_count(client.failed)),
        Fact("cancelled", format_count(client.canceled)),
    ]


def _place_facts(host: str, pid: int, parent: bytes) -> list[Fact]:
    facts = [Fact("host", host, EntityLink(links.HOST, (host,))), Fact("process id", str(pid))]
    if parent:
        facts.append(Fact("inside a task of", short_id(parent), EntityLink(links.CLIENT, (short_id(parent),))))
    return facts


# ---- groups of clients -----------------------------------------------------------------------------------------------


def _group(model: Model, name: str) -> EntityPage | None:
    rows = _rows_with(model, "clients", group=name)
    if not name or not rows:
        return None
    members = [each for each in model.snapshot.clients if each.group == name] if model.snapshot is not None else []
    facts = [
        Fact("waiting", format_count(sum(each.unassigned for each in members))),
        Fact("on hosts", format_count(sum(each.running for each in members))),
        *_progress_facts(model.progress.find(GROUP, name), model),
        *_share_facts(_group_status(model, name)),
        Fact("share of running time", format_share(min(1.0, sum(map(_own_share, members))))),
    ]
    page_facts = facts if members else [Fact("state", ENDED)]
    return EntityPage(links.GROUP, f"Group {name}", page_facts, _section("Clients", "clients", rows))


def _group_status(model: Model, name: str) -> GroupStatus | None:
    return groups_by_name(model.snapshot.groups).get(name) if model.snapshot is not None else None


def _share_facts(group: GroupStatus | None, of: str = "") -> list[Fact]:
    """Return what operators have set; nothing if the scheduler does not say it."""
    if group is None:
        return []
    return [Fact(f"weight{of}", f"{group.weight:g}"), Fact(f"limit{of}", group_limit_sentence(group))]


def _facts_of_group(model: Model, name: str) -> list[Fact]:
    if not name:
        return []
    return [
        Fact("group", name, EntityLink(links.GROUP, (name,))),
        *_share_facts(_group_status(model, name), " of the group"),
    ]


def _own_share(client: ClientStatus) -> float:
    """Nested clients have that of the client around them."""
    return 0.0 if client.parent_session else client.share


# ---- functions and graphs --------------------------------------------------------------------------------------------


def _function(model: Model, name: str) -> EntityPage | None:
    functions = model.snapshot.functions if model.snapshot is not None else ()
    known = next((each for each in functions if each.name == name), None)
    indices = model.activity.functions_named(name)
    if known is None and not indices:
        return _namesakes(model, name)
    facts = _function_facts(known, model) if known is not None else []
    failures = [row for row in model.rows("failures")[0] if name in _names_in(row)]
    sections = [
        *_section("Running", "running", _rows_with(model, "running", function=name)),
        *_section("Actors", "actors", _rows_with(model, "actors", function=name)),
        *_section("Waiting", "waits", _rows_with(model, "waits", function=name)),
        *_section("Failures", "failures", failures),
        *_executions(model, "Slowest executions", "running_us", 10, functions=indices),
        *_executions(model, functions=indices),
    ]
    return EntityPage(links.FUNCTION, name, facts, sections)


def _namesakes(model: Model, name: str) -> EntityPage | None:
    """Return the page of a name that functions of several modules have; None: there are not any."""
    functions = model.snapshot.functions if model.snapshot is not None else ()
    found = [each for each in functions if each.module and each.name == f"{each.module}.{name}"]
    facts = [Fact("function", each.name, EntityLink(links.FUNCTION, (each.name,))) for each in found]
    return EntityPage(links.FUNCTION, f"Functions named {name}", facts) if facts else None


def _names_in(failure: Row) -> list[str]:
    return str(failure[TABLES["failures"].index("functions")]).split(", ")


def _function_facts(function: FunctionStatus, model: Model) -> list[Fact]:
    executions = function.executions or function.succeeded + function.failed
    facts = [
        Fact("unfinished", format_count(function.unfinished)),
        Fact("succeeded", format_count(function.succeeded)),
        Fact("failed", format_count(function.failed)),
        Fact("cancelled", format_count(function.canceled)),
        *_progress_facts(model.progress.find(FUNCTION, function.name), model),
    ]
    if executions:
        facts += [
            Fact("mean", format_span(function.running_seconds / executions)),
            Fact("p50, p95", f"{format_span(function.median_seconds)}, {format_span(function.p95_seconds)}"),
            Fact("longest", format_span(function.longest_seconds)),
            Fact("all together", format_span(function.duration_seconds)),
            Fact("processor time", format_span(function.cpu_seconds)),
            Fact("where time goes", parts_text(parts_of_function(function))),
        ]
    facts += [Fact("module", function.module)] if function.module else []
    return [*facts, Fact("digest", function.digest.hex())]


def _graph(model: Model, client: str, number: str) -> EntityPage | None:
    graph = _number(number)
    graphs = model.snapshot.graphs if model.snapshot is not None else ()
    known = next((each for each in graphs if (short_id(each.session), each.graph) == (client, graph)), None)
    indices = _session_indices(model, client)
    watched = next((found for each in indices if (found := model.activity.graphs.get(each, graph))), None)
    if known is None and watched is None:
        return None
    facts = [Fact("client", client, EntityLink(links.CLIENT, (client,)))]
    facts += _graph_counts(known, model) if known is not None else [Fact("state", ENDED)]
    if watched is not None:
        facts += [Fact("calls", format_count(watched.count)), Fact("edges", format_count(watched.edge_count))]
    return EntityPage(links.GRAPH, f"Graph {number}", facts)


def _graph_counts(graph: GraphStatus, model: Model) -> list[Fact]:
    return [
        Fact("waiting", format_count(graph.waiting)),
        Fact("ready", format_count(graph.ready)),
        Fact("on hosts", format_count(graph.running)),
        Fact("done", format_count(graph.done)),
        *_failed_facts(graph),
        *_progress_facts(model.progress.find(GRAPH, (graph.session, graph.graph)), model),
    ]


def _failed_facts(status: GraphStatus | MapStatus) -> list[Fact]:
    failed, canceled = failed_apart(status)
    return [Fact("failed", format_count(failed)), Fact("cancelled", format_count(canceled))]


def _map(model: Model, client: str, number: str) -> EntityPage | None:
    maps = model.snapshot.maps if model.snapshot is not None else ()
    wanted = _number(number)
    found = next((each for each in maps if (short_id(each.session), each.number) == (client, wanted)), None)
    if found is None:
        return None
    facts = [
        *_function_fact(found.function),
        Fact("client", client, EntityLink(links.CLIENT, (client,))),
        Fact(
            "tasks",
            f"{format_count(found.total)} so far" if found.is_open else format_count(found.total + found.to_come),
        ),
        Fact("done", format_count(max(0, found.total - found.unfinished - found.failed))),
        *_failed_facts(found),
        Fact("on hosts", format_count(found.running)),
        Fact("remaining", format_count(found.unfinished + found.to_come)),
        *_progress_facts(model.progress.find(MAP, (found.session, found.number)), model),
    ]
    return EntityPage(links.MAP, f"Map {number}", facts)


# ---- objects ---------------------------------------------------------------------------------------------------------


def _object(model: Model, client: str, label: str) -> EntityPage | None:
    """Any client that has a function may own it, so the label alone names it."""
    found = next(
        (each for each in _objects(model)
         if label_of(each) == label and (each.digest or short_id(each.session) == client)),
        None,
    )  # fmt: skip
    if found is None:
        return None
    function = function_of(model.activity, found)
    owner = short_id(found.session)
    facts = [
        *_producer_facts(found, owner),
        *_function_fact(function),
        Fact("size", format_bytes(found.size_bytes)),
        *(Fact("is on", host, EntityLink(links.HOST, (host,))) for host in found.host_names),
    ]
    more = found.copies - len(found.host_names)
    facts += [Fact("is on", f"{format_count(more)} more hosts")] if more > 0 else []
    return EntityPage(links.OBJECT, f"Object {label}", [*facts, *_reader_facts(model, found, owner)])


def _producer_facts(status: ObjectStatus, owner: str) -> list[Fact]:
    client = EntityLink(links.CLIENT, (owner,))
    if is_result(status):
        task = Fact("made by", f"task {status.number}", _task_link(owner, status.number))
        return [task, Fact("client", owner, client)]
    return [Fact("sent by", f"client {owner}", client)] if owner else []


def _reader_facts(model: Model, status: ObjectStatus, owner: str) -> list[Fact]:
    tasks = reader_tasks(status)
    indices = _session_indices(model, owner)
    facts = [
        Fact("needed by", f"task {task} {_arrived_function(model, indices, task)}".rstrip(), _task_link(owner, task))
        for task in tasks
    ]
    more = status.readers - len(tasks)
    if more > 0:
        facts.append(Fact("needed by", f"{format_count(more)} {'more ' if tasks else ''}unfinished tasks"))
    return facts or [Fact("needed by", "no unfinished task")]


def _object_facts(model: Model, client: str, task: int) -> list[Fact]:
    """The result of a task, and what it needs, if these are among the largest objects."""
    facts = []
    for each in _objects(model):
        if each.digest or short_id(each.session) != client:
            continue
        name = "result" if is_result(each) and each.number == task else "needs object"
        if name == "result" or task in reader_tasks(each):
            label = label_of(each)
            link = EntityLink(links.OBJECT, (client, label))
            facts.append(Fact(name, f"{label}, {format_bytes(each.size_bytes)}", link))
    return sorted(facts, key=lambda fact: fact.name)


def _objects(model: Model) -> Sequence[ObjectStatus]:
    return model.snapshot.objects if model.snapshot is not None else ()


# ---- what several have in common -------------------------------------------------------------------------------------


def _progress_facts(progress: Progress | None, model: Model) -> list[Fact]:
    """Nothing for what has no unfinished tasks."""
    if progress is None:
        return []
    facts = [Fact("progress", format_share(progress.share))]
    left = left_text(progress, model.time)
    if left:
        facts.append(Fact("time left", left))
    return facts


def _function_fact(name: str) -> list[Fact]:
    return [Fact("function", name, EntityLink(links.FUNCTION, (name,)))] if name else []


def _executions(
    model: Model,
    title: str = "Newest executions",
    sort: str = "ended_us",
    most: int = ROWS_LIMIT,
    *,
    sessions: list[int] | None = None,
    functions: list[int] | None = None,
    workers: list[int] | None = None,
) -> list[Section]:
    """Return the executions of the tasks of one thing, of those that are kept."""
    if not (sessions or functions or workers):
        return []
    serials, total = model.log.query(sessions, functions, workers, sort=sort, limit=most)
    return _section(title, "tasks", [task_row(model, serial) for serial in serials], total)


def _section(title: str, table: str, rows: Sequence[Row], total: int | None = None) -> list[Section]:
    """Return a section with the rows, or nothing if there are none."""
    return [Section(title, table, rows[:ROWS_LIMIT], len(rows) if total is None else total)] if rows else []


def _rows_with(model: Model, table: str, **values: object) -> list[Row]:
    """Return the rows with these values, in the table's own order."""
    return model.rows_where(table, values)


def _session_indices(model: Model, client: str) -> list[int]:
    return [index for index, each in model.activity.sessions.items() if short_id(each.session) == client]


def _agents(model: Model) -> Sequence[AgentStatus]:
    return model.snapshot.agents if model.snapshot is not None else ()


def _number(text: str) -> int:
    if not text.isdecimal() or len(text) > 20 or int(text) >= 1 << 64:
        raise ValueError(f"{text[:40]!r} is not a number")
    return int(text)


_PAGES: dict[str, tuple[Callable[..., EntityPage | None], int]] = {
    links.TASK: (_task, 2),
    links.WORKER: (_worker, 2),
    links.HOST: (_host, 1),
    links.CLIENT: (_client, 1),
    links.GROUP: (_group, 1),
    links.FUNCTION: (_function, 1),
    links.GRAPH: (_graph, 2),
    links.OBJECT: (_object, 2),
    links.MAP: (_map, 2),
    links.SCHEDULER: (_scheduler, 1),
}
"""By kind: what makes the page, and how many texts name the thing."""
