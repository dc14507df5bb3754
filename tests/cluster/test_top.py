"""``scaler_top`` in a real terminal, fed by a real publisher with made snapshots, and by a real scheduler."""

from __future__ import annotations

import json
import os
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
from scaler_protocol.address import default_monitor_address
from scaler_protocol.monitor.feed import SNAPSHOT_KIND
from scaler_protocol.monitor.messages import PeerState
from tests.support.commands import (
    child_environment,
    command_line,
    free_address,
    run_command,
    start_cluster,
    start_scheduler,
)
from tests.support.monitoring import agent_status
from tests.support.tmux import Tmux
from tests.support.waiting import wait_until

COLUMNS = ("worker", "agt_cpu", "agt_rss", "cpu", "rss", "free", "sent", "queued", "lag")
AGENTS = (agent_status(0), agent_status(1))


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
    return command_line("scaler_top", feed.address, *flags)


def test_the_screen_at_80x24(serving: Feed) -> None:
    with Tmux(top(serving)) as terminal:
        terminal.wait_for("Total 8 worker(s)")
        lines = terminal.lines
        assert lines[0].startswith("scheduler        | task_manager        |")
        assert lines[7] == "-" * 80
        assert lines[8] == "worker[n] agt_cpu[C] agt_rss[M] cpu[c] rss[m] free[f] sent[w] queued[d] lag[l]"
        assert lines[11].split() == [
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
        assert lines[12].split()[1:] == ["0.5%", "111.0m", "2.5%", "113.0m", "998", "2", "3", "0.7ms", "100"]
        assert [line[:6] for line in lines[12:20]] == [
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
        assert lines[8].startswith("Shortcuts: worker[n]")
        assert lines[11].endswith("client_manager")
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
        assert terminal.lines[12].startswith("20000|")
        terminal.press("n")
        wait_until(lambda: terminal.lines[12].startswith("20103|"))


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
        assert "slot lent to a nested task" in terminal.wait_for("any other key goes back")
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
        assert terminal.lines[7] == "-" * 200
        terminal.resize(40, 8)
        terminal.wait_without("scheduler_received")
        terminal.wait_for("20103|")
        terminal.resize(2, 2)
        terminal.resize(100, 30)
        wait_until(lambda: terminal.lines[7] == "-" * 100)
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
        assert "this terminal cannot be used" in terminal.screen
        assert "Traceback" not in terminal.screen


def test_a_lost_scheduler_is_shown_and_picked_up_again(serving: Feed) -> None:
    with Tmux(top(serving, "--timeout", 1)) as terminal:
        terminal.wait_for("Total 8 worker(s)")
        serving.stop()
        terminal.wait_for("scheduler lost: silent for 1 s; waiting for it to come back")
        assert "Total 8 worker(s)" in terminal.screen
        serving.serve(agent_status(0, 3), epoch=8)
        terminal.wait_for("Total 3 worker(s)")
        terminal.wait_for("the scheduler has restarted")
        assert "lost" not in terminal.screen


def test_silent_agents_are_named(feed: Feed) -> None:
    feed.serve(agent_status(0), agent_status(1, state=PeerState.SUSPECT, silent_seconds=4.0))
    with Tmux(top(feed)) as terminal:
        terminal.wait_for("1 agent(s) silent, longest 10001|sd-1e7d-dfba: 4 s")


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
        terminal.wait_for("what arrives at this address is not a Scaler monitor stream")
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
    assert result.stderr == f"scaler_top: nothing heard from {feed.address} within 0.3 seconds\n"


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


# ---- with a real cluster ---------------------------------------------------------------------------------------------


def test_a_real_cluster_and_exact_counts() -> None:
    address = free_address()
    with start_scheduler(address), start_cluster(address, "-n", 2) as cluster:
        cluster.remember_family()
        with Tmux(command_line("scaler_top", default_monitor_address(address)), 130, 30) as terminal:
            terminal.wait_for("Total 2 worker(s)")
            with Client(address) as client:
                assert client.map(abs, range(-500, 0)) == list(range(500, 0, -1))
                failing = client.submit(divmod, 1, 0)
                assert isinstance(failing.exception(20), ZeroDivisionError)
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
        top_command = command_line("scaler_top", default_monitor_address(address), "-t", 1.5)
        terminal = stack.enter_context(Tmux(top_command, 100, 24))
        terminal.wait_for("Total 2 worker(s)")
        first.kill()
        terminal.wait_for("scheduler lost")
        stack.enter_context(start_scheduler(address))
        terminal.wait_without("scheduler lost")
        terminal.wait_for("Total 2 worker(s)")
        terminal.press("q")
        assert terminal.wait_for_exit() == 0


def _line_with(terminal: Tmux, text: str) -> str:
    return next(line for line in terminal.coloured_screen.splitlines() if text in line)


def _top_process(terminal: Tmux) -> psutil.Process:
    def found() -> psutil.Process | None:
        children = psutil.Process(terminal.pane_pid).children(recursive=True)
        return next((child for child in children if "top" in " ".join(child.cmdline())), None)

    process = wait_until(found)
    assert process is not None
    return process
