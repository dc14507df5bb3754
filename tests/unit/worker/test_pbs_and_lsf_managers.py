"""PBS and LSF without their programs: what is submitted, and what answers mean."""

from __future__ import annotations

import json
from typing import Any

import pytest

from scaler_protocol.command import read_settings
from scaler_worker.manager.core import lsf, pbs
from scaler_worker.manager.core.batch_reasons import explain_rejection, explain_unlisted, explain_waits
from scaler_worker.manager.core.batch_system import BatchCall, BatchJob, BatchSystem, BatchTerms, job_name
from scaler_worker.manager.core.jobs import JobState
from scaler_worker.manager.lsf_config import LSFSettings
from scaler_worker.manager.pbs_config import PBSSettings

SCHEDULER = "tcp://10.0.0.1:2345"
TERMS = BatchTerms("night", SCHEDULER, 10)
CHECKSUM = "f7c334ca"

COMMON = (
    SCHEDULER, "-n=8", "--name=night", "--queue=long", "--project=cold", "--output=/log",
    "--time-limit-seconds=90min", "--cpus-per-worker=2", "--memory-per-worker=1500MiB",
)  # fmt: skip


def test_every_option_becomes_an_argument_of_qsub() -> None:
    words = ["pbs", *COMMON, "--account=physics", "--resources=ngpus=1", "--qsub-options=-l place=excl"]
    settings = read_settings(PBSSettings, words, program="scaler_worker_manager", section="manager")
    assert pbs.submission(settings.terms(), 4, 2).arguments == [
        "-N", "scaler.night", "-S", "/bin/sh", "-j", "oe", "-r", "y", "-V", "-v", f"SCALER_JOB=4.{CHECKSUM}",
        "-l", "select=1:ncpus=8:mem=6000mb:ngpus=1", "-l", "walltime=5400", "-o", "/log", "-J", "0-1",
        "-q", "long", "-A", "physics", "-P", "cold", "-l", "place=excl",
    ]  # fmt: skip


def test_every_option_becomes_an_argument_of_bsub() -> None:
    words = ["lsf", *COMMON, "--bsub-options=-gpu num=1"]
    settings = read_settings(LSFSettings, words, program="scaler_worker_manager", section="manager")
    assert lsf.submission(settings.terms(), 4, 2).arguments == [
        "-J", f"scaler.night.4.{CHECKSUM}[1-2]", "-n", "8", "-R", "span[hosts=1]", "-r", "-env", "all",
        "-R", "rusage[mem=6000MB]", "-M", "6000MB", "-W", "90", "-o", "/log", "-q", "long", "-P", "cold",
        "-gpu", "num=1",
    ]  # fmt: skip


def test_options_that_the_manager_sets_are_refused() -> None:
    with pytest.raises(ValueError, match="-N is set by the manager itself"):
        pbs.pbs_options("-N mine")
    with pytest.raises(ValueError, match="-J is set by the manager itself"):
        lsf.bsub_options("-J mine")


def test_at_its_start_a_manager_asks_for_the_queue_that_jobs_get() -> None:
    for system, command in ((pbs.PBS, ["qstat", "-Q"]), (lsf.LSF, ["bqueues"])):
        call = system.verify(BatchCall("submit", ["-q", "long", "-P", "-q", "-q", "short"], "script"))
        assert call is not None and [call.program, *call.arguments] == [*command, "short"] and not call.script
        assert system.verify(BatchCall("submit", ["-P", "cold"])) is None


def test_the_ids_of_accepted_jobs() -> None:
    assert pbs.read_ids("41.server\n", 1) == ["41.server"]
    assert pbs.read_ids("41[].server\n", 2) == ["41[0].server", "41[1].server"]
    assert lsf.read_ids("Job <41> is submitted to default queue <normal>.\n", 1) == ["41"]
    assert lsf.read_ids("Job <41> is submitted to queue <long>.\n", 2) == ["41[1]", "41[2]"]
    for read in (pbs.read_ids, lsf.read_ids):
        with pytest.raises(ValueError, match="hello"):
            read("hello", 1)


