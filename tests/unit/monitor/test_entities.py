"""Pages of single things, and the links that lead to them."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest

from scaler_protocol.monitor import entity_search, links, records
from scaler_protocol.monitor.entities import EntityPage, page_of
from scaler_protocol.monitor.entity_search import find_entity
from scaler_protocol.monitor.links import EntityLink, cell_link, row_link
from scaler_protocol.monitor.messages import ClientStatus, Events, FunctionStatus
from scaler_protocol.monitor.model import Model
from scaler_protocol.monitor.records import Kind, Naming
from scaler_protocol.monitor.running import RunningTaskRow
from scaler_protocol.monitor.tables import TABLES
from tests.support.monitor_stream import synthetic_messages
from tests.support.monitoring import agent_status, snapshot


@pytest.fixture(scope="module")
def model() -> Model:
    made = Model(0.0)
    for message in synthetic_messages(5, 24, 300):
        made.apply(message, 100.0)
    return made


def shown(model: Model, kind: str, *key: str) -> EntityPage:
    page = page_of(model, EntityLink(kind, key))
    assert page is not None
    return page


def facts(page: EntityPage) -> dict[str, str]:
    return {each.name: each.text for each in page.facts}


def all_links(model: Model) -> set[EntityLink]:
    found: set[EntityLink | None] = set()
    for table, spec in TABLES.items():
        for row in model.rows(table, limit=200)[0]:
            found.add(row_link(table, row))
            found.update(cell_link(table, column.key, row) for column in spec.columns)
    return {link for link in found if link is not None}


def test_every_mention_leads_to_a_page_and_its_links_lead_on(model: Model) -> None:
    found = all_links(model)
    assert {link.kind for link in found} == {"task", "worker", "host", "client", "function", "graph", "object"}
    missing = [link for link in found if page_of(model, link) is None]
    parent = EntityLink("client", ("01000000",))
    assert missing == [parent], "the parent of a client is not among the clients"
    for link in sorted(found)[:200]:
        page = page_of(model, link)
        for fact in page.facts if page is not None else ():
            assert fact.link in (None, parent) or page_of(model, fact.link) is not None


def test_the_page_of_a_task_has_its_times_its_neighbours_and_its_failure(model: Model) -> None:
    row = next(row for row in model.rows("tasks")[0] if row[4] == "exception")
    page = shown(model, links.TASK, row[2], str(row[1]))
    assert facts(page)["state"] == "exception"
    assert facts(page)["worker"] == row[7]
    assert page.moments == (row[0] - row[5], row[0])
    assert [section.title for section in page.sections] == ["Executions"]
    node = shown(model, links.TASK, "abababab", "30")
    needs = [fact for fact in node.facts if fact.name == "needs"]
    assert needs and all(fact.link is not None and fact.link.kind == links.TASK for fact in needs)
    assert facts(node)["graph"] == "60"


def test_a_task_whose_number_lies_between_those_of_an_open_graph_is_no_node_of_it() -> None:
    def graph(first: int, *edges: int) -> bytes:
        body = struct.pack(f"<{1 + len(edges)}Q", 65_536, *edges)
        return records.record(Kind.GRAPH, time=1, session=0, first=first, count=1, function=0, body=body)

    some = [
        records.name_record(Naming.SESSION, 0, {"session": "ab" * 16, "host": "h", "pid": 1}),
        records.name_record(Naming.FUNCTION, 0, {"name": "f"}),
        *(records.record(Kind.SUBMITTED, time=1, session=0, first=each, count=1, function=0) for each in (1, 2, 3)),
        graph(1), graph(3, 3, 1),
    ]  # fmt: skip
    made = Model(0.0)
    made.apply(Events(10.0, 0, b"".join(some), 0, len(some), 1), 0.0)
    assert "graph" not in facts(shown(made, links.TASK, "abababab", "2"))
    last = facts(shown(made, links.TASK, "abababab", "3"))
    assert (last["graph"], last["needs"]) == ("65536", "task 1 f")


def test_the_failures_of_a_task_are_told_whole(model: Model) -> None:
    example = model.activity.failures.groups[0].examples[0]
    page = shown(model, links.TASK, example.session.hex()[:8], str(example.task))
    assert f"task {example.task} of" in page.text
    assert example.details.strip() in page.text


def test_a_task_that_runs(model: Model) -> None:
    row: RunningTaskRow = next(iter(model.running.values()))
    page = shown(model, links.TASK, row.task.session.hex()[:8], str(row.task.task))
    assert facts(page)["function"] == row.task.function
    assert page.sections[0].title == "Running"


def test_the_page_of_a_worker_names_its_process_and_tasks(model: Model) -> None:
    page = shown(model, links.WORKER, "node-0", "node-0-4")
    assert facts(page)["process id"] == "20004"
    assert all(row[6:8] == ("node-0", "node-0-4") for row in page.sections[-1].rows)


def test_workers_of_two_clusters_with_one_name_are_on_one_page() -> None:
    made = Model(0.0)
    one, other = agent_status(0, 1), replace(agent_status(1, 1), host=agent_status().host)
    named = replace(other, workers=(replace(other.workers[0], name=one.workers[0].name),))
    made.apply(snapshot((one, named)), 0.0)
    page = shown(made, links.WORKER, one.host, one.workers[0].name)
    agents = [fact.text for fact in page.facts if fact.name == "agent"]
    assert [text.split(" ")[0] for text in agents] == ["agent-0", "agent-1"]


def test_hosts_clients_functions_and_graphs(model: Model) -> None:
    host = shown(model, links.HOST, "node-0")
    assert {"Agents", "Workers", "Newest executions"} <= {section.title for section in host.sections}
    assert [section.title for section in shown(model, links.HOST, "notebook").sections] == ["Clients"]
    client = facts(shown(model, links.CLIENT, "abababab"))
    assert client["time left"] and client["finished"] and client["host"] == "notebook"
    function = shown(model, links.FUNCTION, "simulate")
    slowest = next(section for section in function.sections if section.title == "Slowest executions")
    durations = [row[5] for row in slowest.rows]
    assert durations == sorted(durations, reverse=True) and len(durations) == 10
    assert facts(shown(model, links.GRAPH, "abababab", "60"))["calls"] == "60"


@pytest.mark.parametrize(
    "link",
    [EntityLink("task", ("abababab", "999999999")), EntityLink("worker", ("a", "b")), EntityLink("host", ("nowhere",)),
     EntityLink("client", ("ffffffff",)), EntityLink("function", ("nothing",)), EntityLink("graph", ("abababab", "1"))],
)  # fmt: skip
def test_nothing_is_known_of_what_never_was(model: Model, link: EntityLink) -> None:
    assert page_of(model, link) is None
    assert page_of(Model(0.0), link) is None


@pytest.mark.parametrize(
    ("kind", "key"), [("planet", ("x",)), ("task", ("a",)), ("task", ("a", "-1")), ("task", ("a", "9" * 30))]
)
def test_what_names_nothing_is_refused(model: Model, kind: str, key: tuple[str, ...]) -> None:
    with pytest.raises(ValueError):
        page_of(model, EntityLink(kind, key))


def test_things_are_found_by_their_names(model: Model) -> None:
    task = model.rows("tasks")[0][0]
    client, number, worker, host = task[2], str(task[1]), task[7], task[6]
    assert find_entity(model, worker) == EntityLink(links.WORKER, (host, worker))
    assert find_entity(model, host) == EntityLink(links.HOST, (host,))
    assert find_entity(model, " simulate ") == EntityLink(links.FUNCTION, ("simulate",))
    assert find_entity(model, client[:4]) == EntityLink(links.CLIENT, (client,))
    assert find_entity(model, f"{client}/{number}") == EntityLink(links.TASK, (client, number))
    too_large = (f"{client}/99999999999", f"{client}/{'9' * 20}")
    for text in ("", "/", "nothing", f"{client}/", f"{client}/x", *too_large, "zz/1", "\x00"):
        assert find_entity(model, text) is None, text


def test_a_whole_name_comes_before_the_beginning_of_an_id() -> None:
    function = FunctionStatus(b"\x01" * 16, "add", 0, 1, succeeded=1)
    one = Model(0.0)
    one.apply(replace(snapshot(), clients=(ClientStatus(b"\xad\xdd" * 8),), functions=(function,)), 0.0)
    assert find_entity(one, "addd") == EntityLink(links.CLIENT, ("addd" * 2,))
    assert find_entity(one, "add") == EntityLink(links.FUNCTION, ("add",))


def test_a_search_looks_at_few_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    many = Model(0.0)
    sessions = [
        records.name_record(records.Naming.SESSION, number, {"session": f"ab{number:06x}" + "00" * 12, "host": "h"})
        for number in range(100)
    ]
    many.apply(Events(1.0, 0, b"".join(sessions), 0, len(sessions), 1), 0.0)
    looked: list[EntityLink] = []
    monkeypatch.setattr(entity_search, "page_of", lambda model, link: looked.append(link))
    assert find_entity(many, "ab/1") is None
    assert len([link for link in looked if link.kind == links.TASK]) == entity_search.CLIENTS_LIMIT
