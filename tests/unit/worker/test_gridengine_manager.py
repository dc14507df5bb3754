"""Grid Engine without its programs: what is submitted, and what answers mean."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from scaler_protocol.command import BadInput, read_settings
from scaler_worker.manager.core.batch_reasons import explain_rejection, explain_waits
from scaler_worker.manager.core.batch_system import BatchCall, BatchJob, BatchTerms, JobEnd, job_name
from scaler_worker.manager.core.gridengine import (
    GRID_ENGINE,
    gridengine_options,
    inspection,
    listing,
    read_end,
    read_ids,
    read_jobs,
    stop,
    submission,
    verification,
)
from scaler_worker.manager.core.jobs import JobState
from scaler_worker.manager.gridengine_config import GridEngineSettings

SCHEDULER = "tcp://10.0.0.1:2345"
TERMS = BatchTerms("night", SCHEDULER, 10)


def read(*words: str) -> GridEngineSettings:
    return read_settings(GridEngineSettings, ["gridengine", *words], program="scaler_worker_manager", section="manager")


def test_every_option_becomes_an_argument_of_qsub() -> None:
    settings = read(
        SCHEDULER, "-n=8", "--name=night", "--queue=long.q", "--project=physics", "--parallel-environment=smp",
        "--output=/log", "--time-limit-seconds=90min", "--cpus-per-worker=2", "--memory-per-worker=1500MiB",
        "--qsub-options=-l gpu=1 -p -100",
    )  # fmt: skip
    assert submission(settings.terms(), 4, 2).arguments == [
        "-terse", "-notify", "-w", "e", "-r", "y", "-V", "-cwd", "-j", "y", "-S", "/bin/sh",
        "-N", "scaler.night.4.f7c334ca", "-pe", "smp", "8", "-l", "h_rt=5400", "-l", "h_vmem=750M", "-o", "/log",
        "-t", "1-2", "-q", "long.q", "-P", "physics", "-l", "gpu=1", "-p", "-100",
    ]  # fmt: skip


def test_a_verification_submits_nothing_whatever_the_options_say() -> None:
    call = submission(read(SCHEDULER, "-n=1", "--name=night", "--qsub-options=-w n -p -100").terms(), 1, 1)
    words = verification(call).arguments
    assert len(words) == len(call.arguments) and words[-4:] == ["-w", "v", "-p", "-100"]
    assert [words[place + 1] for place, word in enumerate(words) if word == "-w"] == ["v", "v"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [("-N mine", "-N is set by the manager itself"), ("fast", "'fast' is not an option of qsub"), ("'", "quotation")],
)
def test_options_of_qsub_that_are_refused(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        gridengine_options(text)


@pytest.mark.parametrize(
    "words", [("-n=2",), ("-n=1", "--cpus-per-worker=2"), ("--maximum-workers=4", "--workers-per-job=2")]
)
def test_several_slots_need_a_parallel_environment(words: Sequence[str]) -> None:
    with pytest.raises(BadInput, match="Give --parallel-environment, such as smp, or --workers-per-job=1"):
        read(SCHEDULER, *words).terms()
    assert read(SCHEDULER, "--maximum-workers=4").terms().parallel_environment is None


def test_the_ids_of_accepted_jobs() -> None:
    assert read_ids("41\n", 1) == ["41"]
    assert read_ids("41.1-2:1\n", 2) == ["41.1", "41.2"]
    with pytest.raises(ValueError, match="hello"):
        read_ids("hello", 1)


def listed(*jobs: tuple[str, str, str, str]) -> str:
    lists = "".join(
        f"<job_list><JB_job_number>{number}</JB_job_number><JB_name>{name}</JB_name><state>{state}</state>"
        f"<slots>1</slots>{f'<tasks>{task}</tasks>' if task else ''}</job_list>"
        for number, task, name, state in jobs
    )
    return f"<?xml version='1.0'?><job_info><queue_info>{lists}</queue_info><job_info/></job_info>"


def test_jobs_for_other_schedulers_and_managers_are_not_listed() -> None:
    ours, theirs = job_name(TERMS, 4), job_name(BatchTerms("night", "tcp://10.0.0.2:1", 10), 4)
    text = listed(
        ("7", "1", ours, "r"), ("8", "", theirs, "r"), ("9", "", "scaler.nights.4.0", "r"), ("10", "", "x", "r")
    )
    assert read_jobs(text, TERMS) == [BatchJob("7.1", 4, JobState.RUNNING, "r")]
    assert listing(TERMS, "ann", ()) == BatchCall("qstat", ["-xml", "-g", "d", "-u", "ann"])
    with pytest.raises(ValueError, match="not XML"):
        read_jobs("error", TERMS)


@pytest.mark.parametrize(
    ("letters", "state", "advice"),
    [
        ("qw", JobState.STARTING, "no suitable slots are free. Wait, or see what is missing: qalter -w v 7"),
        ("hqw", JobState.STARTING, "they are held. Run: qrls 7"),
        ("Eqw", JobState.STARTING, "Grid Engine could not start them. Run: qstat -j 7; correct the cause"),
        ("t", JobState.RUNNING, ""),
        ("r", JobState.RUNNING, ""),
        ("Rr", JobState.RUNNING, ""),
        ("S", JobState.RUNNING, ""),
        ("dr", JobState.RUNNING, ""),
    ],
)
def test_what_the_letters_of_a_state_mean(letters: str, state: JobState, advice: str) -> None:
    (job,) = read_jobs(listed(("7", "", job_name(TERMS, 1), letters)), TERMS)
    assert job.state is state
    begin = f"1 worker waits in the queue of Grid Engine for the reason {letters}: {advice}"
    assert [each[: len(begin)] for each in explain_waits([job], GRID_ENGINE)] == ([begin] if advice else [])


def accounting(failed: str, code: int) -> str:
    return f"====\nqname        main.q\nfailed       {failed}    \nexit_status  {code}                  \n"


@pytest.mark.parametrize(
    ("text", "end"),
    [
        (accounting("0", 0), JobEnd(JobState.DISMISSED, "")),
        (accounting("0", 7), JobEnd(JobState.FAILED, "exited with code 7")),
        (
            accounting("0", 75),
            JobEnd(
                JobState.FAILED,
                "was ended by Grid Engine, at its time limit or for another job, or with its machine",
            ),
        ),
        (accounting("100 : assumedly after job", 137), JobEnd(JobState.FAILED, "was ended by signal 9")),
        (
            accounting("26  : opening input/output file", 0),
            JobEnd(JobState.FAILED, "failed: opening input/output file"),
        ),
        (accounting("25  : rescheduling", 0) + accounting("0", 0), JobEnd(JobState.DISMISSED, "")),
        ("error: job id 7 not found", None),
    ],
)
def test_what_the_accounting_tells_of_an_end(text: str, end: JobEnd | None) -> None:
    assert read_end(text) == end


def test_which_command_asks_for_an_end() -> None:
    assert inspection("7.2") == BatchCall("qacct", ["-j", "7", "-t", "2"])
    assert inspection("7") == BatchCall("qacct", ["-j", "7"])


def test_a_job_that_is_being_deleted_is_not_told_again() -> None:
    """A second qdel could shorten its grace time."""
    jobs = [BatchJob("7", 1, JobState.RUNNING, "r"), BatchJob("8", 1, JobState.RUNNING, "dr")]
    assert stop(jobs) == [BatchCall("qdel", ["7"])]
    assert stop(jobs[1:]) == []


@pytest.mark.parametrize(
    ("said", "sentence", "is_final"),
    [
        (
            'Unable to run job: Job was rejected because job requests unknown queue "x"\nExiting.\n',
            'Grid Engine rejects the jobs: job requests unknown queue "x". Give another --queue',
            True,
        ),
        (
            "Unable to run job: error: no suitable queues\nExiting.\n",
            "Grid Engine rejects the jobs: no suitable queues. Give a smaller --workers-per-job",
            True,
        ),
        (
            "Unable to run job: job rejected: Only 3 jobs are allowed per user (current job count: 3)\nExiting.\n",
            "Grid Engine does not accept the jobs: Only 3 jobs are allowed per user (current job count: 3). Wait until",
            False,
        ),
        (
            "error: commlib error: got select error (Connection refused)\nUnable to run job: unable to contact qmaster "
            'using port 6444 on host "a"\nExiting.\n',
            'Grid Engine does not accept the jobs: unable to contact qmaster using port 6444 on host "a". Check',
            False,
        ),
    ],
)
def test_a_rejection_is_explained(said: str, sentence: str, is_final: bool) -> None:
    text, final = explain_rejection(said, GRID_ENGINE)
    assert text.startswith(sentence) and final is is_final, text
