"""A command that is started again: when it was killed or is broken, and not for ever."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from scaler_protocol.command import BadInput, SupervisedCommand
from scaler_protocol.command.supervised import (
    EARLY_LIMIT,
    EARLY_SECONDS,
    FIRST_PAUSE_SECONDS,
    LONGEST_PAUSE_SECONDS,
    RestartPolicy,
)
from scaler_protocol.command.turn_guard import BROKEN_CODE
from tests.support.commands import alive
from tests.support.waiting import wait_until

HERE = Path(__file__).parent
MODULE = "command_under_test"
Make = Callable[..., SupervisedCommand]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    monkeypatch.syspath_prepend(str(HERE))
    made: list[SupervisedCommand] = []

    def make(what: str = "serve", **settings: object) -> SupervisedCommand:
        mark = tmp_path / f"mark-{len(made)}"
        mark.touch()
        arguments = [what, f"--mark={mark}", "-lp", "/dev/null"]
        made.append(SupervisedCommand(MODULE, arguments, "the command", **settings))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for each in made:
        each.kill()


def another_pid(command: SupervisedCommand, pid: int | None) -> int:
    def found() -> int | None:
        return command.pid if command.pid != pid and command.is_alive else None

    return wait_until(found) or 0


@pytest.mark.parametrize("code", [0, 1, 2, 130])
def test_a_command_that_ends_by_itself_is_not_started_again(code: int) -> None:
    assert RestartPolicy().pause_after(code, 0.0) is None


@pytest.mark.parametrize("code", [BROKEN_CODE, -signal.SIGKILL, -signal.SIGSEGV, -signal.SIGABRT])
def test_one_that_is_broken_or_was_killed_is_started_after_growing_pauses_and_given_up(code: int) -> None:
    policy = RestartPolicy()
    pauses = [policy.pause_after(code, 0.5) for _ in range(EARLY_LIMIT)]
    assert pauses == [FIRST_PAUSE_SECONDS * 2**index for index in range(EARLY_LIMIT - 1)] + [None]


def test_one_that_has_run_for_a_while_is_not_given_up() -> None:
    policy = RestartPolicy()
    for _ in range(50):
        assert policy.pause_after(-signal.SIGKILL, EARLY_SECONDS) == FIRST_PAUSE_SECONDS
        pause = policy.pause_after(-signal.SIGKILL, 0.0)
        assert pause is not None and pause <= LONGEST_PAUSE_SECONDS


def test_a_killed_command_is_started_again(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    command = make()
    command.start()
    pid = command.wait_ready()["pid"]
    for _ in range(2):
        os.kill(pid, signal.SIGKILL)
        pid = another_pid(command, pid)
        assert command.exit_code is None
    assert caplog.text.count("the command ended by signal 9: restarting it.") == 2
    command.terminate()
    command.join(20)
    assert command.exit_code is not None and not alive(pid)


def test_what_the_first_start_found_is_given_to_the_next(make: Make, tmp_path: Path) -> None:
    renewed: list[object] = []

    def note(facts: dict[str, object]) -> list[str]:
        renewed.append(facts["pid"])
        return ["serve", f"--mark={tmp_path / 'mark-0'}", "-lp", "/dev/null"]

    command = make(renewed=note)
    command.start()
    pid = command.wait_ready()["pid"]
    os.kill(pid, signal.SIGKILL)
    another_pid(command, pid)
    assert renewed == [pid]


def test_one_that_is_told_to_end_is_not_started_again(make: Make) -> None:
    command = make()
    command.start()
    command.wait_ready()
    command.terminate()
    command.join(20)
    assert command.exit_code == 0 and not command.is_alive


def test_one_that_is_told_to_end_while_it_waits_to_be_started_is_not(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RestartPolicy, "pause_after", lambda self, code, seconds: 600.0)
    command = make()
    command.start()
    os.kill(command.wait_ready()["pid"], signal.SIGKILL)
    wait_until(lambda: not command.is_alive)
    assert command.exit_code is None
    with pytest.raises(TimeoutError):
        command.join(0.05)
    command.terminate()
    command.join(20)
    assert command.exit_code == -signal.SIGKILL


def test_one_that_never_gets_ready_is_given_up_with_its_code(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    command = make("broken")
    command.start()
    command.join(60)
    assert command.exit_code == BROKEN_CODE
    assert caplog.text.count("restarting it") == EARLY_LIMIT - 1
    assert f"ended with code {BROKEN_CODE}, the last of {EARLY_LIMIT} times: it will not be restarted." in caplog.text
    command.start()  # whoever insists
    assert command.exit_code is None


def test_bad_input_is_told_once(make: Make) -> None:
    command = make("refuse")
    command.start()
    with pytest.raises(BadInput):
        command.wait_ready()
    command.join(20)
    assert command.exit_code == 2


def test_nothing_is_logged_through_a_handler_that_nobody_wanted(make: Make) -> None:
    handlers = list(logging.getLogger().handlers)
    command = make()
    command.start()
    pid = command.wait_ready()["pid"]
    os.kill(pid, signal.SIGKILL)
    another_pid(command, pid)
    assert logging.getLogger().handlers == handlers
