"""Lines that are wider than their screen."""

from __future__ import annotations

import pytest

from scaler_scheduler.top.lines import Line, Span, Style, cut, ending, text_of


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ((Span("1,440 to do"),), "1,440 +"),
        ((Span("Tasks ", Style.TITLE), Span("1,440")), "Tasks +"),
        ((Span("Tasks  ", Style.TITLE), Span("1,440")), "Tasks +"),
        ((Span("Tasks 1"),), "Tasks 1"),
        ((Span("Tasks "), Span("1   ")), "Tasks 1"),
        ((Span("测试测试"),), "测试测+"),
        ((Span("\x1b[2Jsurprise"),), "?[2Jsu+"),
        ((), ""),
    ],
)
def test_a_cut_that_hides_something_has_a_mark(line: Line, shown: str) -> None:
    assert text_of(cut(line, 7)) == shown


def test_nothing_fits_without_columns() -> None:
    assert cut((Span("1,440"),), 0) == ()


@pytest.mark.parametrize(
    ("typed", "shown"), [("1_", "to: 1_"), ("1234_", "+ 1234_"), ("测试_", "+ 测试_"), ("x" * 99 + "y_", "+xxxxy_")]
)
def test_the_end_of_what_is_typed_stays_in_sight(typed: str, shown: str) -> None:
    line = ending((Span("to: ", Style.TITLE), Span(typed)), 7)
    assert text_of(line) == shown
