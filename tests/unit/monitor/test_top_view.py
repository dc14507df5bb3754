from __future__ import annotations

from scaler_protocol.monitor.workers import Order, SortKey
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


def test_unknown_keys_change_nothing() -> None:
    assert pressed(View(), "x", "", "Z", "\t") == View()
