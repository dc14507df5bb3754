from __future__ import annotations

from dataclasses import replace

import pytest

from scaler_protocol.messages import ControlAction
from scaler_protocol.monitor.format import display_width
from scaler_protocol.monitor.links import EntityLink
from scaler_protocol.monitor.messages import ClientStatus, FunctionStatus, MessageCount, PeerState
from scaler_protocol.monitor.model import Model
from scaler_protocol.monitor.operation import Operation, OperationOutcome
from scaler_scheduler.top.lines import Style, text_of
from scaler_scheduler.top.question import Question
from scaler_scheduler.top.screen import Screen, draw
from scaler_scheduler.top.view import View
from tests.support.monitoring import agent_status, snapshot

ADDRESS = "ipc:///tmp/127.0.0.1_2345_monitor"
COLUMNS = ("worker", "agt_cpu", "agt_rss", "cpu", "rss", "free", "sent", "queued", "lag")
SIZES = [(1, 1), (5, 3), (20, 5), (40, 10), (60, 14), (80, 24), (81, 25), (97, 30), (109, 30), (120, 40), (250, 60)]


def model_of(*agents: object, now: float = 100.0) -> Model:
    model = Model(now)
    model.apply(snapshot(agents or (agent_status(0), agent_status(1))), now)  # type: ignore[arg-type]
    return model


def draw_at(
    width: int, height: int, *, model: Model | None = None, view: View | None = None, now: float = 100.0
) -> Screen:
    return draw(model or model_of(), view or View(), width, height, now, ADDRESS)


def texts(screen: Screen) -> list[str]:
    return [text_of(line).rstrip() for line in screen.lines]


def test_the_layout_of_a_wide_terminal() -> None:
    lines = texts(draw_at(130, 30))
    assert lines[0] == "scheduler        | task_manager        |     scheduler_sent         | scheduler_received"
    assert (
        lines[1] == "      cpu   1.5% |   unassigned  2,000 |    Acknowledgement   5,204 |        AgentAttach       2"
    )
    assert (
        lines[2] == "      rss 130.0m |       queued      6 |      HeartbeatEcho 283,701 |            Goodbye       3"
    )
    assert lines[3].startswith("                 |      running      4 |")
    assert lines[4].startswith("                 |      success 53,704 |")
    assert lines[8] == "-" * 130
    shortcuts = "worker[n] agt_cpu[C] agt_rss[M] cpu[c] rss[m] free[f] sent[w] queued[d] lag[l]"
    assert lines[9] == f"Shortcuts: {shortcuts}"
    assert lines[10] == ""
    assert lines[11].startswith("Total 8 worker(s)")
    assert " agt_cpu agt_rss [cpu]    rss free sent queued   lag ITL | " in lines[12]
    assert lines[12].endswith("client_manager")
    assert lines[13].startswith("20103|sd-1e7d-dfba|w103    0.5%  111.0m  2.5% 113.0m  998")
    assert " 0.7ms 100 | " in lines[13]
    assert lines[13].endswith(" 777|notebook|aba+   2,010")
    assert lines[14].endswith(" 778|batch-host|cdc+       0")
    assert lines[16].endswith("func_to_num_tasks")
    assert lines[17].endswith(" simulate   2,010")


def test_sums_stand_over_their_columns() -> None:
    lines = texts(draw_at(130, 30))
    assert lines[11] == "Total 8 worker(s)          1.0%  222.0m 10.0% 904.0m 7980   20      6"


def test_80x24_shows_every_column_and_what_stands_beside_goes_below() -> None:
    lines = texts(draw_at(80, 24))
    assert lines[0].endswith("messages    sent received")
    assert lines[12].endswith("agt_cpu agt_rss [cpu]    rss free sent queued   lag ITL")
    assert len(lines) <= 24
    assert "client_manager" in lines[22]
    assert "func_to_num_tasks" in lines[22]


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_nothing_is_larger_than_the_terminal(width: int, height: int) -> None:
    many = model_of(*(agent_status(number, 20, host="a-very-long-host-name.example.org") for number in range(9)))
    silent = model_of(agent_status(0, 3, state=PeerState.SUSPECT, silent_seconds=3))
    for model in (model_of(), many, silent, Model(0.0)):
        for view in (View(), View(help_shown=True), View(editing_filter=True, filter_text="x" * 300)):
            screen = draw_at(width, height, model=model, view=view, now=130.0)
            assert len(screen.lines) <= height
            assert all(display_width(text_of(line)) <= width for line in screen.lines)


@pytest.mark.parametrize(("width", "height"), SIZES[2:])
def test_workers_are_shown_on_any_terminal(width: int, height: int) -> None:
    assert any(line.startswith("20103|") for line in texts(draw_at(width, height)))


