"""The actions that pages of single things offer, in every monitor."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scaler_protocol.messages import ControlAction
from scaler_protocol.monitor import links
from scaler_protocol.monitor.entities import page_of
from scaler_protocol.monitor.entity_actions import targets_of_page
from scaler_protocol.monitor.links import EntityLink
from scaler_protocol.monitor.messages import GraphStatus
from scaler_protocol.monitor.model import Model
from scaler_protocol.monitor.operation import Action, LookAction, Operation
from scaler_protocol.monitor.rows import short_id
from scaler_scheduler.top.lines import text_of
from scaler_scheduler.top.screen import draw
from scaler_scheduler.top.view import View
from scaler_scheduler.web.answers import answer
from tests.unit.monitor.test_nested_tasks import OUTER, model_of, submitted
from tests.unit.monitor.test_running import TASK, shown

CLIENT = "abababab"
RUNNING = EntityLink(links.TASK, (CLIENT, str(TASK.task)))


def running_model() -> Model:
    model = Model(0.0)
    model.apply(replace(shown(TASK), graphs=(GraphStatus(b"\xab" * 16, 9, nodes=3, waiting=3),)), 0.0)
    return model


def offered(model: Model, link: EntityLink) -> dict[Action, str]:
    return dict(targets_of_page(link, page_of(model, link)))


def test_a_task_that_runs_has_the_actions_of_its_row() -> None:
    found = offered(running_model(), RUNNING)
    assert found[ControlAction.CANCEL_TASK] == f"{CLIENT}/7"
    assert found[LookAction.STACK] == found[ControlAction.KILL_WORKER] == "w1"


def test_a_task_that_waits_can_be_cancelled() -> None:
    model = model_of(submitted(OUTER, 5, 1, 1))
    link = EntityLink(links.TASK, (short_id(model.activity.session_of(OUTER)), "5"))
    assert offered(model, link) == {ControlAction.CANCEL_TASK: "/".join(link.key)}


@pytest.mark.parametrize(
    ("link", "action", "target"),
    [
        (EntityLink(links.GRAPH, (CLIENT, "9")), ControlAction.CANCEL_GRAPH, f"{CLIENT}/9"),
        (EntityLink(links.WORKER, ("sd-1e7d-dfba", "w1")), ControlAction.KILL_WORKER, "w1"),
        (EntityLink(links.HOST, ("sd-1e7d-dfba",)), ControlAction.PAUSE, "sd-1e7d-dfba"),
    ],
)
def test_other_things_have_theirs(link: EntityLink, action: Action, target: str) -> None:
    assert offered(running_model(), link)[action] == target


def test_what_is_gone_has_none() -> None:
    assert targets_of_page(RUNNING, page_of(running_model(), EntityLink(links.TASK, (CLIENT, "99")))) == {}


def test_a_key_of_the_terminal_asks_for_the_action_of_the_page() -> None:
    view = View(page="tasks", details_of=RUNNING)
    screen = draw(running_model(), view, 160, 40, 0.0, "")
    assert any("x cancel task" in text_of(line) for line in screen.lines)
    question = view.pressed("x", screen.page_rows, screen.selected, screen.targets).question
    assert question is not None and question.operation == Operation(ControlAction.CANCEL_TASK, f"{CLIENT}/7")


def test_a_browser_gets_the_actions_of_graphs_and_pages() -> None:
    cancel = [int(ControlAction.CANCEL_GRAPH), "Cancel graph", f"{CLIENT}/9", ""]
    model = running_model()
    graphs = answer(model, {"what": "graphs"})
    assert [[*each] for each in graphs["graphs"][0]["actions"]] == [cancel]
    page = answer(model, {"what": "entity", "kind": "graph", "key": [CLIENT, "9"]})
    assert [[*each] for each in page["actions"]] == [cancel]