# ---- PBS -------------------------------------------------------------------------------------------------------------


def pbs_job(**values: Any) -> list[BatchJob]:
    job = {"Job_Name": "scaler.night", "Variable_List": {"SCALER_JOB": f"4.{CHECKSUM}"}, **values}
    return pbs.read_jobs(json.dumps({"Jobs": {"7.server": job}}), TERMS)


@pytest.mark.parametrize(
    ("values", "job"),
    [
        ({"job_state": "R"}, BatchJob("7.server", 4, JobState.RUNNING)),
        ({"job_state": "S"}, BatchJob("7.server", 4, JobState.RUNNING)),
        ({"job_state": "E"}, BatchJob("7.server", 4, JobState.RUNNING, is_ending=True)),
        ({"job_state": "Q", "comment": "Not Running: x"}, BatchJob("7.server", 4, JobState.STARTING, "x")),
        ({"job_state": "H", "Hold_Types": "u"}, BatchJob("7.server", 4, JobState.STARTING, "Hold_Types u")),
        ({"job_state": "F", "Exit_status": 0}, BatchJob("7.server", 4, JobState.DISMISSED)),
        (
            {"job_state": "F", "Exit_status": 265},
            BatchJob("7.server", 4, JobState.FAILED, end="was ended by signal 9"),
        ),
        (
            {"job_state": "F", "Exit_status": -29},
            BatchJob(
                "7.server", 4, JobState.FAILED,
                end="reached its time limit before its workers had ended. Give a larger --time-limit-seconds",
            ),
        ),
        (
            {"job_state": "X"},
            BatchJob(
                "7.server", 4, JobState.FAILED, end="was deleted. Stop the manager to delete all of its jobs"
            ),
        ),
    ],
)  # fmt: skip
def test_what_a_state_of_pbs_means(values: dict[str, Any], job: BatchJob) -> None:
    assert pbs_job(**values) == [job]


def test_jobs_of_an_array_have_its_comment_and_other_jobs_are_skipped() -> None:
    mine, other = {"SCALER_JOB": f"4.{CHECKSUM}"}, {"SCALER_JOB": "4.00000000"}
    jobs = {
        "7[].server": {"job_state": "B", "comment": "Not Running: Insufficient amount of resource: ncpus"},
        "7[0].server": {"job_state": "Q", "Variable_List": mine, "Job_Name": "scaler.night"},
        "8.server": {"job_state": "R", "Variable_List": other, "Job_Name": "scaler.night"},
        "9.server": {"job_state": "R", "Variable_List": mine, "Job_Name": "scaler.Night"},
        "10.server": {"job_state": "R", "Job_Name": "scaler.night"},
    }
    (job,) = pbs.read_jobs(json.dumps({"Jobs": jobs}), TERMS)
    assert (job.id, job.reason) == ("7[0].server", "Insufficient amount of resource: ncpus")
    assert pbs.read_jobs("", TERMS) == []
    with pytest.raises(ValueError, match="not JSON"):
        pbs.read_jobs('{"Jobs": ', TERMS)


# ---- LSF -------------------------------------------------------------------------------------------------------------


def lsf_job(**values: str) -> list[BatchJob]:
    record = {"JOBID": "7", "JOBINDEX": "0", "JOB_NAME": job_name(TERMS, 4), **values}
    return lsf.read_jobs(json.dumps({"COMMAND": "bjobs", "JOBS": 1, "RECORDS": [record]}), TERMS)


