"""The core of a worker manager, and what its shell refuses, without processes of workers."""

from __future__ import annotations

import random
import signal
import threading
from pathlib import Path

import pytest

from scaler_protocol.command import BadInput, read_settings
from scaler_protocol.effects import Log, Send
from scaler_protocol.handshake import PeerHandshake
from scaler_protocol.log_lines import LINES_LIMIT
from scaler_protocol.messages import (
    Envelope,
    Goodbye,
    Hello,
    LogLine,
    LogLines,
    ManagerOrder,
    ManagerReport,
    RefusalReason,
    Refused,
    Role,
    Stop,
    Welcome,
    WhoAreYou,
)
from scaler_worker.core.effects import Reconnect
from scaler_worker.manager.config import ManagerSettings
from scaler_worker.manager.core.jobs import Job, JobState, StartWorkers, StopJobs
from scaler_worker.manager.core.manager import LONGEST_PAUSE_SECONDS, STABLE_SECONDS, ManagerCore
from scaler_worker.manager.core.scheduler_session import ManagerSession
from scaler_worker.manager.shell.name_lock import NameLock

ADDRESS = "tcp://127.0.0.1:1"
REPORT = ManagerReport("cloud", (), 0, 4, 1.0, 60.0, 20.0)
RUNNING, FAILED, DISMISSED = JobState.RUNNING, JobState.FAILED, JobState.DISMISSED


def running(*ids: str, workers: int = 1) -> list[Job]:
    return [Job(each, workers, RUNNING) for each in ids]


def started(workers: int, *ids: str) -> ManagerCore:
    """A core at time 0 whose jobs, of one worker each, run."""
    core = ManagerCore(workers)
    assert core.take_effects(0) == [StartWorkers(workers)]
    core.on_started(running(*ids), 0)
    core.on_observed(running(*ids), 0)
    return core


def test_missing_workers_are_started_once() -> None:
    core = ManagerCore(3)
    assert core.take_effects(0) == [StartWorkers(3)]
    core.on_started([Job("a", 2), Job("b", 1)], 0)
    assert core.take_effects(0) == []
    assert core.why_not(0) == ["3 workers are starting."]
    core.on_observed([Job("a", 2, RUNNING), Job("b", 1, RUNNING)], 1)
    assert core.take_effects(1) == [] and core.why_not(1) == []


def test_nothing_is_started_or_missed_while_jobs_cannot_be_listed() -> None:
    core = started(2, "a", "b")
    core.on_unobserved("Cannot list the jobs: squeue does not answer. Check slurmctld.", 5)
    assert core.take_effects(5) == [] and core.next_deadline() == 6
    assert core.why_not(5) == ["Cannot list the jobs: squeue does not answer. Check slurmctld."]
    core.on_observed(running("a"), 6)
    assert core.why_not(6) == ["1 worker is missing: Job b disappeared. The next attempt is in 1 s."]


def test_a_manager_whose_jobs_cannot_be_listed_does_not_end_before_they_can() -> None:
    core = ManagerCore(1)
    core.on_unobserved("Cannot list the jobs: squeue does not answer. Check slurmctld.", 0)
    core.on_stop()
    assert not core.finished
    (reason,) = core.why_not(0)
    assert reason.endswith(
        "Check slurmctld. This manager ends when its jobs can be listed and have ended, or at a second signal."
    )
    core.on_observed(running("a"), 1)
    assert core.take_effects(1) == [StopJobs(("a",))]
    core.on_observed([], 2)
    assert core.finished


def test_jobs_of_an_earlier_manager_count() -> None:
    core = ManagerCore(3)
    core.on_observed(running("a", "b"), 0)
    assert core.take_effects(0) == [StartWorkers(1)]


def test_surplus_jobs_stop_once_and_those_that_start_are_first() -> None:
    core = ManagerCore(1)
    core.on_name_granted()
    core.on_observed([*running("a"), Job("b", 1), Job("wide", 5, RUNNING)], 0)
    assert core.take_effects(0) == [StopJobs(("b", "wide"))]
    assert core.take_effects(1) == []
    core.on_observed(running("a"), 2)
    assert core.take_effects(2) == []


def test_jobs_of_another_manager_are_no_surplus_before_the_name_is_granted() -> None:
    core = ManagerCore(1)
    core.on_observed(running("a", "b"), 0)
    assert core.take_effects(0) == []
    core.on_order(1)
    assert core.take_effects(1) == [StopJobs(("a",))]


def test_a_manager_whose_name_is_taken_stops_the_jobs_that_it_has_started_itself() -> None:
    core = ManagerCore(3)
    core.on_observed(running("others"), 0)
    assert core.take_effects(0) == [StartWorkers(2)]
    core.on_started([Job("own", 2)], 0)
    core.on_name_taken()
    assert core.take_effects(1) == [StopJobs(("own",))] and not core.finished
    core.on_observed([*running("others"), Job("own", 2)], 2)
    core.check()
    assert core.take_effects(2) == [] and not core.finished
    core.on_observed(running("others"), 3)
    assert core.finished