def test_a_short_terminal_gives_its_lines_to_workers() -> None:
    lines = texts(draw_at(100, 6))
    assert lines[0].startswith("Total 8") or lines[1].startswith("Total 8")
    assert sum(line.startswith("20") for line in lines) == 3


def test_the_sorted_column_stands_in_brackets() -> None:
    for key, bracketed in zip("nCMcmfwdl", COLUMNS, strict=True):
        view = View().pressed(key, 10)
        header = next(line for line in texts(draw_at(130, 30, view=view)) if "ITL" in line)
        assert header.count("[") == 1
        assert f"[{bracketed}]" in header


def test_a_filter_shows_how_many_of_how_many() -> None:
    lines = texts(draw_at(130, 30, view=View(filter_text="|w10")))
    assert lines[10].startswith("filter: |w10")
    assert lines[11].startswith("Total 4 of 8 worker(s)")
    assert [line.split("|")[0] for line in lines[13:17]] == ["20103", "20102", "20101", "20100"]


def test_editing_a_filter_shows_what_is_typed() -> None:
    assert texts(draw_at(80, 24, view=View(editing_filter=True, filter_text="ab")))[10] == "filter: ab_"


def test_more_workers_than_lines_scroll_to_the_last() -> None:
    model = model_of(*(agent_status(number, 10) for number in range(10)))
    screen = draw_at(100, 24, model=model)
    assert (screen.page_rows, screen.last_first_row) == (11, 89)
    last = draw_at(100, 24, model=model, view=View(first_row=10_000))
    assert texts(last)[-1].startswith("20000|")
    assert len(texts(last)) == 24


def test_before_anything_arrived_the_screen_says_what_it_waits_for() -> None:
    model = Model(100.0, timeout_seconds=5.0)
    assert f"waiting for the scheduler at {ADDRESS}" in texts(draw_at(80, 24, model=model, now=101.0))
    lines = texts(draw_at(80, 24, model=model, now=107.0))
    assert "nothing heard for 7 s" in lines
    assert "Is a scheduler running, and is this its monitor address?" in lines


def test_a_lost_scheduler_is_said_and_old_values_are_dim() -> None:
    screen = draw_at(100, 30, now=112.0)
    assert texts(screen)[10] == "scheduler lost: silent for 12 s; waiting for it to come back"
    styles = {span.style for number, line in enumerate(screen.lines) if number != 10 for span in line}
    assert styles == {Style.DIM}


def test_a_restart_is_said_for_a_while() -> None:
    model = model_of()
    model.apply(snapshot(epoch=99), 101.0)
    assert texts(draw_at(100, 30, model=model, now=102.0))[10].startswith("the scheduler has restarted")
    model.apply(snapshot(epoch=99), 120.0)
    assert texts(draw_at(100, 30, model=model, now=120.0))[10] == ""


def test_what_the_scheduler_cannot_do_is_said() -> None:
    model = model_of()
    model.apply(replace(snapshot(), trouble="The event log x cannot be written: No space left on device."), 101.0)
    line = texts(draw_at(100, 30, model=model, now=101.0))[10]
    assert line == "The event log x cannot be written: No space left on device."


def test_a_stream_that_cannot_be_read_is_said_and_the_screen_stays() -> None:
    model = model_of()
    model.refuse("the scheduler uses monitor protocol 2")
    lines = texts(draw_at(100, 30, model=model))
    assert lines[10] == "the scheduler uses monitor protocol 2"
    assert lines[11].startswith("Total 8 worker(s)")


def test_silent_agents_are_named_and_marked() -> None:
    model = model_of(agent_status(0, 1), agent_status(1, 1, state=PeerState.SUSPECT, silent_seconds=3.0))
    screen = draw_at(100, 30, model=model)
    assert texts(screen)[10] == "The agent on sd-1e7d-dfba (pid 10001) has been silent for 3 s."
    row = next(line for line in screen.lines if text_of(line).startswith("20100"))
    assert row[0].style is Style.WARNING


def test_more_message_kinds_than_lines_end_in_dots_and_a_tall_screen_shows_all() -> None:
    model = Model(0.0)
    kinds = tuple(MessageCount(f"Kind{letter}", 100 + number) for number, letter in enumerate("ABCDEFGHIJ"))
    model.apply(replace(snapshot(), sent=kinds, received=kinds), 100.0)
    small = texts(draw_at(120, 24, model=model))
    assert small[7].count("...") == 2
    assert "KindJ" in small[6]
    tall = texts(draw_at(120, 60, model=model))
    assert sum("Kind" in line for line in tall) == 10


def test_many_clients_leave_room_for_functions() -> None:
    clients = tuple(ClientStatus(bytes([number]) * 16, "host", number, True, number, 0, 0) for number in range(100))
    functions = tuple(FunctionStatus(bytes([number]) * 16, f"f{number}", number) for number in range(100))
    model = Model(0.0)
    model.apply(replace(snapshot((agent_status(0, 40),)), clients=clients, functions=functions), 100.0)
    lines = texts(draw_at(130, 40, model=model))
    assert sum("|host|" in line for line in lines) > 8
    assert sum(" f9" in line for line in lines) > 8
    assert lines[13].endswith("99")


