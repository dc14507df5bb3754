"""The table of clients: those that are there, and those that have left."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scaler_protocol.messages import ControlAction
from scaler_protocol.monitor import feed
from scaler_protocol.monitor.document import document_of
from scaler_protocol.monitor.entities import page_of
from scaler_protocol.monitor.entity_actions import targets_of_page
from scaler_protocol.monitor.entity_search import find_entity
from scaler_protocol.monitor.format import format_value
from scaler_protocol.monitor.links import CLIENT, GROUP, EntityLink, cell_link, mentions_of_row, row_link
from scaler_protocol.monitor.messages import ClientStatus, EndedClientStatus, FunctionStatus, GroupStatus, Setting
from scaler_protocol.monitor.model import Model
from scaler_protocol.monitor.tables import CLIENTS, FUNCTIONS, Row, TableSpec
from scaler_scheduler.top.lines import text_of
from scaler_scheduler.top.screen import draw
from scaler_scheduler.top.view import View
from tests.support.monitoring import agent_status, snapshot

ENDED = (
    EndedClientStatus(b"\x12" * 16, "laptop", 99, "ann", 40, 2.5),
    EndedClientStatus(finished=7000, used_seconds=1e6, count=30),
)


def by_column(table: TableSpec, row: Row) -> dict[str, object]:
    return dict(zip((column.key for column in table.columns), row, strict=True))


def test_clients_that_have_left_are_listed_with_what_they_used() -> None:
    model = Model(0.0)
    model.apply(feed.decode(feed.encode(replace(snapshot(), ended_clients=ENDED))).message, 0.0)
    rows, total = model.rows("clients", filter_text="ended")
    assert total == 2
    one, earlier = sorted((by_column(CLIENTS, row) for row in rows), key=lambda row: str(row["session"]), reverse=True)
    assert (one["session"], one["host"], one["finished"], one["used"]) == ("12" * 4, "laptop", 40, 2.5)
    assert (earlier["host"], earlier["finished"], earlier["used"]) == ("30 clients", 7000, 1e6)
    pids = [format_value(CLIENTS.columns[0].kind, row["pid"]) for row in (one, earlier)]
    assert CLIENTS.columns[0].key == "pid" and pids == ["99", ""], "several clients have no process id"
    assert len(document_of(replace(snapshot(), ended_clients=ENDED))["ended_clients"]) == 2


def test_a_row_of_several_clients_leads_nowhere() -> None:
    model = Model(0.0)
    model.apply(replace(snapshot(), ended_clients=ENDED[1:]), 0.0)
    (row,) = (each for each in model.rows("clients")[0] if by_column(CLIENTS, each)["host"] == "30 clients")
    assert row_link("clients", row) is None and mentions_of_row("clients", row) == []


def test_clients_have_a_user_and_a_program_and_the_name_of_their_key_if_it_differs() -> None:
    clients = (
        ClientStatus(b"\1" * 16, user="ann", key_name="ann", program="train.py"),
        ClientStatus(b"\2" * 16, user="root\x1b[2J", key_name="bob"),
        ClientStatus(b"\3" * 16, key_name="carol"),
        ClientStatus(b"\4" * 16),
    )
    ended = (EndedClientStatus(b"\5" * 16, user="dan", program="notebook"),)
    model = Model(0.0)
    said = replace(snapshot(), clients=clients, ended_clients=ended)
    model.apply(feed.decode(feed.encode(said)).message, 0.0)
    found = [by_column(CLIENTS, row) for row in model.rows("clients")[0]]
    shown = {str(row["session"])[:2]: (row["user"], row["program"]) for row in found}
    assert shown["01"] == ("ann", "train.py") and shown["05"] == ("dan", "notebook")
    assert shown["02"][0].endswith("(key bob)") and "\x1b" not in shown["02"][0]
    assert shown["03"] == ("carol", "") and shown["04"] == ("", "")
    page = page_of(model, EntityLink(CLIENT, ("01" * 4,)))
    assert page is not None
    assert {("user", "ann"), ("program", "train.py")} <= {(fact.name, fact.text) for fact in page.facts}


SHARED = (
    ClientStatus(b"\1" * 16, unassigned=7, running=2, group="ci", weight=4.0, share=0.5, asked_weight=0.1),
    ClientStatus(b"\2" * 16, unassigned=1, group="ci", weight=0.1, share=0.25, asked_weight=0.1),
    ClientStatus(b"\3" * 16, group="ci", weight=4.0, share=0.5, parent_session=b"\1" * 16),
    ClientStatus(b"\4" * 16, group="default", weight=2.0),
)
GROUPS = (GroupStatus("ci", 2.5, 8), GroupStatus("default"))


@pytest.fixture
def shared() -> Model:
    model = Model(0.0)
    ended = (replace(ENDED[0], group="gone"),)
    said = replace(snapshot(), clients=SHARED, groups=GROUPS, ended_clients=ended)
    model.apply(feed.decode(feed.encode(said)).message, 0.0)
    return model


def facts_of(model: Model, link: EntityLink) -> dict[str, str]:
    page = page_of(model, link)
    assert page is not None
    return {fact.name: fact.text for fact in page.facts}


def test_clients_show_the_weights_and_limits_that_operators_have_set(shared: Model) -> None:
    found = [by_column(CLIENTS, row) for row in shared.rows("clients")[0]]
    shown = {str(row["session"])[:2]: (row["weight"], row["group_weight"], row["group_limit"]) for row in found}
    assert shown == {
        "01": ("4 (asked 0.1)", "2.5", "8"), "02": ("0.1", "2.5", "8"), "03": ("4", "2.5", "8"),
        "04": ("2", "", ""), "12": ("", "", ""),
    }  # fmt: skip
    facts = facts_of(shared, EntityLink(CLIENT, ("01" * 4,)))
    assert facts["weight"] == "4, set by an operator; it has asked for 0.1"
    assert (facts["weight of the group"], facts["limit of the group"]) == ("2.5", "at most 8 workers")
    assert facts_of(shared, EntityLink(CLIENT, ("04" * 4,)))["limit of the group"] == "any number of workers"


def test_a_group_has_a_page_with_its_clients_and_actions(shared: Model) -> None:
    link = EntityLink(GROUP, ("ci",))
    page = page_of(shared, link)
    assert page is not None and [len(section.rows) for section in page.sections] == [3]
    assert facts_of(shared, link) == {
        "waiting": "8", "on hosts": "2", "weight": "2.5", "limit": "at most 8 workers", "progress": "0%",
        "share of running time": "75%",
    }  # fmt: skip
    wanted = dict.fromkeys((ControlAction.SET_GROUP_WEIGHT, ControlAction.SET_GROUP_LIMIT), "ci")
    assert targets_of_page(link, page) == wanted
    (row, *_) = shared.rows("clients")[0]
    assert link in mentions_of_row("clients", row) and find_entity(shared, "ci") == link
    (row,) = shared.rows_where("progress", {"kind": "group"})
    assert row_link("progress", row) == link


def test_a_group_whose_clients_have_left_has_no_actions(shared: Model) -> None:
    link = EntityLink(GROUP, ("gone",))
    assert facts_of(shared, link) == {"state": "ended"}
    assert targets_of_page(link, page_of(shared, link)) == {}
    assert page_of(shared, EntityLink(GROUP, ("",))) is page_of(shared, EntityLink(GROUP, ("nothing",))) is None


def test_the_number_of_a_failure_is_no_group_of_clients() -> None:
    row = (1, "exception", "ValueError", "", "", "", "", 0.0, 0.0, 7)
    assert cell_link("failures", "group", row) is None


def test_a_setting_without_a_value_says_so() -> None:
    model = Model(0.0)
    settings = (Setting("group_weights", ""), Setting("protected", "True"))
    model.apply(replace(snapshot(), settings=settings), 0.0)
    assert model.rows("settings")[0] == [("group_weights", "(none)"), ("protected", "True")]


def test_functions_have_a_distribution_and_processor_time() -> None:
    function = FunctionStatus(b"\1", "f", 0, 5, 4, 1, 0, 12.0, 3.0, 6, 1.0, 4.0, 5.0, (1, 5))
    model = Model(0.0)
    model.apply(feed.decode(feed.encode(replace(snapshot(), functions=(function,)))).message, 0.0)
    assert model.snapshot is not None and model.snapshot.functions == (function,)
    ((row,), _) = model.rows("functions")
    values = by_column(FUNCTIONS, row)
    assert (values["mean"], values["median"], values["p95"], values["longest"]) == (2.0, 1.0, 4.0, 5.0)
    assert (values["total"], values["cpu_time"]) == (12.0, 3.0)


@pytest.mark.parametrize("width", range(76, 200))
def test_a_weight_that_an_operator_has_set_is_not_cut_in_a_terminal(width: int) -> None:
    client = ClientStatus(b"\1" * 16, "vm-3.example.org", 4242, True, 120, 3, 5000, used_seconds=3600, share=0.5)
    named = replace(client, group="default", user="alice", program="night_batch.py", asked_weight=1.0)
    clients = (replace(named, weight=3.0), replace(named, session=b"\2" * 16, weight=0.25))
    model = Model(0.0)
    model.apply(replace(snapshot((agent_status(),)), clients=clients), 0.0)
    shown = [text_of(line) for line in draw(model, View(page="clients"), width, 12, 0.0, "address").lines]
    for text in ("3 (asked 1)", "0.25 (asked 1)"):
        assert any(f" {text} " in line for line in shown)