def test_a_failed_job_is_replaced_after_a_pause() -> None:
    core = started(2, "a", "b")
    core.on_observed([*running("a"), Job("b", 1, FAILED, "exited with code 3")], 5)
    assert core.take_effects(5) == []
    assert core.why_not(5) == ["1 worker is missing: Job b exited with code 3. The next attempt is in 1 s."]
    assert core.next_deadline() == 6
    assert core.take_effects(6) == [StartWorkers(1)]


def test_a_pause_that_is_over_sets_no_deadline() -> None:
    core = started(1, "a")
    core.on_observed([], 5)
    assert core.take_effects(6) == [StartWorkers(1)]
    core.on_started(running("b"), 6)
    core.on_observed(running("b"), 7)
    assert core.next_deadline() == 8


def test_a_job_that_disappears_has_failed() -> None:
    core = started(1, "a")
    core.on_observed([], 5)
    assert core.why_not(5) == ["1 worker is missing: Job a disappeared. The next attempt is in 1 s."]


def test_pauses_double_up_to_a_limit_and_start_over_after_a_stable_time() -> None:
    core, now, pauses = ManagerCore(1), 0.0, []
    for _ in range(8):
        assert core.take_effects(now) == [StartWorkers(1)]
        core.on_start_failed("Cannot start it: it is full. Wait.", now)
        core.on_observed([], now)
        assert core.take_effects(now) == []
        while not core.take_effects(now + 1.0):
            now += 1.0
            core.on_observed([], now)
        pauses.append(now)
        now += 1.0
    gaps = [after - before for before, after in zip(pauses, pauses[1:], strict=False)]
    assert gaps == [2, 4, 8, 16, 32, LONGEST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS]
    core.on_started(running("a"), now)
    core.on_observed([Job("a", 1, FAILED, "exited with code 1")], now + STABLE_SECONDS)
    assert core.why_not(now + STABLE_SECONDS) == [
        "1 worker is missing: Job a exited with code 1. The next attempt is in 1 s."
    ]


def test_a_start_is_not_tried_before_the_time_that_its_system_gives() -> None:
    core = ManagerCore(1)
    core.on_start_failed("It is busy. Wait.", 5, wait_seconds=30)
    core.on_observed([], 34)
    assert core.why_not(34) == ["1 worker is missing: It is busy. Wait. The next attempt is in 1 s."]
    assert core.take_effects(34) == [] and core.take_effects(35) == [StartWorkers(1)]
    core.on_start_failed("It is busy. Wait.", 100, wait_seconds=1e9)
    assert core.take_effects(100 + LONGEST_PAUSE_SECONDS) == [StartWorkers(1)]


def test_failures_at_the_same_time_count_once() -> None:
    core = started(8, *"abcdefgh")
    core.on_observed([Job(each, 1, FAILED, "was ended by signal 9") for each in "abcdefgh"], 5)
    assert core.take_effects(6) == [StartWorkers(8)]


def test_a_stopped_manager_stops_its_jobs_and_finishes() -> None:
    core = started(2, "a", "b")
    core.on_stop()
    assert core.take_effects(1) == [StopJobs(("a", "b"))] and not core.finished
    core.on_observed([Job("a", 1, FAILED, "exited with code 1"), *running("b")], 2)
    assert core.take_effects(2) == [] and not core.finished and core.why_not(2) == []
    core.on_observed([], 3)
    assert core.finished


def test_a_dismissed_job_ends_the_manager() -> None:
    core = started(2, "a", "b")
    core.on_observed([Job("a", 1, DISMISSED), *running("b")], 2)
    assert core.take_effects(2) == [StopJobs(("b",))]
    core.on_observed([], 3)
    assert core.finished