def test_names_from_elsewhere_cannot_break_the_screen() -> None:
    model = Model(0.0)
    evil = FunctionStatus(b"\x01" * 16, "evil\x1b[2J\nname 数据", 5)
    model.apply(replace(snapshot((agent_status(0, 1, host="数据中心"),)), functions=(evil,)), 100.0)
    joined = "".join(texts(draw_at(130, 40, model=model)))
    assert joined.isprintable()
    assert "数据中心" in joined


def test_help_names_every_key() -> None:
    text = "\n".join(texts(draw_at(80, 24, view=View(help_shown=True))))
    for word in ("n C M c m f w d l", "quit", "PgUp", "/", "ITL", "Tab", "s S r", "Enter", "[ ]"):
        assert word in text
    assert len(text.splitlines()) <= 24


@pytest.mark.parametrize("page", ["workers", "functions", "waits"])
@pytest.mark.parametrize(("width", "height"), [(80, 24), (60, 20), (250, 60)])
def test_a_sentence_is_shown_whole_and_nothing_is_lost_below_it(page: str, width: int, height: int) -> None:
    path = "/var/log/scaler/production/20261121T162451Z-23cd604ec4d185fe.events"
    trouble = f"The event log {path} cannot be written: No space left on device."
    model = Model(0.0)
    model.apply(replace(snapshot(tuple(map(agent_status, range(20)))), trouble=trouble), 100.0)
    screen = draw(model, View(page=page), width, height, 100.0, ADDRESS)
    text = [text_of(line) for line in screen.lines]
    assert trouble.replace(" ", "") in "".join(text).replace(" ", "")
    assert len(text) <= height and all(display_width(line) <= width for line in text)
    if page == "workers":
        last = draw(model, View(first_row=screen.last_first_row), width, height, 100.0, ADDRESS)
        assert "20000|" in "".join(text_of(line) for line in last.lines)


def test_a_long_address_is_shown_whole_while_nothing_was_heard() -> None:
    address = "ipc:///" + "/".join(f"folder{number}" for number in range(20))
    model = Model(0.0)
    model.refuse(f"{address} has keys: set SCALER_KEYS.")
    text = "".join(text_of(line) for line in draw(model, View(), 80, 24, 1.0, address).lines)
    assert text.count(address) == 2


@pytest.mark.parametrize("page", ["workers", "functions"])
@pytest.mark.parametrize(("width", "height"), [(20, 5), (40, 10), (80, 24)])
def test_a_question_is_shown_whole_because_a_key_answers_it(page: str, width: int, height: int) -> None:
    question = Question(Operation(ControlAction.CANCEL_TASK, "695e3922/93"))
    screen = draw(model_of(), View(page=page, question=question), width, height, 100.0, ADDRESS)
    text = "".join(text_of(line).rstrip() for line in screen.lines)
    assert question.text.replace(" ", "") in text.replace(" ", "")


def test_a_sentence_that_is_too_long_has_a_mark() -> None:
    question = Question(Operation(ControlAction.CANCEL_FUNCTION, "name " * 100))
    for view in (View(page="functions", question=question), View(outcome=OperationOutcome(False, "no " * 100))):
        screen = draw(model_of(), view, 20, 5, 100.0, ADDRESS)
        last = next(line for line in reversed(screen.lines) if text_of(line).startswith(("name", "no")))
        assert text_of(last).endswith("+") and display_width(text_of(last)) <= 20


@pytest.mark.parametrize(
    "view",
    [
        View(page="functions", editing_filter=True, filter_text="x" * 200 + "end"),
        View(page="functions", typed_name="end"),
        View(page="functions", question=Question(Operation(ControlAction.KILL_WORKER, "end"), "target")),
    ],
    ids=["filter", "name", "target"],
)
@pytest.mark.parametrize(("width", "height"), [(20, 5), (80, 24)])
def test_what_is_typed_is_in_sight(view: View, width: int, height: int) -> None:
    lines = texts(draw(model_of(), view, width, height, 100.0, ADDRESS))
    assert any(line.rstrip().endswith("end_") for line in lines)


def test_the_last_line_of_details_is_in_reach_below_a_hint_of_two_lines() -> None:
    view = View(page="functions").showing(EntityLink("host", (agent_status(0).host,)))
    first = draw(model_of(), view, 40, 10, 100.0, ADDRESS)
    last = draw(model_of(), replace(view, first_line=first.last_first_row), 40, 10, 100.0, ADDRESS)
    whole = draw(model_of(), view, 40, 100, 100.0, ADDRESS)
    assert texts(last)[-1] == [line for line in texts(whole) if line.strip()][-1]
