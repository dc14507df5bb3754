"""Pages of ``scaler_top`` beside its first one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from scaler_protocol.messages import Status
from scaler_protocol.monitor.alerts import Alert
from scaler_protocol.monitor.entities import page_of
from scaler_protocol.monitor.failures import Failure
from scaler_protocol.monitor.format import display_width
from scaler_protocol.monitor.links import EntityLink
from scaler_protocol.monitor.messages import Snapshot, TaskCounts, WaitGroup
from scaler_protocol.monitor.model import Model
from scaler_protocol.monitor.tables import FUNCTIONS
from scaler_scheduler.top.lines import FunctionColour, Style, text_of, wrapped
from scaler_scheduler.top.pages import TITLES
from scaler_scheduler.top.screen import Screen, draw
from scaler_scheduler.top.view import PAGES, TableView, View
from tests.support.monitor_stream import START_TIME, synthetic_messages
from tests.support.monitoring import snapshot

SIZES = [(1, 1), (5, 3), (20, 5), (40, 10), (80, 24), (97, 30), (120, 40), (250, 60)]
ADDRESS = "ipc:///tmp/127.0.0.1_2345_monitor"


@pytest.fixture(scope="module")
def model() -> Model:
    made = Model(0.0)
    for message in synthetic_messages(5, 24, 300):
        made.apply(message, 100.0)
    return made


def drawn(
    model: Model, *keys: str, width: int = 80, height: int = 24, now: float = 100.0, blocks: bool = True
) -> Screen:
    *_, last = drawn_after_each(model, *keys, width=width, height=height, now=now, blocks=blocks)
    return last


def drawn_after_each(
    model: Model, *keys: str, width: int = 80, height: int = 24, now: float = 100.0, blocks: bool = True
) -> Iterator[Screen]:
    """The screen at first, and after each key."""
    view = View()
    for key in keys:
        screen = draw(model, view, width, height, now, ADDRESS, blocks)
        yield screen
        view = view.pressed(key, screen.page_rows, screen.selected).limited(1 << 20)
    yield draw(model, view, width, height, now, ADDRESS, blocks)


def lines(screen: Screen) -> list[str]:
    return [text_of(line).rstrip() for line in screen.lines]


@pytest.mark.parametrize("key", list(PAGES))
@pytest.mark.parametrize(("width", "height"), SIZES)
def test_no_page_is_larger_than_the_terminal(model: Model, key: str, width: int, height: int) -> None:
    empty = Model(0.0)
    empty.apply(snapshot(), 100.0)
    for shown in (model, empty):
        for keys in ([key], [key, "enter"], [key, "down", "s", "/", "x"]):
            for now in (100.0, 200.0):
                screen = drawn(shown, *keys, width=width, height=height, now=now)
                assert len(screen.lines) <= height
                assert all(display_width(text_of(line)) <= width for line in screen.lines)


def test_the_page_names_stand_at_the_top(model: Model) -> None:
    assert lines(drawn(model, "2"))[0] == "1 all t run 2 functions 3 wait 4 fail 5 obj v val 6 7 8 9 0 a g i H o e y A"
    titles = (
        "1 overview  t running  2 functions  3 waiting  4 failures  5 objects  v values  6 graphs  7 stream  8 tasks  "
        "9 clients  0 settings  a alerts  g progress  i workers  H hosts  o output  e traffic  y logs  A actors"
    )
    assert lines(drawn(model, "2", width=220))[0] == titles
    assert lines(drawn(model, "2", width=200))[0] == titles.replace("  ", " ")


def test_totals_stand_under_them(model: Model) -> None:
    text = lines(drawn(model, "2", width=120))[1]
    assert model.snapshot is not None
    assert f"succeeded {model.snapshot.tasks.success:,}" in text
    assert text.startswith("300/s")
    assert text.endswith("scheduler 12.5% 130.0m")


def test_the_last_total_is_on_a_narrow_screen(model: Model) -> None:
    assert model.snapshot is not None
    tasks = TaskCounts(unassigned=2_460, running=24, success=1_951_771, failed=806, canceled=2_856, not_found=0)
    model.apply(replace(model.snapshot, tasks=tasks), 100.0)
    assert lines(drawn(model, "2"))[1].endswith("cancelled 2,856")


def test_functions(model: Model) -> None:
    text = lines(drawn(model, "2"))
    assert text[3] == "6 functions"
    assert text[4].split()[:4] == ["function", "unfinished", "succeeded", "failed"] and "[total]" in text[4]
    assert text[5].split()[:2] == ["simulate", "1,880"]


def test_waiting_tasks_say_why(model: Model) -> None:
    text = "\n".join(lines(drawn(model, "3")))
    assert "no worker has the capability gpu" in text
    assert "33 s" in text


LONG_REASON = (
    "No worker has all of the capabilities gpu=2, linux, licence_of_the_simulator=1 that it asks for; the nearest is "
    "agent-7 on node-7, which lacks licence_of_the_simulator. Start one with --per-worker-capabilities."
)


def waiting_model() -> Model:
    waits = [WaitGroup(bytes([each]) * 16, f"f{each}", f"Reason {each}.", 50 - each, 3.0, b"", 0) for each in range(30)]
    waits.insert(2, WaitGroup(b"\xee" * 16, "simulate", LONG_REASON, 49, 33.0, b"\xab" * 16, 7))
    made = Model(0.0)
    made.apply(replace(snapshot(), waits=tuple(waits), wait_count=len(waits)), 100.0)
    return made


@pytest.mark.parametrize(("width", "height"), [(80, 24), (250, 60), (40, 30)])
def test_the_whole_reason_of_the_chosen_row_stands_below_those_that_wait(width: int, height: int) -> None:
    model = waiting_model()
    screen = drawn(model, "3", "down", "down", width=width, height=height)
    (row,) = (number for number, line in enumerate(screen.lines) if Style.CHOSEN in {span.style for span in line[2:3]})
    assert lines(screen)[row].startswith("simulate")
    text = " ".join(lines(screen)[row + 1 :])
    assert LONG_REASON in text
    assert "49 tasks of simulate, the first for 33 s: task 7 of client" in text
    assert lines(drawn(model, "3", "end", width=width, height=height))[-1] == "Reason 29."


def test_a_reason_fills_the_screen_until_nothing_waits_for_it() -> None:
    model = waiting_model()
    for height in (5, 10, 24):
        text = lines(drawn(model, "3", "down", "down", "enter", height=height, width=100))
        assert text[3] == "49 tasks of simulate, the first for 33 s: task 7 of client abababab"
        assert text[2] == "arrows scroll, Tab chooses a link, Enter opens it, Esc goes back"
    view = View(page="waits", details_of=("simulate", LONG_REASON))
    model.apply(snapshot(), 101.0)
    gone = draw(model, view, 80, 24, 101.0, ADDRESS)
    assert lines(gone)[2] == "arrows scroll, Esc goes back"
    assert lines(gone)[3] == "no task waits for this reason any more"


def test_failed_tasks_are_counted_once_however_often_they_died() -> None:
    made = Model(0.0)
    for attempt in (1, 2, 3):
        made.activity.failures.add(
            Failure(1.0, 7, b"", "f", "h", "w", attempt, Status.PROCESSOR_DIED, "ProcessorDiedError", "SIGKILL", "")
        )
    made.apply(replace(snapshot(), tasks=TaskCounts(0, 0, 5, 1, 0, 0)), 100.0)
    text = "\n".join(lines(drawn(made, "4", width=120)))
    assert "1 cause of 3 failed executions, 1 task failed" in text


def test_failures_and_their_details(model: Model) -> None:
    screen = drawn(model, "4")
    assert "causes of" in lines(screen)[3]
    first = screen.lines[5]
    assert {span.style for span in first} == {Style.CHOSEN}
    assert screen.selected is not None
    text = "\n".join(lines(drawn(model, "4", "enter", height=60)))
    assert model.failure_details(screen.selected).splitlines()[0] in text


def test_the_cursor_chooses_what_the_details_are_of(model: Model) -> None:
    groups = [row[-1] for row in model.rows("failures")[0]]
    for downs, group in enumerate(groups):
        assert drawn(model, "4", *["down"] * downs).selected == group
    assert drawn(model, "4", *["down"] * 99).selected == groups[-1]
    details = drawn(model, "4", "down", "enter")
    assert lines(details)[2] == "arrows scroll, Tab chooses a link, Enter opens it, Esc goes back"
    assert lines(details)[3] == model.failure_details(groups[1]).splitlines()[0]
    back = drawn(model, "4", "down", "enter", "escape")
    assert "causes of" in lines(back)[3]


def test_long_lines_of_details_go_on_in_the_next() -> None:
    made = Model(0.0)
    made.apply(snapshot(), 100.0)
    message = " ".join(f"word{number}" for number in range(60))
    made.activity.failures.add(Failure(1.0, 7, b"", "f", "h", "w", 1, Status.EXCEPTION, "ValueError", message, message))
    assert message in " ".join(lines(drawn(made, "4", "enter", height=40)))
    assert message in " ".join(lines(drawn(made, "4", height=40)))


@pytest.mark.parametrize(
    ("text", "width", "expected"),
    [
        ("", 5, [""]),
        ("one two three", 7, ["one two", "three"]),
        ("one two", 0, ["one two"]),
        ("    indented by four", 12, ["    indented", "by four"]),
        ("x" * 25, 10, ["x" * 10, "x" * 10, "x" * 5]),
        ("日本語", 4, ["日本", "語"]),
        ("日本", 1, ["日", "本"]),
        ("a\x1b[31mb", 80, ["a?[31mb"]),
    ],
)
def test_texts_go_on_in_the_next_line(text: str, width: int, expected: list[str]) -> None:
    assert wrapped(text, width) == expected


def test_details_scroll(model: Model) -> None:
    first = lines(drawn(model, "4", "enter", height=10))
    assert lines(drawn(model, "4", "enter", "down", height=10))[3] == first[4]
    assert model.failure_details(drawn(model, "4").selected or 0).splitlines()[-1] in lines(
        drawn(model, "4", "enter", "end", height=30)
    )


def test_objects_by_host(model: Model) -> None:
    text = lines(drawn(model, "5"))
    assert text[4].split()[:3] == ["host", "objects", "[used]"]
    assert text[5].split()[:3] == ["node-2", "122", "300.0"]


def test_sorting_a_table(model: Model) -> None:
    assert "[cpu time]" in lines(drawn(model, "2", "s"))[4]
    assert "[longest]" in lines(drawn(model, "2", "S"))[4]
    back_to_names = ["S"] * FUNCTIONS.index("total")
    assert "[function]" in lines(drawn(model, "2", *back_to_names))[4]
    assert lines(drawn(model, "2", *back_to_names))[5].startswith("collect")
    assert lines(drawn(model, "2", *back_to_names, "r"))[5].startswith("simulate")


def test_a_filter_belongs_to_its_page(model: Model) -> None:
    text = lines(drawn(model, "8", "/", "c", "a", "n", "c", "enter"))
    assert all("cancelled" in line for line in text[5:])
    assert "filter: canc" in text[2]
    assert "filter" not in "\n".join(lines(drawn(model, "8", "/", "c", "enter", "2")))
    assert "nothing contains 'xx'" in lines(drawn(model, "2", "/", "x", "x"))[5]


def test_the_log_pages_over_all_tasks(model: Model) -> None:
    total = model.rows("tasks", limit=0)[1]
    assert f"{total:,} executions of {total:,} tasks" in lines(drawn(model, "8"))[3]
    screen = drawn(model, "8", "end")
    assert screen.last_first_row == total - screen.page_rows
    oldest = model.rows("tasks", descending=False, limit=1)[0][0]
    assert lines(screen)[-1].split()[1] == str(oldest[1])


def test_the_stream_has_a_row_per_worker_and_a_colour_per_function(model: Model) -> None:
    screen = drawn(model, "7", "-", width=120, height=40)
    rows = [line for line in screen.lines if text_of(line).startswith("node-")]
    assert len(rows) == 24
    colours = {span.style for line in rows for span in line if isinstance(span.style, FunctionColour)}
    assert len(colours) >= 3
    assert "simulate" in lines(screen)[-1]
    assert "22:13" in lines(screen)[-2] or ":" in lines(screen)[-2]


def test_the_stream_on_a_terminal_without_colours_has_letters(model: Model) -> None:
    text = lines(drawn(model, "7", width=120, height=40, blocks=False))
    cells = "".join(line.split("|", 2)[2] for line in text if line.startswith("node-"))
    assert set(cells) <= set(" abcdefX-=>")
    assert "a" in cells


def test_the_stream_zooms_and_pans(model: Model) -> None:
    assert lines(drawn(model, "7"))[3].startswith("20s until now")
    assert lines(drawn(model, "7", "+"))[3].startswith("10s until now")
    assert lines(drawn(model, "7", "-"))[3].startswith("40s until now")
    assert "until now" not in lines(drawn(model, "7", "["))[3]
    assert lines(drawn(model, "7", "[", "]"))[3].startswith("20s until now")


def test_an_empty_cluster_says_what_is_missing() -> None:
    empty = Model(0.0)
    empty.apply(snapshot(), 100.0)
    for key, text in (
        ("3", "no task waits"),
        ("4", "no task has failed"),
        ("5", "no host"),
        ("7", "no task has ended"),
    ):
        assert text in "\n".join(lines(drawn(empty, key)))


def test_a_lost_scheduler_dims_every_page(model: Model) -> None:
    for key in "234567890":
        screen = drawn(model, key, now=200.0)
        assert "scheduler lost" in lines(screen)[2]
        styles = {span.style for number, line in enumerate(screen.lines) if number != 2 for span in line}
        assert styles == {Style.DIM}


def test_names_from_elsewhere_cannot_break_a_page() -> None:
    model = Model(0.0)
    for message in synthetic_messages(1, 4, 50):
        model.apply(message, 100.0)
    group = model.activity.failures
    assert model.snapshot is not None
    for index, named in list(model.activity.functions.items()):
        model.activity.functions[index] = named._replace(name="evil\x1b[2J\n\tname")
    for each in group.groups:
        each.examples = [example._replace(details="\x1b[31mred\x07") for example in each.examples]
    for key in ("4", "7", "8"):
        for keys in ([key], [key, "enter"]):
            assert "".join(lines(drawn(model, *keys, width=120, height=50))).isprintable()


def test_a_thousand_workers_are_drawn_far_faster_than_a_second() -> None:
    import time

    model = Model(0.0)
    for message in synthetic_messages(1, 1000, 20_000):
        model.apply(message, 100.0)
    began = time.process_time()
    for key in PAGES:
        drawn(model, key, width=250, height=60)
    assert time.process_time() - began < 2.0  # twenty screens: about 0.3 s on a slow machine


def test_keys_turn_pages() -> None:
    assert View(page="overview").pressed("tab", 10).page == "running"
    assert View(page="overview").pressed("backtab", 10).page == "actors"
    assert View().pressed("4", 10).pressed("tab", 10).page == "objects"
    assert View(page="failures", details_of=3).pressed("2", 10) == View(page="functions")


def test_each_table_keeps_how_it_is_looked_at() -> None:
    view = View().pressed("2", 10).pressed("s", 10).pressed("3", 10).pressed("2", 10)
    assert view.table == TableView("cpu_time", True)


def test_a_log_that_starts_late_says_so() -> None:
    last = [message for message in synthetic_messages(5, 24, 300) if isinstance(message, Snapshot)][-1]
    made = Model(0.0)
    made.apply(last, 100.0)
    assert "0 executions; 1,530 tasks ended in all; the earliest are not listed" in lines(drawn(made, "8"))


def test_start_of_the_stream() -> None:
    model = Model(0.0)
    model.apply(snapshot(), START_TIME)
    assert "no task has ended" in "\n".join(lines(drawn(model, "7", now=START_TIME)))


def chosen(screen: Screen) -> list[str]:
    return ["".join(span.text for span in line if span.style is Style.CHOSEN) for line in screen.lines[3:]]


@pytest.mark.parametrize("key", ["t", "2", "5", "6", "8", "9"])
def test_every_link_of_a_page_leads_to_a_page(model: Model, key: str) -> None:
    screens = [*drawn_after_each(model, key, "enter", *["tab"] * 39, width=100, height=30)]
    assert len(screens) == 42
    for screen in screens[3:]:
        assert isinstance(screen.selected, EntityLink)
        assert page_of(model, screen.selected) is not None or screen.selected.key == ("01000000",)
        assert len([text for text in chosen(screen) if text]) == 1, "what is chosen is in sight"


def test_a_chosen_link_is_opened_and_left(model: Model) -> None:
    first = lines(drawn(model, "8", "enter"))
    assert lines(drawn(model, "8", "enter", "tab", "enter"))[3] == "simulate"
    assert lines(drawn(model, "8", "enter", "tab", "enter", "escape")) == first
    assert lines(drawn(model, "8", "enter", "tab", "enter", "escape", "escape")) == lines(drawn(model, "8"))


def test_failures_and_waiting_tasks_lead_to_what_they_name(model: Model) -> None:
    assert drawn(model, "4", "enter", "tab").selected == EntityLink("function", ("simulate",))
    kinds = {drawn(model, "4", "enter", *["tab"] * count).selected.kind for count in range(1, 9)}
    assert kinds == {"function", "host", "task"}
    assert isinstance(drawn(model, "3", "enter", "tab").selected, EntityLink)


def test_a_page_can_be_shown_over_any_other(model: Model) -> None:
    for page in PAGES.values():
        view = View(page=page).showing(EntityLink("host", ("node-0",)))
        text = "\n".join(lines(draw(model, view, 80, 24, 100.0, ADDRESS)))
        assert "Host node-0" in text


def test_a_tiny_terminal_shows_page_and_rows_below_an_alert(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    alert = Alert("silent", "warning", "An agent is silent: " + "long " * 40, 0.0, "workers")
    monkeypatch.setattr(model._alerts, "active", (alert,))
    for key, page in PAGES.items():
        first, second, *others = lines(drawn(model, key, width=20, height=5))
        if page not in ("workers", "alerts"):
            assert f"{key} {TITLES[page]}" in first and second == "An agent is silent:+"
            assert len(others) > 1 or page == "output", page
    text = lines(drawn(model, "2", width=20, height=5))
    assert text[2].startswith("function") and text[3].startswith("simulate") and text[4].startswith("price_option")
