from __future__ import annotations

import pytest

from scaler_protocol.messages import ControlAction
from scaler_protocol.monitor.operation import LookAction, Operation, OperationOutcome
from scaler_protocol.monitor.workers import Order, SortKey
from scaler_scheduler.top.help import ACTION_KEYS, KEYS, TABLE_KEYS, help_lines
from scaler_scheduler.top.question import Question
from scaler_scheduler.top.view import SORT_KEYS, View


def pressed(view: View, *keys: str) -> View:
    for key in keys:
        view = view.pressed(key, 10)
    return view


def test_the_keys_of_the_columns() -> None:
    assert "".join(SORT_KEYS) == "nCMcmfwdl"
    assert list(SORT_KEYS.values()) == list(SortKey)


def test_sorting_starts_at_the_first_worker_and_turns() -> None:
    view = pressed(View(first_row=5), "m", "m")
    assert (view.order, view.first_row) == (Order(SortKey.RSS, reversed=True), 0)


def test_quit_and_help() -> None:
    assert pressed(View(), "q").quit
    helped = pressed(View(), "?")
    assert helped.help_shown
    assert not pressed(helped, "x").help_shown
    assert pressed(helped, "q").quit


def test_a_filter_takes_every_character_until_enter() -> None:
    view = pressed(View(), "/", "q", "?", "n", "backspace", "up", "enter")
    assert (view.filter_text, view.editing_filter, view.quit, view.order) == ("q?", False, False, Order())


def test_escape_drops_a_filter_while_typing_and_later() -> None:
    assert pressed(View(), "/", "a", "escape") == View()
    assert pressed(View(), "/", "a", "enter", "escape") == View()


def test_scrolling_stays_within_the_rows() -> None:
    assert pressed(View(), "up").first_row == 0
    assert pressed(View(), "down", "j", "page down").first_row == 12
    assert pressed(View(first_row=12), "page up", "k").first_row == 1
    assert pressed(View(), "end").limited(88).first_row == 88
    assert pressed(View(), "end").limited(88).pressed("up", 10).first_row == 87
    assert pressed(View(first_row=50), "home").first_row == 0


def test_a_stream_that_was_moved_stands_still_until_it_reaches_now() -> None:
    view = pressed(View(page="stream"), "[").standing_still(100.0)
    assert (view.stream_stop(100.0), view.stream_stop(160.0)) == (95.0, 95.0)
    later = pressed(view, "]").standing_still(160.0)
    assert later.stream_stop(160.0) == 100.0
    assert pressed(view, "]").standing_still(100.0).stream_stop(160.0) == 160.0
    assert pressed(view, "escape").stream_stop(160.0) == 160.0


def test_unknown_keys_change_nothing() -> None:
    assert pressed(View(), "x", "", "Z", "\t") == View()


def test_an_action_on_the_chosen_row_is_confirmed_first() -> None:
    view = View(page="functions").pressed("x", 10, None, {ControlAction.CANCEL_FUNCTION: "price"})
    assert view.question == Question(Operation(ControlAction.CANCEL_FUNCTION, "price"))
    assert view.question.text == "Cancel all tasks of function price? Running ones are interrupted. (y/n)"
    confirmed = view.pressed("y", 10).question
    assert confirmed is not None and confirmed.is_confirmed
    for key in ("n", "enter", "escape", "q"):
        assert view.pressed(key, 10) == View(page="functions")


def test_the_target_of_an_action_on_workers_is_typed() -> None:
    asked = pressed(View(), "D", *"vmq", "backspace", "-", "3")
    assert asked.question is not None and asked.question.text == "drain (host, agent or worker): vm-3_"
    asked = pressed(asked, "enter")
    assert asked.question == Question(Operation(ControlAction.DRAIN, "vm-3"))
    assert pressed(View(), "p", "enter") == View()
    assert pressed(View(), "p", "a", "escape") == View()


def test_a_host_under_the_cursor_is_not_typed() -> None:
    view = View(page="objects").pressed("u", 10, None, {ControlAction.RESUME: "vm"})
    assert view.question == Question(Operation(ControlAction.RESUME, "vm"))


@pytest.mark.parametrize(("page", "key"), [("functions", "p"), ("settings", "x"), ("workers", "x"), ("graphs", "D")])
def test_other_pages_have_no_actions(page: str, key: str) -> None:
    assert View(page=page).pressed(key, 10, None, {}).question is None


def test_an_action_without_a_row_is_not_asked_for() -> None:
    assert View(page="clients").pressed("x", 10).question is None