@pytest.mark.parametrize("seed", range(50))
def test_the_number_of_workers_is_reached_and_never_exceeded(seed: int) -> None:
    """Jobs of random sizes start, fail and disappear at random; when this ends, all workers run."""
    chance = random.Random(seed)
    wanted, now, number = chance.randint(1, 9), 0.0, 0
    jobs: dict[str, Job] = {}
    core = ManagerCore(wanted)
    for step in range(400):
        now += chance.random()
        faulty = step < 150
        listed = list(jobs.values())
        for job in list(jobs.values()):
            if faulty and chance.random() < 0.05:
                del jobs[job.id]
                listed.remove(job)
                if chance.random() < 0.5:
                    listed.append(Job(job.id, job.workers, FAILED, "failed"))
        core.on_observed(listed, now)
        core.check()
        for effect in core.take_effects(now):
            assert isinstance(effect, StartWorkers)
            if faulty and chance.random() < 0.3:
                core.on_start_failed("Cannot start it: it is full. Wait.", now)
                continue
            count = chance.randint(1, effect.count)
            number += 1
            jobs[str(number)] = Job(str(number), count, RUNNING)
            core.on_started([jobs[str(number)]], now)
        core.check()
        assert sum(job.workers for job in jobs.values()) <= wanted
    assert sum(job.workers for job in jobs.values()) == wanted and not core.why_not(now)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (
            ["remote", "tcp://127.0.0.1:1"],
            "'remote' is not a kind of manager. Give local, ssh, slurm, gridengine, pbs, lsf, kubernetes or "
            "symphony first.",
        ),
        (["local", "tcp://127.0.0.1:1", "--name", "../x"], "'../x' is not a name of a manager."),
        (["local"], "Missing argument ADDRESS."),
    ],
)
def test_settings_that_are_refused(words: list[str], problem: str) -> None:
    with pytest.raises(BadInput, match=problem.replace(".", r"\.")):
        read_settings(ManagerSettings, words, program="scaler_worker_manager", section="manager")


def test_a_name_is_held_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCALER_HOME", str(tmp_path))
    first = NameLock("night")
    other = NameLock("day")
    with pytest.raises(BadInput, match="Cannot start the manager night: another one of this name runs"):
        NameLock("night")
    first.release()
    NameLock("night").release()
    other.release()


def test_a_name_is_waited_for_while_an_earlier_manager_ends_its_jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("SCALER_HOME", str(tmp_path))
    first = NameLock("night")
    first.tell_ending()
    with pytest.raises(BadInput, match="an earlier one of this name is still ending its jobs. Try again"):
        NameLock("night", 0.0)

    def end_when_it_waits(*_: object) -> None:
        first.release()

    monkeypatch.setattr(signal, "sigtimedwait", end_when_it_waits)
    second = NameLock("night", 60.0)
    assert [record.message for record in caplog.records] == [
        "An earlier manager night is ending its jobs: waiting until it has ended, for at most 60 s."
    ]
    monkeypatch.undo()
    monkeypatch.setenv("SCALER_HOME", str(tmp_path))
    with pytest.raises(BadInput, match="another one of this name runs"):
        NameLock("night", 60.0)
    second.release()


def test_a_signal_ends_a_manager_that_waits_for_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCALER_HOME", str(tmp_path))
    first = NameLock("night")
    first.tell_ending()
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    try:
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
        with pytest.raises(SystemExit):
            NameLock("night", 60.0)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    first.release()


# ---- following the load ----------------------------------------------------------------------------------------------


def test_an_order_changes_the_number_of_workers_within_the_bounds() -> None:
    core = ManagerCore(1, 4)
    assert core.take_effects(0) == [StartWorkers(1)]
    core.on_started(running("a"), 0)
    core.on_order(9)
    assert core.take_effects(0) == [StartWorkers(3)]
    core.on_started([Job(each, 1) for each in "bcd"], 0)
    core.on_order(0)
    core.on_observed([*running("a", "b"), Job("c", 1), Job("d", 1)], 1)
    assert core.take_effects(1) == [StopJobs(("c", "d"))]  # the scheduler drains those that run


def test_others_are_started_at_once_in_the_place_of_a_withdrawn_job() -> None:
    core = ManagerCore(2)
    assert core.take_effects(0.0) == [StartWorkers(2)]
    core.on_started([Job("a", 1), Job("b", 1)], 0.0)
    core.on_observed([Job("a", 1, JobState.WITHDRAWN), Job("b", 1)], 1.0)
    assert core.take_effects(1.0) == [StartWorkers(1)] and core.why_not(1.0) == ["1 worker is starting."]
    core.check()


def test_a_drained_job_is_not_replaced_and_the_manager_goes_on() -> None:
    core = ManagerCore(0, 4)
    core.on_order(2)
    core.on_started(running("a", "b"), 0)
    core.on_order(1)
    core.on_observed([*running("a"), Job("b", 1, DISMISSED)], 1)
    assert core.take_effects(1) == [] and not core.finished and core.why_not(1) == []


def test_options_of_scaling_that_disagree_are_refused() -> None:
    for flags, words in (
        (["--minimum-workers", "2"], "has no --maximum-workers"),
        (["--maximum-workers", "2", "-n", "2"], "follow the load and keep a number"),
        (["--minimum-workers", "3", "--maximum-workers", "2"], "not above --maximum-workers"),
    ):
        given = ["local", ADDRESS, *flags]
        settings = read_settings(ManagerSettings, given, program="scaler_worker_manager", section="manager")
        with pytest.raises(BadInput, match=words):
            settings.scales  # noqa: B018


# ---- the session with the scheduler ----------------------------------------------------------------------------------


