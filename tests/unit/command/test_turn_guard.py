"""One failed turn is survived; a process in which every turn fails exits and says why."""

from __future__ import annotations

import pytest

from scaler_protocol.command.turn_guard import BROKEN_CODE, MEMORY_SECONDS, TurnGuard


def fail(guard: TurnGuard) -> None:
    with guard:
        raise KeyError("broken")


def succeed(guard: TurnGuard) -> None:
    with guard:
        pass


def test_a_failed_turn_is_logged_and_survived(caplog):
    fail(TurnGuard("Agent"))
    assert "Agent: a turn failed." in caplog.text
    assert "KeyError: 'broken'" in caplog.text


def test_failures_with_a_success_between_them_are_survived():
    guard = TurnGuard("Agent", limit=3)
    for _ in range(5):
        fail(guard)
        fail(guard)
        succeed(guard)


def test_failures_in_a_row_end_the_process_with_a_diagnosis(caplog):
    guard = TurnGuard("Agent", limit=3)
    fail(guard)
    fail(guard)
    with pytest.raises(SystemExit) as exit_:
        fail(guard)
    assert exit_.value.code == BROKEN_CODE
    assert "Agent: 3 consecutive turns failed" in caplog.text


def test_an_inner_turn_that_succeeds_does_not_hide_that_the_outer_one_failed():
    guard = TurnGuard("Agent", limit=2)
    for _ in range(2):
        try:
            with guard:
                succeed(guard)
                raise KeyError
        except SystemExit:
            return
    raise AssertionError("the process went on")


def test_an_interruption_passes_through_and_counts_as_no_failure():
    guard = TurnGuard("Agent", limit=1)
    with pytest.raises(KeyboardInterrupt), guard:
        raise KeyboardInterrupt
    assert guard.failures == 0


def lack_memory(guard: TurnGuard) -> None:
    with guard:
        raise MemoryError


def test_turns_that_lack_memory_end_the_process_whatever_succeeds_between_them(caplog):
    guard = TurnGuard("Agent", limit=3)
    lack_memory(guard)
    succeed(guard)
    lack_memory(guard)
    succeed(guard)
    with pytest.raises(SystemExit) as exit_:
        lack_memory(guard)
    assert exit_.value.code == BROKEN_CODE
    assert "Agent: 3 turns failed for lack of memory, so this process exits" in caplog.text
    assert "Agent: a turn failed. This process has no memory left. Free memory" in caplog.text
    assert "Traceback" not in caplog.text


def test_a_lack_of_memory_that_is_long_over_does_not_count(monkeypatch):
    guard = TurnGuard("Agent", limit=2)
    for number in range(5):
        monkeypatch.setattr("time.monotonic", lambda number=number: (number + 1) * MEMORY_SECONDS)
        lack_memory(guard)
        succeed(guard)


def test_a_turn_without_memory_for_the_log_counts_all_the_same(monkeypatch):
    def log(*arguments, **options):
        raise MemoryError

    monkeypatch.setattr("logging.error", log)
    monkeypatch.setattr("logging.critical", log)
    with pytest.raises(SystemExit):
        lack_memory(TurnGuard("Agent", limit=1))
