"""When the client's background thread reads, and when it waits for callers to pause."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from scaler.shell.background_reader import BackgroundReader

FEW, MANY = 4, 100


class RecordedPoller:
    """Writes down the waits. No call comes and nothing arrives while the thread waits."""

    def __init__(self, steps: list[str]) -> None:
        self._steps = steps

    def poll_waker(self, milliseconds: float | None) -> bool:
        self._steps.append("wait for a pause")
        return False

    def poll(self, until: float | None, wants_write: bool) -> None:
        self._steps.append("poll")


class BusyClient:
    """A client whose callers make ``calls`` calls while the thread polls. It ends when the thread has polled again."""

    reader: BackgroundReader

    def __init__(self, steps: list[str], calls: int, has_callback: bool) -> None:
        self._steps = steps
        submissions = SimpleNamespace(submitted=0, ask_flush=lambda: steps.append("flush"))
        self.session: Any = SimpleNamespace(submissions=submissions, next_deadline=lambda: None)
        self.leading: dict[int, int] = {}
        self.leads = 0
        self.loop_reads = self.is_over = self.wants_write = False
        self.unusable = ""
        self._calls, self._has_callback = calls, has_callback

    def read_now(self, poller: Any) -> None:
        self._steps.append("read")
        if self._steps.count("poll") == 1 and self._calls:
            self.session.submissions.submitted += self._calls
            self.reader.is_awaited = self._has_callback
            self._calls = 0
        elif self._steps.count("poll") == 2:
            self.unusable = "ended"

    def settle_notices(self) -> None:
        self._steps.append("settle")

    def end_rest(self) -> None:
        pass

    def close(self) -> None:
        pass


def steps_after_calls(calls: int, has_callback: bool) -> list[str]:
    """What the thread does once it has seen the calls."""
    steps: list[str] = []
    client = BusyClient(steps, calls, has_callback)
    client.reader = BackgroundReader(client, RecordedPoller(steps), SimpleNamespace())  # type: ignore[arg-type]
    client.reader._run(client)
    return steps[steps.index("poll") + 2 :]  # it reads once more after each poll


@pytest.mark.parametrize("calls", [1, FEW])
def test_a_result_with_a_callback_is_read_at_once(calls: int) -> None:
    assert steps_after_calls(calls, has_callback=True)[:3] == ["flush", "read", "poll"]


@pytest.mark.parametrize(("calls", "has_callback"), [(FEW, False), (MANY, True), (MANY, False)])
def test_callers_that_are_at_work_are_not_disturbed(calls: int, has_callback: bool) -> None:
    steps = steps_after_calls(calls, has_callback)
    assert "flush" not in steps
    assert steps[0] == "wait for a pause"


class DozePoller(RecordedPoller):
    """Calls that submit a task and wait for it come until the thread dozes; then one leaves a callback."""

    client: BusyClient

    def poll_waker(self, milliseconds: float | None) -> bool:
        reader, submissions = self.client.reader, self.client.session.submissions
        submissions.submitted += 50
        assert submissions.submitted < 1000, "it does not read"
        if not reader.dozes:
            self.client.leads += 50
            return False
        self._steps.append("woken")
        reader.is_awaited = True
        return True


def test_a_callback_that_ends_a_doze_is_read_at_once() -> None:
    steps: list[str] = []
    poller = DozePoller(steps)
    poller.client = client = BusyClient(steps, 0, has_callback=False)
    client.reader = BackgroundReader(client, poller, SimpleNamespace(clear=lambda: None))  # type: ignore[arg-type]
    client.reader._run(client)
    assert steps[:4] == ["woken", "flush", "read", "poll"]


def test_what_a_deferred_action_received_is_passed_on() -> None:
    steps: list[str] = []
    client = BusyClient(steps, 0, has_callback=False)
    client.unusable = "ended"
    reader = BackgroundReader(client, RecordedPoller(steps), SimpleNamespace(wake=lambda: None))  # type: ignore[arg-type]
    reader.defer(lambda: steps.append("act"))
    reader._run(client)
    assert steps == ["act", "settle"]
