from __future__ import annotations

import pytest

from scaler_protocol.monitor.format import (
    clip,
    display_width,
    format_bytes,
    format_bytes_short,
    format_count,
    format_duration,
    format_end,
    format_flags,
    format_latency,
    format_left,
    format_moment,
    format_percent,
    format_share,
    left,
    right,
)


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1_000, "1.0 KiB"),
        (38_902_170, "37.1 MiB"),
        (136_419_737, "130.1 MiB"),
        (1024**3 - 1, "1.0 GiB"),
        (5 * 1024**3, "5.0 GiB"),
        (2000 * 1024**5, "2000.0 PiB"),
        (-1, "0 B"),
    ],
)
def test_bytes(size_bytes: int, text: str) -> None:
    assert format_bytes(size_bytes) == text


def test_bytes_of_any_size_fit_the_column() -> None:
    assert max(len(format_bytes(1024**5 * 3 >> shift)) for shift in range(52)) == len("130.1 MiB")
    assert max(len(format_bytes_short(1024**5 * 3 >> shift)) for shift in range(52)) == len("130.1m")


def test_bytes_where_room_is_short() -> None:
    texts = [format_bytes_short(size) for size in (0, 999, 1_000, 38_902_170, 5 * 1024**3, -1)]
    assert texts == ["0b", "999b", "1.0k", "37.1m", "5.0g", "0b"]


def test_an_end_has_its_date_unless_that_is_today() -> None:
    now = 1_700_000_000.0
    assert format_end(now + 1, now) == format_moment(now + 1)[11:]
    assert format_end(now + 3 * 86_400, now) == format_moment(now + 3 * 86_400)[:16]
    assert format_end(0.0, now) == format_moment(-1.0) == format_moment(1e300) == ""


def test_counts_have_thousands_separators() -> None:
    assert [format_count(count) for count in (0, 999, 200_000, 10_000_000)] == ["0", "999", "200,000", "10,000,000"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0.0ms"),
        (0.0007, "0.7ms"),
        (0.0123, "12.3ms"),
        (0.09996, "100ms"),
        (0.123, "123ms"),
        (0.9996, "1.0s"),
        (1.25, "1.2s"),
        (9.96, "10s"),
        (75.4, "75s"),
        (-0.001, "0.0ms"),
    ],
)
def test_latency(seconds: float, text: str) -> None:
    assert format_latency(seconds) == text


def test_percent_and_flags() -> None:
    assert format_percent(0.5) == "0.5%"
    assert format_percent(100) == "100.0%"
    assert format_flags(True, False, True) == "101"


def test_only_the_whole_is_a_hundred_percent() -> None:
    shares = (0.0, 0.004, 0.42, 0.994, 0.9999, 1.0)
    assert [format_share(share) for share in shares] == ["0%", "0%", "42%", "99%", "99%", "100%"]


def test_durations() -> None:
    assert [format_duration(seconds) for seconds in (12.4, 89, 180, 7200)] == ["12 s", "89 s", "3 min", "2 h"]
    assert [format_left(seconds) for seconds in (0.001, 0.9, 12.4)] == ["1 s", "1 s", "12 s"]


def test_clip_says_that_something_is_missing() -> None:
    assert clip("d26f9a", 4) == "d26+"
    assert clip("d26f", 4) == "d26f"
    assert clip("d26f", 0) == ""


def test_wide_characters_take_two_columns() -> None:
    assert display_width("数a") == 3
    assert right("数据", 3) == "数+"
    assert left("数据", 5) == "数据 "


def test_names_cannot_move_the_cursor() -> None:
    assert clip("a\x1b[2Jb\n", 20) == "a?[2Jb?"


@pytest.mark.parametrize(
    ("text", "width"),
    [
        ("e\u0301\u0323", 1),
        ("z\u0489", 1),
        ("\u2764\ufe0f\u20e3", 1),
        ("\u0e19\u0e34", 1),
        ("\u1112\u1161\u11ab", 2),
    ],
    ids=["accents", "enclosing", "variation", "thai", "jamo"],
)
def test_marks_take_no_column_as_in_terminals(text: str, width: int) -> None:
    assert display_width(text) == width
    assert clip(text * 20, 12).count(text[0]) == 11 // width