@pytest.mark.parametrize(
    ("values", "job"),
    [
        ({"STAT": "RUN"}, BatchJob("7", 4, JobState.RUNNING)),
        ({"STAT": "USUSP"}, BatchJob("7", 4, JobState.RUNNING)),
        ({"STAT": "RUN", "JOBINDEX": "2"}, BatchJob("7[2]", 4, JobState.RUNNING)),
        ({"STAT": "PEND", "PEND_REASON": "No slots;"}, BatchJob("7", 4, JobState.STARTING, "No slots")),
        ({"STAT": "PSUSP"}, BatchJob("7", 4, JobState.STARTING, "PSUSP")),
        ({"STAT": "DONE"}, BatchJob("7", 4, JobState.DISMISSED)),
        ({"STAT": "EXIT", "EXIT_CODE": "137"}, BatchJob("7", 4, JobState.FAILED, end="was ended by signal 9")),
        (
            {"STAT": "EXIT", "EXIT_CODE": "75"},
            BatchJob(
                "7",
                4,
                JobState.FAILED,
                end="was ended by LSF, at its time limit or for another job, or with its machine",
            ),
        ),
        (
            {"STAT": "EXIT", "EXIT_CODE": "140", "EXIT_REASON": "TERM_PREEMPT: x"},
            BatchJob("7", 4, JobState.FAILED, end="was preempted by another job"),
        ),
    ],
)
def test_what_a_state_of_lsf_means(values: dict[str, str], job: BatchJob) -> None:
    assert lsf_job(**values) == [job]


def test_other_jobs_of_lsf_are_skipped() -> None:
    assert lsf_job(STAT="RUN", JOB_NAME="mine") == []
    assert lsf.read_jobs("", TERMS) == []
    with pytest.raises(ValueError, match="not JSON"):
        lsf.read_jobs("No job", TERMS)


# ---- both ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("system", "commands"),
    [
        (pbs.PBS, [BatchCall("qdel", ["1"]), BatchCall("qsig", ["-s", "SIGUSR1", "2"])]),
        (lsf.LSF, [BatchCall("bkill", ["1"]), BatchCall("bkill", ["-s", "USR1", "2"])]),
    ],
)
def test_jobs_that_wait_are_removed_and_those_that_run_get_a_signal(
    system: BatchSystem, commands: list[BatchCall]
) -> None:
    waiting, running = BatchJob("1", 1), BatchJob("2", 1, JobState.RUNNING)
    assert system.stop([waiting, running]) == commands
    assert system.stop([waiting]) == commands[:1] and system.stop([running]) == commands[1:]


