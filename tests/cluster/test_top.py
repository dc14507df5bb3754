"""``scaler_top`` in a real terminal, fed by a real publisher with made snapshots, and by a real scheduler."""

from __future__ import annotations

import datetime
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest
import zmq

from scaler import Client
from scaler.utility.exceptions import ActorDiedError, ProcessorDiedError
from scaler_protocol.address import default_monitor_address
from scaler_protocol.monitor.feed import SNAPSHOT_KIND, encode
from scaler_protocol.monitor.log_frames import EVENTS, MAGIC, SNAPSHOT, frame
from scaler_protocol.monitor.messages import MONITOR_MINOR, PeerState, Snapshot
from scaler_protocol.monitor.model import Model
from scaler_protocol.monitor.replay import Replay
from scaler_protocol.monitor.tables import FUNCTIONS
from tests.support import functions
from tests.support.commands import child_environment, command_line, run_command, start_cluster, start_scheduler
from tests.support.monitor_stream import START_TIME, synthetic_messages
from tests.support.monitoring import agent_status, monitor_address_with_keys, snapshot
from tests.support.ports import free_address
from tests.support.tmux import Tmux
from tests.support.waiting import wait_until

COLUMNS = ("worker", "agt_cpu", "agt_rss", "cpu", "rss", "free", "sent", "queued", "lag")
AGENTS = (agent_status(0), agent_status(1))
PAGE_TEXTS = (
    "no task has run for a second or longer",
    "simulate",
    "no task waits",
    "no task has failed while this monitor watched",
    "no host has an object store yet",
    "no graph is running",
    "no task has ended while this monitor watched",
    "53,766 tasks ended in all",
    "notebook",
    "the scheduler does not say its settings",
)


class Feed:
    """A publisher that serves one snapshot again and again, in a process of its own as a scheduler would."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._process: subprocess.Popen[str] | None = None

    def serve(self, *agents: object, epoch: int = 7) -> None:
        """Start, with these agents; the feed before ends."""
        self.stop()
        source = f"""
import time
from scaler_protocol.monitor.messages import *
from scaler_protocol.messages import *
from scaler_scheduler.shell.publisher import Publisher
from tests.support.monitoring import snapshot
publisher = Publisher({self.address!r})
publisher.start()
print("ready", flush=True)
while True:
    publisher.publish(snapshot({tuple(agents)!r}, epoch={epoch}))
    time.sleep(0.05)