def session() -> ManagerSession:
    """One that is welcomed at time 0 on a connection that needs no proof."""
    found = ManagerSession(Hello(Role.WORK, b"s" * 16), PeerHandshake(), 0.0)
    found.on_connected(b"", 0.0)
    (hello,) = found.take_effects()
    found.on_message(Envelope(Welcome(b"w" * 16, 1, number=hello.envelope.body.number)), 0.0)
    return found


def sent(found: ManagerSession) -> list[object]:
    return [effect.envelope.body if isinstance(effect, Send) else effect for effect in found.take_effects()]


def test_a_welcomed_manager_reports_once_a_second() -> None:
    found = session()
    for now in (0.0, 0.5, 1.0):
        found.report(REPORT, now)
    assert sent(found) == [REPORT, REPORT]


def test_a_restarted_scheduler_is_greeted_again_and_the_order_holds() -> None:
    found = session()
    found.on_message(Envelope(ManagerOrder(3)), 1.0)
    found.on_message(Envelope(WhoAreYou()), 2.0)
    found.report(REPORT, 3.0)
    assert [type(each) for each in sent(found)] == [Hello] and found.order == 3


def test_a_connection_on_which_nothing_comes_is_replaced() -> None:
    found = session()
    found.on_deadline(4.9)
    assert sent(found) == []
    found.on_deadline(5.0)
    assert sent(found) == [Reconnect()]
    found.report(REPORT, 6.0)
    assert sent(found) == []


def test_a_name_that_is_not_granted_at_once_is_logged_once() -> None:
    waiting, granted = session(), session()
    granted.report(REPORT, 0.0)
    granted.on_message(Envelope(ManagerOrder(3)), 0.1)
    granted.on_deadline(2.0)
    assert sent(granted) == [REPORT]
    waiting.report(REPORT, 0.0)
    waiting.on_deadline(0.9)
    assert sent(waiting) == [REPORT]
    for now in (1.0, 2.0):
        waiting.on_deadline(now)
    (line,) = sent(waiting)
    assert isinstance(line, Log) and line.text.startswith(f"The scheduler has not granted the name {REPORT.name} yet.")


@pytest.mark.parametrize(("reason", "is_name_taken"), [(RefusalReason.SESSION, True), (RefusalReason.MALFORMED, False)])
def test_a_name_that_is_taken_is_told_from_other_refusals(reason: RefusalReason, is_name_taken: bool) -> None:
    found = session()
    found.on_message(Envelope(Refused(reason, "The scheduler says why.")), 1.0)
    assert found.is_refused and found.is_name_taken == is_name_taken


@pytest.mark.parametrize(
    ("body", "is_refused"), [(Stop(), False), (Refused(RefusalReason.ROLE, "This key may not work."), True)]
)
def test_the_session_ends_with_its_reason(body: Stop | Refused, is_refused: bool) -> None:
    found = session()
    found.on_message(Envelope(body), 1.0)
    assert found.ended and found.is_refused == is_refused


def test_a_manager_that_ends_says_goodbye_once() -> None:
    found = session()
    found.leave()
    found.leave()
    found.report(REPORT, 1.0)
    assert sent(found) == [Goodbye()]


def test_an_old_scheduler_is_named() -> None:
    found = ManagerSession(Hello(Role.WORK, b"s" * 16), PeerHandshake(), 0.0)
    found.on_connected(b"", 0.0)
    (hello,) = found.take_effects()
    found.on_message(Envelope(Welcome(b"w" * 16, 1, minor=3, number=hello.envelope.body.number)), 0.0)
    assert found.is_refused and found.ended.endswith("Update scaler-scheduler.")


def test_reports_are_followed_by_the_lines_of_the_log() -> None:
    found = session()
    lines = [LogLine(number, 1.0, 30, "the job has failed") for number in range(3)]
    found.on_logged(lines[:2])
    found.report(REPORT, 0.0)
    found.on_logged(lines[2:])
    found.report(REPORT, 0.5)
    found.report(REPORT, 1.0)
    assert sent(found) == [REPORT, LogLines(tuple(lines[:2])), REPORT, LogLines(tuple(lines[2:]))]


def test_a_restarted_scheduler_gets_the_newest_lines_again() -> None:
    found = session()
    lines = [LogLine(number, 1.0, 30, "the job has failed") for number in range(2 * LINES_LIMIT)]
    found.on_logged(lines)
    found.report(REPORT, 0.0)
    found.on_message(Envelope(WhoAreYou()), 1.0)
    hello = sent(found)[-1]
    assert isinstance(hello, Hello)
    found.on_message(Envelope(Welcome(b"x" * 16, 2, number=hello.number)), 1.0)
    found.report(REPORT, 1.0)
    assert sent(found) == [REPORT, LogLines(tuple(lines[LINES_LIMIT:]))]