@pytest.mark.parametrize(
    ("system", "said", "sentence", "is_final"),
    [
        (pbs.PBS, "qsub: Unknown queue", "PBS rejects the jobs: Unknown queue. Give another --queue", True),
        (
            pbs.PBS,
            "qsub: Job exceeds queue and/or server resource limits",
            "PBS rejects the jobs: Job exceeds queue and/or server resource limits. Give a smaller",
            True,
        ),
        (
            pbs.PBS,
            "qsub: Job violates queue and/or server resource limits",
            "PBS rejects the jobs: Job violates queue and/or server resource limits. Give a smaller",
            True,
        ),
        (
            pbs.PBS,
            "qsub: Job rejected by all possible destinations",
            "PBS rejects the jobs: Job rejected by all possible destinations. Give a smaller",
            True,
        ),
        (
            pbs.PBS,
            "qsub: Array job exceeds server or queue size limit",
            "PBS rejects the jobs: Array job exceeds server or queue size limit. Give a larger --workers-per-job",
            True,
        ),
        (pbs.PBS, "qsub: Invalid Account", "PBS rejects the jobs: Invalid Account. Give another --account", True),
        (
            pbs.PBS,
            "qsub: Access to queue is denied",
            "PBS rejects the jobs: Access to queue is denied. Give another --queue",
            True,
        ),
        (
            pbs.PBS,
            "qsub: Access from host not allowed, or unknown host",
            "PBS rejects the jobs: Access from host not allowed, or unknown host. Ask the administrators",
            True,
        ),
        (
            pbs.PBS,
            "qsub: Queue is not enabled",
            "PBS does not accept the jobs: Queue is not enabled. Wait, or give another --queue",
            False,
        ),
        (
            pbs.PBS,
            "qsub: Maximum number of jobs already in queue",
            "PBS does not accept the jobs: Maximum number of jobs already in queue. Wait until",
            False,
        ),
        (
            lsf.LSF,
            "RUNLIMIT: Cannot exceed queue's hard limit(s). Job not submitted.",
            "LSF rejects the jobs: RUNLIMIT: Cannot exceed queue's hard limit(s). Job not submitted. Give a smaller "
            "--time-limit-seconds",
            True,
        ),
        (
            lsf.LSF,
            "night: Queue has been closed. Job not submitted.",
            "LSF does not accept the jobs: Queue has been closed. Job not submitted. Wait, or give another --queue",
            False,
        ),
        (
            pbs.PBS,
            "qsub: would exceed queue generic's per-user limit of jobs in 'Q' state",
            "PBS does not accept the jobs: would exceed queue generic's per-user limit of jobs in 'Q' state. Wait",
            False,
        ),
        (
            pbs.PBS,
            "qsub: cannot connect to server a (errno=111)",
            "PBS does not accept the jobs: cannot connect to server a (errno=111). Check with qstat -B",
            False,
        ),
        (
            lsf.LSF,
            "x: No such queue. Job not submitted.",
            "LSF rejects the jobs: No such queue. Job not submitted. Give another --queue",
            True,
        ),
        (
            lsf.LSF,
            "Pending job threshold reached. Retrying in 60 seconds...",
            "LSF does not accept the jobs: Pending job threshold reached. Retrying in 60 seconds. Wait until",
            False,
        ),
        (
            lsf.LSF,
            "LSF is down. Please wait ...",
            "LSF does not accept the jobs: LSF is down. Please wait . Check with lsid",
            False,
        ),
    ],
)
def test_a_rejection_is_explained(system: BatchSystem, said: str, sentence: str, is_final: bool) -> None:
    text, final = explain_rejection(said, system)
    assert text.startswith(sentence) and final is is_final, text


def test_commands_of_torque_are_recognized() -> None:
    said = "qselect: invalid option -- 'x'\nusage: qselect [-a [op]date_time]\n"
    assert explain_unlisted(said, pbs.PBS) == (
        "Cannot list the jobs of PBS: invalid option -- 'x'. These are commands of Torque or of an old PBS. "
        "Use OpenPBS, or PBS Professional 14 or later."
    )
    assert explain_unlisted("qselect: cannot connect to server a (errno=111)\n", pbs.PBS).endswith(pbs.PBS.check)


@pytest.mark.parametrize(
    ("system", "reason", "advice"),
    [
        (pbs.PBS, "Hold_Types u", "they are held. Run: qrls 7"),
        (pbs.PBS, "Hold_Types s", "an operator holds them."),
        (pbs.PBS, "Insufficient amount of resource: ncpus (R: 9 A: 1 T: 2)", "no suitable nodes are free."),
        (pbs.PBS, "Can Never Run: Insufficient amount of resource", "no node suffices."),
        (pbs.PBS, "something", "Run: qstat -f 7"),
        (lsf.LSF, "PSUSP", "they are held. Run: bresume 7"),
        (lsf.LSF, "User has reached the per-user job slot limit of the queue", "a limit is reached."),
        (lsf.LSF, "The queue is closed by its administrator", "the queue is closed."),
        (lsf.LSF, "Not enough job slots in host", "no suitable hosts are free."),
    ],
)
def test_a_job_that_waits_is_explained(system: BatchSystem, reason: str, advice: str) -> None:
    (sentence,) = explain_waits([BatchJob("7", 1, JobState.STARTING, reason)], system)
    begin = f"1 worker waits in the queue of {system.title} for the reason {reason}: {advice}"
    assert sentence.startswith(begin), sentence