"""
        source = source.replace("<PeerState.SUSPECT: 1>", "PeerState.SUSPECT")
        source = source.replace("<PeerState.CONNECTED: 0>", "PeerState.CONNECTED")
        self._process = subprocess.Popen(
            [sys.executable, "-c", source], env=child_environment(), stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


@pytest.fixture
def feed(tmp_path: Path) -> Iterator[Feed]:
    made = Feed(f"ipc://{tmp_path}/monitor")
    yield made
    made.stop()


@pytest.fixture
def serving(feed: Feed) -> Feed:
    feed.serve(*AGENTS)
    return feed


def top(feed: Feed, *flags: object) -> list[str]:
    return command_line("scaler_top", feed.address, "--page", "workers", *flags)


def test_the_screen_at_80x24(serving: Feed) -> None:
    with Tmux(top(serving)) as terminal:
        terminal.wait_for("Total 8 worker(s)")
        lines = terminal.lines
        assert lines[0].startswith("scheduler        | task_manager        |")
        assert lines[8] == "-" * 80
        assert lines[9] == "worker[n] agt_cpu[C] agt_rss[M] cpu[c] rss[m] free[f] sent[w] queued[d] lag[l]"
        assert lines[12].split() == [
            "worker",
            "agt_cpu",
            "agt_rss",
            "[cpu]",
            "rss",
            "free",
            "sent",
            "queued",
            "lag",
            "ITL",
        ]
        assert lines[13].split()[1:] == ["0.5%", "111.0m", "2.5%", "113.0m", "998", "2", "3", "0.7ms", "100"]
        assert [line[:6] for line in lines[13:21]] == [
            "20103|",
            "20102|",
            "20003|",
            "20101|",
            "20002|",
            "20100|",
            "20001|",
            "20000|",
        ]


def test_the_screen_at_250x60(serving: Feed) -> None:
    with Tmux(top(serving), 250, 60) as terminal:
        terminal.wait_for("Total 8 worker(s)")
        lines = terminal.lines
        assert lines[0].split() == ["scheduler", "|", "task_manager", "|", "scheduler_sent", "|", "scheduler_received"]
        assert lines[9].startswith("Shortcuts: worker[n]")
        assert lines[12].endswith("client_manager")
        assert "func_to_num_tasks" in terminal.screen
        assert "collect.<locals>.<lambda>" in terminal.screen


def test_keys_sort_and_turn_the_order(serving: Feed) -> None:
    with Tmux(top(serving)) as terminal:
        terminal.wait_for("[cpu]")
        for key, name in zip("nCMcmfwdl", COLUMNS, strict=True):
            terminal.press(key)
            terminal.wait_for(f"[{name}]")
        terminal.press("n")
        terminal.wait_for("[worker]")
        assert terminal.lines[13].startswith("20000|")
        terminal.press("n")
        wait_until(lambda: terminal.lines[13].startswith("20103|"))


def test_filter_help_and_quit(serving: Feed) -> None:
    with Tmux(top(serving)) as terminal:
        terminal.wait_for("Total 8 worker(s)")
        terminal.press("/", "|", "w", "1")
        terminal.wait_for("filter: |w1_")
        terminal.press("Enter")
        terminal.wait_for("Total 5 of 8 worker(s)")
        terminal.press("Escape")
        terminal.wait_for("Total 8 worker(s)")
        terminal.press("?")
        assert "any other key goes back" in terminal.wait_for("slot lent to a nested task")
        terminal.press("x")
        terminal.wait_for("Total 8 worker(s)")
        terminal.press("q")
        assert terminal.wait_for_exit() == 0
        assert "Traceback" not in terminal.screen


def test_scrolling(feed: Feed) -> None:
    feed.serve(*(agent_status(number, 10) for number in range(5)))
    with Tmux(top(feed)) as terminal:
        terminal.wait_for("Total 50 worker(s)")
        terminal.press("n")
        terminal.wait_for("20000|")
        terminal.press("End")
        terminal.wait_for("20409|")
        terminal.press("PageUp")
        terminal.wait_without("20409|")
        terminal.press("Home")
        terminal.wait_for("20000|")
        terminal.press("Down")
        terminal.wait_without("20000|")


def test_resizing_while_it_runs(serving: Feed) -> None:
    with Tmux(top(serving)) as terminal:
        terminal.wait_for("Total 8 worker(s)")
        terminal.resize(200, 50)
        terminal.wait_for("scheduler_received")
        assert terminal.lines[8] == "-" * 200
        terminal.resize(40, 8)
        terminal.wait_without("scheduler_received")
        terminal.wait_for("20103|")
        terminal.resize(2, 2)
        terminal.resize(100, 30)
        wait_until(lambda: terminal.lines[8] == "-" * 100)
        terminal.press("q")
        assert terminal.wait_for_exit() == 0


def test_colour_where_the_terminal_has_it(serving: Feed) -> None:
    with Tmux(top(serving)) as terminal:
        terminal.wait_for("Total 8 worker(s)")
        assert "\x1b[31m" in _line_with(terminal, "failed")
        assert "\x1b[32m" in _line_with(terminal, "success")


@pytest.mark.parametrize("term", ["vt100", "linux", "xterm", "tmux-256color"])
def test_other_terminals(serving: Feed, term: str) -> None:
    with Tmux(top(serving), term=term) as terminal:
        terminal.wait_for("Total 8 worker(s)")
        terminal.press("q")
        assert terminal.wait_for_exit() == 0


def test_an_unknown_terminal_is_one_line(serving: Feed) -> None:
    with Tmux(top(serving), term="no-such-terminal") as terminal:
        assert terminal.wait_for_exit() == 2
        assert "Cannot use this terminal" in terminal.screen
        assert "Traceback" not in terminal.screen


def test_a_terminal_that_cannot_place_text_is_one_line(serving: Feed) -> None:
    with Tmux(top(serving), term="dumb") as terminal:
        assert terminal.wait_for_exit() == 2
        assert "TERM is dumb, which cannot position text" in " ".join(terminal.lines)


def test_names_that_the_locale_does_not_have_keep_their_columns(feed: Feed) -> None:
    feed.serve(agent_status(0, 1, host="日本"), agent_status(1, 1, host="e\u0301te\u0301"))
    with Tmux(["env", "LC_ALL=C", *top(feed)]) as terminal:
        screen = terminal.wait_for("Total 2 worker(s)")
        rows = [line for line in screen.splitlines() if "|w" in line or "|????|" in line]
        assert {row.split("|")[1].strip() for row in rows} == {"????", "ete"}
        assert len({row.rindex(" 1") for row in rows}) == 1


def test_a_lost_scheduler_is_shown_and_picked_up_again(serving: Feed) -> None:
    with Tmux(top(serving, "--timeout", 1)) as terminal:
        terminal.wait_for("Total 8 worker(s)")
        serving.stop()
        terminal.wait_for("scheduler lost: silent for ")  # the screen counts the seconds
        assert "waiting for it to come back" in terminal.screen
        assert "Total 8 worker(s)" in terminal.screen
        serving.serve(agent_status(0, 3), epoch=8)
        terminal.wait_for("Total 3 worker(s)")
        terminal.wait_for("the scheduler has restarted")
        assert "lost" not in terminal.screen


def test_silent_agents_are_named(feed: Feed) -> None:
    feed.serve(agent_status(0), agent_status(1, state=PeerState.SUSPECT, silent_seconds=4.0))
    with Tmux(top(feed)) as terminal:
        terminal.wait_for("The agent on sd-1e7d-dfba (pid 10001) has been silent for 4 s.")


def test_it_may_start_before_the_scheduler(feed: Feed) -> None:
    with Tmux(top(feed, "-t", "0.5")) as terminal:
        terminal.wait_for("waiting for the scheduler at")
        terminal.wait_for("Is a scheduler running, and is this its monitor address?")
        feed.serve(*AGENTS)
        terminal.wait_for("Total 8 worker(s)")


def test_a_foreign_stream_is_one_sentence_and_the_screen_goes_on(feed: Feed) -> None:
    with zmq.Context() as context, context.socket(zmq.XPUB) as stranger, Tmux(top(feed)) as terminal:
        stranger.setsockopt(zmq.LINGER, 0)
        stranger.bind(feed.address)
        assert stranger.poll(10_000)
        stranger.send_multipart([SNAPSHOT_KIND, b"hello"])
        terminal.wait_for("the stream at this address is not a Scaler monitor stream")
        terminal.press("q")
        assert terminal.wait_for_exit() == 0
        os.unlink(feed.address.removeprefix("ipc://"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_end_it_in_good_order(serving: Feed, number: signal.Signals) -> None:
    with Tmux(top(serving)) as terminal:
        terminal.wait_for("Total 8 worker(s)")
        _top_process(terminal).send_signal(number)
        assert terminal.wait_for_exit() == 0
        assert "Traceback" not in terminal.screen


def test_a_closed_terminal_ends_it(serving: Feed) -> None:
    terminal = Tmux(top(serving))
    with terminal:
        terminal.wait_for("Total 8 worker(s)")
        process = _top_process(terminal)
    wait_until(lambda: not process.is_running() or process.status() == psutil.STATUS_ZOMBIE)


def test_a_terminal_that_its_user_holds_stops_nothing(serving: Feed) -> None:
    with Tmux(top(serving)) as terminal:
        terminal.wait_for("Total 8 worker(s)")
        program = psutil.Process(terminal.pane_pid).children()[0]
        terminal.press("C-s")
        serving.serve(*AGENTS, agent_status(2))
        held = program.cpu_times().user
        wait_until(lambda: program.cpu_times().user > held, what="it goes on taking in what comes")
        assert "Total 8 worker(s)" in terminal.screen
        terminal.press("C-q")
        terminal.wait_for("Total 12 worker(s)")
        terminal.press("C-s")
        serving.serve(*AGENTS)
        held = program.cpu_times().user
        wait_until(lambda: program.cpu_times().user > held)
        program.terminate()
        assert terminal.wait_for_exit() == 0


def test_it_idles_when_nothing_happens(serving: Feed) -> None:
    with Tmux(top(serving), 250, 60) as terminal:
        terminal.wait_for("Total 8 worker(s)")
        process = _top_process(terminal)
        process.cpu_percent()
        assert process.cpu_percent(interval=2.0) < 50  # at 20 snapshots a second


def test_json_prints_one_snapshot(serving: Feed) -> None:
    result = run_command("scaler_top", serving.address, "--json")
    assert (result.returncode, result.stderr) == (0, "")
    document = json.loads(result.stdout)
    assert document["totals"]["workers"] == 8
    assert document["tasks"]["success"] == 53_704


def test_json_without_a_scheduler_is_one_line_and_fails(feed: Feed) -> None:
    result = run_command("scaler_top", feed.address, "--json", "--timeout", "0.3")
    assert (result.returncode, result.stdout) == (1, "")
    reason = f"nothing was heard from {feed.address} within 0.3 seconds"
    assert result.stderr.startswith(f"scaler_top: Cannot print a snapshot: {reason}. Check the address")


@pytest.mark.parametrize("address", ["nonsense", "tcp://127.0.0.1", "udp://127.0.0.1:5", "inproc://here", "ipc://"])
def test_a_wrong_address_is_one_line_and_exit_code_2(address: str) -> None:
    result = run_command("scaler_top", address)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("scaler_top: ")
    assert result.stderr.count("\n") == 1


def test_without_a_terminal_it_is_one_line_and_exit_code_2(serving: Feed) -> None:
    result = run_command("scaler_top", serving.address)
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1
    assert "--json" in result.stderr


def test_it_uses_nothing_else_of_the_scheduler() -> None:
    source = (
        "import sys, scaler_scheduler.top.cli, scaler_scheduler.top.application\n"
        "print([name for name in sys.modules if name.startswith('scaler_scheduler')"
        " and not name.startswith('scaler_scheduler.top')])"
    )
    result = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=30)
    assert result.stdout.strip() == "['scaler_scheduler']", result.stderr


# ---- other pages -----------------------------------------------------------------------------------------------------


def test_every_page_fits_and_follows_the_size(serving: Feed) -> None:
    with Tmux(top(serving)) as terminal:
        terminal.wait_for("Total 8 worker(s)")
        for key, text in zip("t234567890", PAGE_TEXTS, strict=True):
            terminal.press(key)
            terminal.wait_for(text)
        terminal.press("2")
        terminal.wait_for("simulate")
        terminal.resize(250, 60)
        terminal.wait_for("1 overview  t running  2 functions  3 waiting  4 failures")
        terminal.resize(30, 6)
        terminal.wait_without("4 fail")
        terminal.wait_for("simulate")
        terminal.resize(80, 24)
        terminal.wait_for("1 all t run 2 functions 3 wait")
        terminal.press("Tab")
        terminal.wait_for("3 waiting")
        terminal.press("BTab", "BTab")
        terminal.wait_for("no task has run for a second or longer")
        terminal.press("BTab")
        terminal.wait_for("4 of 8 busy on 1 host")


def test_a_table_is_sorted_and_filtered(serving: Feed) -> None:
    with Tmux(top(serving)) as terminal:
        terminal.press("2")
        terminal.wait_for("[total]")
        terminal.press(*"S" * FUNCTIONS.index("total"))
        terminal.wait_for("[function]")
        assert terminal.lines[5].startswith("collect")
        terminal.press("r")
        wait_until(lambda: terminal.lines[5].startswith("simulate"))
        terminal.press("/", "c", "o", "l", "Enter")
        terminal.wait_for("1 function")
        terminal.wait_without("simulate")


def test_a_lost_scheduler_is_said_on_every_page(serving: Feed) -> None:
    with Tmux(top(serving, "-t", 1)) as terminal:
        terminal.wait_for("Total 8 worker(s)")
        serving.stop()
        for key in "234567890":
            terminal.press(key)
            terminal.wait_for("scheduler lost: silent for")
        serving.serve(agent_status(0, 3), epoch=8)
        terminal.wait_for("the scheduler has restarted")


def test_a_scheduler_with_keys_is_said() -> None:
    with monitor_address_with_keys() as address, Tmux(command_line("scaler_top", address), 120, 24) as terminal:
        terminal.wait_for("set SCALER_KEYS")  # how sure it is depends on who hangs up first
        terminal.press("q")
        assert terminal.wait_for_exit() == 0


def test_another_protocol_version_is_one_sentence_and_the_screen_goes_on(feed: Feed) -> None:
    payload = bytearray(encode(snapshot()))
    at = payload.index((1).to_bytes(2, "little") + MONITOR_MINOR.to_bytes(2, "little"), 16)
    payload[at] = 2
    with zmq.Context() as context, context.socket(zmq.XPUB) as newer, Tmux(top(feed)) as terminal:
        newer.setsockopt(zmq.LINGER, 0)
        newer.bind(feed.address)
        while b"snapshot" not in newer.recv():
            pass
        newer.send_multipart([SNAPSHOT_KIND, payload])
        terminal.wait_for("the scheduler uses monitor protocol 2, this program 1")
        newer.send_multipart([SNAPSHOT_KIND, encode(snapshot(AGENTS))])
        terminal.wait_for("Total 8 worker(s)")
        os.unlink(feed.address.removeprefix("ipc://"))


# ---- recordings ------------------------------------------------------------------------------------------------------


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """A minute, made up."""
    folder = tmp_path / "log"
    folder.mkdir()
    with (folder / "made-up.events").open("wb") as file:
        file.write(MAGIC)
        for message in synthetic_messages(60, 8, 100):
            kind = SNAPSHOT if isinstance(message, Snapshot) else EVENTS
            file.write(frame(kind, message.time, encode(message)))
    return folder


def replay(folder: Path, *flags: object) -> list[str]:
    return command_line("scaler_top", "--page", "workers", "--replay", folder, *flags)


def test_a_recording_is_played_paused_and_searched(recording: Path) -> None:
    with Tmux(replay(recording)) as terminal:
        terminal.wait_for("Total 8 worker(s)")
        terminal.press("Space")
        terminal.wait_for("paused")
        before = _replay_time(terminal)
        terminal.press("Right")
        wait_until(lambda: _replay_time(terminal) == before + 5)
        terminal.press(",")
        wait_until(lambda: _replay_time(terminal) == before + 4)
        terminal.press("Left")
        wait_until(lambda: _replay_time(terminal) <= before)
        terminal.press(*"}" * 11)
        terminal.wait_for(f"success  {_successes(60):,}")
        terminal.press("{")
        terminal.wait_for(f"success  {_successes(54):,}")
        terminal.press(">", "Space")
        terminal.wait_for("    2x ")
        terminal.press("q")
        assert terminal.wait_for_exit() == 0


def test_a_recording_has_all_pages(recording: Path) -> None:
    with Tmux(replay(recording), 120, 40) as terminal:
        terminal.wait_for("Total 8 worker(s)")
        terminal.press("}", "}", "}", "4")
        terminal.wait_for("negative price")
        terminal.press("7")
        terminal.wait_for("node-0|node-0-7")
        terminal.press("?")
        terminal.wait_for("seek 5 seconds")


def test_a_log_that_was_cut_is_one_sentence_and_is_played(recording: Path) -> None:
    path = recording / "made-up.events"
    path.write_bytes(path.read_bytes()[:-100])
    with Tmux(replay(recording)) as terminal:
        terminal.wait_for("made-up.events: truncated, the last ")
        terminal.wait_for("Total 8 worker(s)")
        terminal.press("q")
        assert terminal.wait_for_exit() == 0
        assert "Traceback" not in terminal.screen


def test_what_is_no_recording_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    for arguments in (["--replay", tmp_path, "--json"], ["--replay", tmp_path / "missing", "--json"], []):
        result = run_command("scaler_top", *arguments)
        assert (result.returncode, result.stdout) == (2, "")
        assert result.stderr.startswith("scaler_top: ")
        assert result.stderr.count("\n") == 1


def test_json_of_a_recording_is_its_last_snapshot(recording: Path) -> None:
    result = run_command("scaler_top", "--replay", recording, "--json")
    assert (result.returncode, result.stderr) == (0, "")
    document = json.loads(result.stdout)
    assert sum(document["tasks"][name] for name in ("success", "failed", "canceled")) == 6000 + 30
    assert document["settings"]["protected"] == "True"
    assert document["waits"][0]["reason"] == "no worker has the capability gpu"
    assert document["stores"][0]["host"] == "node-0"
    assert document["graphs"][0]["nodes"] == 60


def test_a_recording_becomes_a_trace(recording: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.json"
    result = run_command("scaler_top", "--replay", recording, "--trace", target)
    assert (result.returncode, result.stderr) == (0, "") and result.stdout.count("\n") == 1
    slices = [event for event in json.loads(target.read_text())["traceEvents"] if event["ph"] == "X"]
    assert result.stdout.startswith(f"{len(slices):,} executions") and len(slices) >= 6000
    first = datetime.datetime.fromtimestamp(min(event["ts"] for event in slices) / 1e6 + 1)
    window = ("--trace-from", f"{first:%H:%M:%S}", "--trace-until", f"{first:%Y-%m-%dT%H:%M:%S.%f}")
    result = run_command("scaler_top", "--replay", recording, "--trace", target, *window)
    assert result.returncode == 0
    part = [event for event in json.loads(target.read_text())["traceEvents"] if event["ph"] == "X"]
    assert 0 < len(part) < len(slices)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--trace-from", "soon"),
        ("--trace-until", "2001-01-01T00:00:00"),
    ],
)
def test_a_trace_that_cannot_be_is_one_line(recording: Path, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    result = run_command("scaler_top", "--replay", recording, "--trace", tmp_path / "out.json", *arguments)
    assert result.returncode == 2 and result.stderr.count("\n") == 1 and "Cannot" in result.stderr
    assert not (tmp_path / "out.json").exists()


def test_a_trace_needs_a_recording_and_a_place(recording: Path, tmp_path: Path) -> None:
    result = run_command("scaler_top", "tcp://127.0.0.1:1", "--trace", tmp_path / "out.json")
    assert result.returncode == 2 and "--replay DIR" in result.stderr
    result = run_command("scaler_top", "--replay", recording, "--trace", tmp_path / "missing" / "out.json")
    assert result.returncode == 1 and "Choose another file" in result.stderr


def _replay_time(terminal: Tmux) -> int:
    """Seconds of the day, on the last line."""
    match = re.search(r" (\d\d):(\d\d):(\d\d) ", terminal.lines[-1])
    assert match, terminal.screen
    hours, minutes, seconds = map(int, match.groups())
    return (hours * 60 + minutes) * 60 + seconds


def _successes(seconds: float) -> int:
    """What the last snapshot until then says."""
    snapshots = [each for each in synthetic_messages(60, 8, 100) if isinstance(each, Snapshot)]
    return [each for each in snapshots if each.time <= START_TIME + seconds][-1].tasks.success


# ---- with a real cluster ---------------------------------------------------------------------------------------------


def test_a_real_cluster_and_exact_counts() -> None:
    address = free_address()
    with start_scheduler(address), start_cluster(address, "-n", 2) as cluster:
        cluster.remember_family()
        with Tmux(
            command_line("scaler_top", default_monitor_address(address), "--page", "workers"), 130, 30
        ) as terminal:
            terminal.wait_for("Total 2 worker(s)")
            with Client(address) as client:
                assert client.map(abs, range(-500, 0)) == list(range(500, 0, -1))
                failing = client.submit(divmod, 1, 0)
                assert isinstance(failing.exception(60), ZeroDivisionError)
                terminal.wait_for("success    500")
                screen = terminal.wait_for("failed      1")
                assert "unassigned      0" in screen
                assert "running      0" in screen
                assert f"{os.getpid()}|" in screen


def test_a_real_scheduler_that_is_killed_and_started_again() -> None:
    address = free_address()
    with ExitStack() as stack:
        first = stack.enter_context(start_scheduler(address))
        stack.enter_context(start_cluster(address, "-n", 2))
        top_command = command_line("scaler_top", default_monitor_address(address), "--page", "workers", "-t", 1.5)
        terminal = stack.enter_context(Tmux(top_command, 100, 24))
        terminal.wait_for("Total 2 worker(s)")
        first.kill()
        terminal.wait_for("scheduler lost")
        stack.enter_context(start_scheduler(address))
        terminal.wait_without("scheduler lost")
        terminal.wait_for("Total 2 worker(s)")
        terminal.press("q")
        assert terminal.wait_for_exit() == 0


def test_actions_on_a_real_cluster() -> None:
    address = free_address()
    with start_scheduler(address), start_cluster(address, "-n", 1) as cluster, Client(address) as client:
        cluster.remember_family()
        with Tmux(
            command_line("scaler_top", default_monitor_address(address), "--page", "workers"), 110, 30
        ) as terminal:
            (agent,) = client.cluster_info().agents
            terminal.wait_for("Total 1 worker(s)")
            terminal.press("p", *agent.name, "Enter")
            terminal.wait_for(f"Pause {agent.name}? All workers of its agents pause; running tasks continue. (y/n)")
            terminal.press("y")
            terminal.wait_for(f"Paused {agent.name}.")
            waiting = [client.submit(functions.sleep_and_return, 1000) for _ in range(3)]
            terminal.press("2")
            wait_until(lambda: "sleep_and_return 3" in _squeezed(terminal))
            terminal.press("x")
            terminal.wait_for("Cancel all tasks of function sleep_and_return?")
            terminal.press("y")
            terminal.wait_for("Cancelled 3 tasks of function sleep_and_return.")
            wait_until(lambda: all(future.cancelled() for future in waiting))
            terminal.press("i", "u", *"nobody", "Enter", "y")
            terminal.wait_for("Cannot resume 'nobody': no agent, worker or host has this name.")
            terminal.press("u", *agent.name, "Enter", "y")
            terminal.wait_for(f"Resumed {agent.name}.")
            assert client.submit(abs, -1).result() == 1


def test_actors_of_a_real_cluster() -> None:
    address = free_address()
    with start_scheduler(address), start_cluster(address, "-n", 1, "-wn", "home") as cluster, Client(address) as client:
        cluster.remember_family()
        with Tmux(
            command_line("scaler_top", default_monitor_address(address), "--page", "actors"), 130, 24
        ) as terminal:
            terminal.wait_for("no client has made an actor")
            actor = client.actor(functions.Sleeper)
            call = actor.sleep(1000)
            wait_until(lambda: re.search(r"Sleeper busy 1 0 0 of 0 .* home ", _squeezed(terminal)))
            [shown] = client.cluster_info().actors
            assert (shown.function, shown.is_made, shown.running, shown.waiting) == ("Sleeper", True, 1, 0)
            assert (shown.host, shown.worker) == (client.cluster_info().agents[0].host, "home")
            actor.sleep(0)
            wait_until(lambda: "Sleeper busy 1 1 " in _squeezed(terminal))
            terminal.press("x")
            terminal.wait_for(f"Cancel task {client.identity.hex()[:8]}/{shown.task}? If it runs, it is interrupted.")
            terminal.press("y")
            terminal.wait_for(f"Cancelled task {client.identity.hex()[:8]}/{shown.task}.")
            assert isinstance(call.exception(60), ActorDiedError)
            terminal.wait_for("no client has made an actor")
            assert client.cluster_info().actors == ()


def fail_with(text: str) -> None:
    raise LookupError(text)


def test_pages_of_a_real_cluster() -> None:
    address = free_address()
    with ExitStack() as stack:
        stack.enter_context(start_scheduler(address))
        cluster = stack.enter_context(start_cluster(address, "-n", 2))
        cluster.remember_family()
        terminal = stack.enter_context(
            Tmux(command_line("scaler_top", default_monitor_address(address), "--page", "workers"), 110, 40)
        )
        terminal.wait_for("Total 2 worker(s)")
        client = stack.enter_context(Client(address))
        seen = _tasks_until_one_is_seen(client, terminal)
        assert client.map(functions.identity, range(3000)) == list(range(3000))
        failed = [client.submit(fail_with, "no such price") for _ in range(3)]
        assert all(isinstance(future.exception(60), LookupError) for future in failed)
        died = client.submit(functions.exit_process, os.devnull, 7)
        assert isinstance(died.exception(30), ProcessorDiedError)
        terminal.press("2")
        # the column of finished tasks is left out when others need its room
        wait_until(lambda: re.search(r"identity 0 (3,000 )?3,000", _squeezed(terminal)))
        wait_until(lambda: re.search(r"fail_with 0 (3 )?0 3", _squeezed(terminal)))
        terminal.press("4")
        terminal.wait_for("no such price")
        terminal.press("/", *"exit", "Enter")
        terminal.wait_without("no such price")
        terminal.press("Enter")
        terminal.wait_for("exit code: 7")
        assert "pid: " in terminal.screen
        terminal.press("Escape", "8")
        tasks = f"{3004 + seen:,}"
        wait_until(lambda: re.search(rf"3,0\d\d executions of {tasks} tasks", terminal.screen))
        client.submit(functions.sleep_and_return, 0.6).result()  # wider than a character of the stream
        terminal.press("7")
        terminal.wait_for("sleep_and_return")
        terminal.press("0")
        terminal.wait_for("worker_timeout_seconds")
        terminal.press("i")
        terminal.wait_for(f"success  {3001 + seen:,}")
        terminal.wait_for("failed      4")


def _tasks_until_one_is_seen(client: Client, terminal: Tmux) -> int:
    """How many tasks ran until the page of tasks showed one: from then on every task is recorded for this watcher."""
    terminal.press("8")
    count = 0
    while "process_id" not in terminal.screen:
        client.submit(functions.process_id).result()
        count += 1
        assert count < 400
    return count


def test_the_task_log_has_every_task_of_a_large_map() -> None:
    address = free_address()
    with ExitStack() as stack:
        stack.enter_context(start_scheduler(address))
        stack.enter_context(start_cluster(address, "-n", 2))
        terminal = stack.enter_context(
            Tmux(command_line("scaler_top", default_monitor_address(address), "--page", "workers"), 100, 30)
        )
        terminal.wait_for("Total 2 worker(s)")
        terminal.press("8")
        client = stack.enter_context(Client(address))
        assert len(client.map(functions.identity, range(200_000))) == 200_000
        terminal.wait_for("200,000 executions of 200,000 tasks", 30)
        terminal.wait_for("succeeded 200,000")
        terminal.press("End")
        terminal.wait_for(" succeeded ")
        terminal.press("q")
        assert terminal.wait_for_exit() == 0


def test_what_a_real_scheduler_recorded_until_it_was_killed(tmp_path: Path) -> None:
    address = free_address()
    with ExitStack() as stack:
        scheduler = stack.enter_context(start_scheduler(address, "--event-log", tmp_path))
        scheduler.remember_family()
        stack.enter_context(start_cluster(address, "-n", 2))
        client = stack.enter_context(Client(address))
        wait_until(lambda: _recorded_tasks(tmp_path) is not None, what="recording")
        assert len(client.map(functions.identity, range(5000))) == 5000
        wait_until(lambda: _recorded_tasks(tmp_path) == 5000)
        scheduler.kill()
        terminal = stack.enter_context(Tmux(replay(tmp_path), 100, 30))
        terminal.press(*"}" * 11, "8")
        terminal.wait_for("5,000 executions of 5,000 tasks")
        terminal.press("i")
        terminal.wait_for("success  5,000")


def _recorded_tasks(folder: Path) -> int | None:
    """None: events are not recorded yet."""
    try:
        recording = Replay(folder)
    except ValueError:
        return None
    model = Model(0.0)
    for message in recording.messages(recording.start, recording.end):
        model.apply(message, 0.0)
    recording.close()
    if not model.activity.agents:
        return None
    success = model.snapshot.tasks.success if model.snapshot is not None else 0
    return min(success, model.rows("tasks", limit=0)[1])


def _squeezed(terminal: Tmux) -> str:
    return re.sub(" +", " ", terminal.screen)


def _line_with(terminal: Tmux, text: str) -> str:
    return next(line for line in terminal.coloured_screen.splitlines() if text in line)


def _top_process(terminal: Tmux) -> psutil.Process:
    def found() -> psutil.Process | None:
        children = psutil.Process(terminal.pane_pid).children(recursive=True)
        return next((child for child in children if "top" in " ".join(child.cmdline())), None)

    process = wait_until(found)
    assert process is not None
    return process
