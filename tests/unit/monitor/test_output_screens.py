"""The output of tasks in ``scaler_top`` and in answers of ``scaler_ui``."""

from __future__ import annotations

from typing import Any

import pytest

from scaler_protocol.messages import ControlAction
from scaler_protocol.monitor.format import display_width
from scaler_protocol.monitor.links import EntityLink
from scaler_protocol.monitor.model import Model
from scaler_protocol.monitor.output_log import STDERR
from scaler_scheduler.top.entities import entity_lines
from scaler_scheduler.top.lines import Style, text_of
from scaler_scheduler.top.screen import Screen, draw
from scaler_scheduler.top.view import View
from scaler_scheduler.web.answers import answer
from tests.support.monitor_stream import synthetic_messages
from tests.support.monitoring import snapshot

ADDRESS = "ipc:///tmp/127.0.0.1_2345_monitor"
SESSION = b"s" * 16


@pytest.fixture
def model() -> Model:
    made = Model(0.0)
    made.apply(snapshot(), 100.0)
    for number in range(100):
        made.activity.output.add(1e9 + number, SESSION, 7, 1, "price", "vm-0", 1, 0, b"step %d\n" % number)
    made.activity.output.add(2e9, b"", 0, 0, "", "vm-1", STDERR, 2048, b"\x1b[31mlate " + b"long " * 40)
    return made


def shown(model: Model, *keys: str, width: int = 80, height: int = 24) -> Screen:
    view, screen = View(page="output"), Screen([], 10, 0)
    for key in keys:
        screen = draw(model, view, width, height, 100.0, ADDRESS)
        view = view.pressed(key, screen.page_rows, screen.selected, screen.targets)
        view = view.limited(screen.last_first_row, screen.rows)
    return draw(model, view, width, height, 100.0, ADDRESS)


def lines(screen: Screen) -> list[str]:
    return [text_of(line).rstrip() for line in screen.lines]


def test_the_newest_lines_stand_at_the_bottom_with_their_tasks(model: Model) -> None:
    screen = shown(model)
    assert "102 lines, follows the newest" in lines(screen)
    assert lines(screen)[-1].endswith("long long") and "vm-1 [outside of tasks]" in lines(screen)[-4]
    assert any(line.endswith("vm-0 [price 7] step 99") for line in lines(screen))
    assert screen.lines[-1][-1].style is Style.WARNING
    assert "2.0 KiB of output are left out" in "".join(lines(screen))


def test_scrolling_back_and_filtering(model: Model) -> None:
    screen = shown(model, "page up", "page up", "up")
    assert any("newer below" in line for line in lines(screen))
    assert any(line.endswith("step 0") for line in lines(shown(model, "home")))
    screen = shown(model, "/", *"step 5")
    assert "11 lines of 102, follows the newest" in lines(screen) and lines(screen)[-1].endswith("step 59")
    assert "nothing contains 'nowhere'" in lines(shown(model, "/", *"nowhere"))


@pytest.mark.parametrize(("width", "height"), [(1, 1), (20, 5), (80, 24), (200, 50)])
def test_it_fits_the_terminal(model: Model, width: int, height: int) -> None:
    for keys in ((), ("home",), ("page up",)):
        screen = shown(model, *keys, width=width, height=height)
        assert len(screen.lines) <= height
        assert all(display_width(text_of(line)) <= width for line in screen.lines)


def test_pages_of_functions_lead_to_the_output_of_the_chosen_one() -> None:
    view = View(page="functions").pressed("o", 10, ("price", ""), {ControlAction.CANCEL_FUNCTION: "price"})
    assert (view.page, view.filter_text) == ("output", "price")
    assert View(page="workers").pressed("o", 10).filter_text == ""


@pytest.mark.parametrize("width", [20, 80, 200])
def test_the_page_of_a_task_ends_with_its_output(width: int) -> None:
    made = Model(0.0)
    for message in synthetic_messages(3, 6, 100):
        made.apply(message, 100.0)
    row = made.rows("tasks")[0][0]
    [session] = {each.session for each in made.activity.sessions.values() if each.session.hex()[:8] == row[2]}
    made.activity.output.add(1e9, session, row[1] + 1, 1, "other", "w", 1, 0, b"of another task\n")
    for number in range(150):
        made.activity.output.add(1e9, session, row[1], 1, "f", row[7], 1, 0, b"step %d\n" % number)
    page = entity_lines(made, EntityLink("task", (row[2], str(row[1]))), width)
    texts = [text_of(line) for line in page]
    assert "Output  the newest 100 of 150" in [text.rstrip() for text in texts]
    assert texts[-1].endswith(" step 149") and texts[-100].endswith(" step 50")
    assert all(display_width(text) <= max(width, 29) for text in texts[-100:])
    worker = entity_lines(made, EntityLink("worker", (row[6], row[7])), width)
    assert text_of(worker[-1]).endswith(" step 149") and row[7][:6] in text_of(worker[-1])


def asked(model: Model, **query: Any) -> dict[str, Any]:
    return answer(model, {"what": "output", "filter": "", "offset": 0, "limit": 1000, **query})


def test_a_page_gets_lines_as_they_are_shown(model: Model) -> None:
    result = asked(model, limit=2)
    assert (result["total"], len(result["lines"])) == (102, 2)
    number, _, prefix, client, is_error, text = result["lines"][-1]
    assert (number, prefix, client, is_error) == (101, "vm-1 [outside of tasks]", "", True)
    assert text.startswith("late long")
    assert asked(model, worker="vm-0")["total"] == 100
    assert asked(model, filter="step 5")["total"] == 11
    assert asked(model, client="00000000", task=7)["total"] == 0