def test_an_outcome_stays_until_the_next_key() -> None:
    view = View(outcome=OperationOutcome(True, "Paused: vm."))
    assert pressed(view, "2") == View(page="functions")


def test_a_number_that_an_action_needs_is_typed() -> None:
    targets = {ControlAction.CANCEL_CLIENT: "abcd", ControlAction.SET_CLIENT_WEIGHT: "abcd"}
    asked = View(page="clients").pressed("W", 10, None, targets)
    assert asked.question is not None and asked.is_typing
    asked = pressed(asked, *"2.5x")
    assert asked.question is not None and asked.question.text == "weight (1 = usual): 2.5x_"
    refused = pressed(asked, "enter")
    assert refused.question is not None and refused.question.text.endswith(": 2.5x_  (not a number)")
    assert pressed(refused, "backspace", "x") == asked
    asked = pressed(asked, "backspace", "enter")
    assert asked.question == Question(Operation(ControlAction.SET_CLIENT_WEIGHT, "abcd", 2.5), typed="2.5")
    assert asked.question.text == "Give client abcd the weight 2.5 within its group? (y/n)"
    assert pressed(View(page="clients").pressed("W", 10, None, targets), "enter").question is None


def test_a_running_task_is_cancelled_or_its_whole_function_or_its_process_is_killed() -> None:
    targets = {
        ControlAction.CANCEL_TASK: "abcd/7",
        ControlAction.CANCEL_FUNCTION: "price",
        ControlAction.KILL_WORKER: "vm-0",
        ControlAction.RESTART_WORKER: "vm-0",
    }
    view = View(page="running")
    keys = {"x": (5, "abcd/7"), "X": (4, "price"), "K": (7, "vm-0"), "R": (8, "vm-0")}
    for key, (action, target) in keys.items():
        assert view.pressed(key, 10, None, targets).question == Question(Operation(ControlAction(action), target))


def test_a_stack_needs_no_confirmation_and_fills_the_screen() -> None:
    question = View(page="running").pressed("b", 10, None, {LookAction.STACK: "vm-0"}).question
    assert question == Question(Operation(LookAction.STACK, "vm-0"), is_confirmed=True)
    typed = pressed(View(page="workers"), "b", *"vm-0", "enter").question
    assert typed is not None and typed.is_confirmed and typed.operation.target == "vm-0"
    shown = View(page="running", outcome=OperationOutcome(True, "Stack of vm-0", "a\nb"))
    assert pressed(shown, "down").first_line == 1
    assert pressed(shown, "escape") == View(page="running")


@pytest.mark.parametrize("replaying", [False, True])
def test_the_help_fits_a_small_terminal(replaying: bool) -> None:
    lines = ["".join(span.text for span in line) for line in help_lines(replaying, 80)]
    assert len(lines) <= 24 and max(map(len, lines)) <= 80
    assert not [line for line in lines if "+" in line and "zoom" not in line]  # no key is cut off


@pytest.mark.parametrize("width", [79, 40, 20])
def test_the_help_is_complete_on_a_narrow_terminal(width: int) -> None:
    lines = ["".join(span.text for span in line) for line in help_lines(False, width)]
    assert max(map(len, lines)) <= width
    words = {*" ".join(lines).split()}
    assert not [text for _, text in (*KEYS, *ACTION_KEYS, *TABLE_KEYS) if {*text.split()} - words]


def test_links_lead_from_page_to_page_and_back() -> None:
    opened = View(page="tasks").pressed("enter", 10, "task")
    chosen = pressed(opened, "tab", "tab", "backtab")
    assert (opened.details_of, opened.link, chosen.link) == ("task", None, 0)
    assert pressed(opened, "backtab").link == -1
    further = chosen.pressed("enter", 10, "worker").pressed("enter", 10, "host")
    assert (further.details_of, further.trail, further.link) == ("host", ("task", "worker"), None)
    back = pressed(further, "escape")
    assert (back.details_of, back.trail) == ("worker", ("task",))
    assert pressed(further, "escape", "escape", "escape") == View(page="tasks")
    assert pressed(further, "2") == View(page="functions")


def test_a_page_is_opened_by_a_name_that_is_typed() -> None:
    typed = pressed(View(), ":", *"qx", "backspace", *"uick")
    assert (typed.typed_name, typed.is_typing, typed.quit) == ("quick", True, False)
    assert pressed(typed, "enter") == View(sought_name="quick")
    assert pressed(typed, "escape") == View()
    shown = View().showing("worker")
    assert (shown.page, shown.details_of, shown.is_text) == ("workers", "worker", True)
    assert pressed(shown, ":").details_of == "worker" and pressed(shown, "x") == View()
