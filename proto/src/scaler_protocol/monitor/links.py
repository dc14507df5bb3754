"""Links from what tables mention to the page of the thing that is meant."""

from __future__ import annotations

from typing import NamedTuple

from scaler_protocol.monitor.failures import FailureGroup
from scaler_protocol.monitor.tables import TABLES, Row
from scaler_protocol.process_names import UNKNOWN_WORKER

TASK = "task"
WORKER = "worker"
HOST = "host"
CLIENT = "client"
GROUP = "group"
FUNCTION = "function"
GRAPH = "graph"
OBJECT = "object"
MAP = "map"
SCHEDULER = "scheduler"


class EntityLink(NamedTuple):
    """Names a thing for people and addresses: ``("task", ("ab12cd34", "17"))``. A task is named by the beginning of
    its client's id and its number, a graph by the same and the number of its last task, a map by the same and its own
    number, an object by the same and a label such as ``result-17``, a worker by host and name, and the others by one
    text."""

    kind: str
    key: tuple[str, ...]


SCHEDULER_LINK = EntityLink(SCHEDULER, (SCHEDULER,))

_ROW_KINDS = {
    "workers": WORKER,
    "agents": HOST,
    "hosts": HOST,
    "processors": WORKER,
    "clients": CLIENT,
    "functions": FUNCTION,
    "running": TASK,
    "actors": TASK,
    "objects": HOST,
    "largest": OBJECT,
    "graphs": GRAPH,
    "tasks": TASK,
}
"""The kinds of the rows of a table."""

_COLUMNS = {
    TASK: (("session", "task"),),
    WORKER: (("host", "worker"), ("host", "name")),
    HOST: (("host",),),
    CLIENT: (("session",),),
    GROUP: (("group",),),
    FUNCTION: (("function",), ("name",)),
    GRAPH: (("session", "graph"),),
    OBJECT: (("session", "object"),),
}
"""The columns of a row that name each thing."""

_MENTIONS = {
    "task": TASK,
    "worker": WORKER,
    "host": HOST,
    "session": CLIENT,
    "group": GROUP,
    "parent": CLIENT,
    "source": HOST,
    "target": HOST,
    "function": FUNCTION,
    "graph": GRAPH,
    "object": OBJECT,
}
"""The kinds that a column mentions, in any table; a row's own name leads to the row's thing."""

_NUMBERS = (("failures", "group"),)
"""Columns whose values are numbers of rows."""

_ALONE = ("parent", "source", "target")
"""Columns that name a thing other than that of the row."""

_NAMELESS = ("", UNKNOWN_WORKER, None)
"""In place of the name of a worker that is not known."""


def row_link(table: str, row: Row) -> EntityLink | None:
    """Return the link to the page of what a row stands for, or None if it has no page."""
    if table == "progress":
        return _progress_link(row)
    if table == "traffic":
        return cell_link(table, "target", row)
    if table == "logs":
        return SCHEDULER_LINK if row[TABLES[table].index("log")] == SCHEDULER else _link(table, row, HOST)
    kind = _ROW_KINDS.get(table)
    return _link(table, row, kind) if kind is not None else None


def cell_link(table: str, column: str, row: Row) -> EntityLink | None:
    """Return the link to the page of what a cell mentions, or None if it is not a name."""
    if column == "name":
        return row_link(table, row)
    kind = _MENTIONS.get(column) if (table, column) not in _NUMBERS else None
    if kind is not None and column in _ALONE:
        value = row[TABLES[table].index(column)]
        return EntityLink(kind, (str(value),)) if value not in _NAMELESS else None
    return _link(table, row, kind) if kind is not None else None


def mentions_of_row(table: str, row: Row) -> list[EntityLink]:
    """Return the links to the pages of everything that a row mentions."""
    found = (cell_link(table, column.key, row) for column in TABLES[table].columns)
    return list(dict.fromkeys(link for link in found if link is not None))


def mentions_of_failures(group: FailureGroup) -> list[EntityLink]:
    """Return the links to the functions and hosts of failures, and to the tasks that are known as examples."""
    tasks = [EntityLink(TASK, (each.session.hex()[:8], str(each.task))) for each in group.examples if each.session]
    functions = [EntityLink(FUNCTION, (name,)) for name in group.functions]
    return list(dict.fromkeys([*functions, *(EntityLink(HOST, (name,)) for name in group.hosts), *tasks]))


def _link(table: str, row: Row, kind: str) -> EntityLink | None:
    spec = TABLES[table]
    keys = {column.key: place for place, column in enumerate(spec.columns)}
    if table == "clients" and not row[keys["session"]]:  # several clients that have left, with their number as the host
        return None
    for names in _COLUMNS[kind]:
        if all(name in keys for name in names):
            values = [row[keys[name]] for name in names]
            return None if any(each in _NAMELESS for each in values) else EntityLink(kind, tuple(map(str, values)))
    return None


def _progress_link(row: Row) -> EntityLink | None:
    kind, name = row[0], row[1]
    if kind == FUNCTION:
        return EntityLink(FUNCTION, (name,))
    if kind == CLIENT:
        return EntityLink(CLIENT, (name.split(" ")[0],))
    if kind == GROUP:
        return EntityLink(GROUP, (name,)) if name else None
    if kind == MAP:
        _, number, _, session = name.partition(":")[0].split(" ")
        return EntityLink(MAP, (session, number))
    if kind == GRAPH:
        _, number, _, session = name.split(" ")
        return EntityLink(GRAPH, (session, number))
    return None
