"""The kinds of batch systems without their programs: what is submitted, what answers mean, and which jobs end."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from scaler_protocol.command import BadInput, read_settings
from scaler_worker.manager.backend import ListError, StartError
from scaler_worker.manager.core.batch_reasons import explain_exit, explain_rejection, explain_unlisted, explain_waits
from scaler_worker.manager.core.batch_script import STOPPED_CODE, job_script
from scaler_worker.manager.core.batch_system import BatchCall, BatchJob, BatchSystem, BatchTerms, JobEnd
from scaler_worker.manager.core.jobs import Job, JobState
from scaler_worker.manager.core.slurm import (
    SLURM,
    job_comment,
    meaning_of,
    read_end,
    read_ids,
    read_jobs,
    sbatch_options,
    submission,
)
from scaler_worker.manager.gridengine_config import GridEngineSettings
from scaler_worker.manager.shell import batch, batch_commands, batch_route
from scaler_worker.manager.shell.batch import LISTING_SECONDS, REPEAT_SECONDS, VANISHED_SECONDS, BatchBackend
from scaler_worker.manager.shell.batch_commands import BatchAnswer, command_environment, job_environment, run_batch
from scaler_worker.manager.slurm_config import SlurmSettings

SCHEDULER = "tcp://10.0.0.1:2345"
TERMS = BatchTerms("night", SCHEDULER, 10)


def read(*words: str) -> SlurmSettings:
    return read_settings(SlurmSettings, ["slurm", *words], program="scaler_worker_manager", section="manager")


# ---- what is submitted -----------------------------------------------------------------------------------------------


def test_every_option_becomes_an_argument_of_sbatch() -> None:
    settings = read(
        SCHEDULER, "-n=8", "--name=night", "--partition=long", "--account=physics", "--qos=low", "--output=/log/%A",
        "--time-limit-seconds=90min", "--cpus-per-worker=2", "--memory-per-worker=1500MiB", "--grace-seconds=60",
        "--sbatch-options=--constraint='a,b' --gres=gpu:1",
    )  # fmt: skip
    assert submission(settings.terms(), 4, 2).arguments == [
        "--parsable", "--requeue", "--job-name=scaler:night",
        "--comment=scaler workers=4 scheduler=tcp://10.0.0.1:2345", "--nodes=1", "--ntasks=1", "--cpus-per-task=8",
        "--mem=6000M", "--time=90", "--signal=B:TERM@90", "--export=ALL", "--output=/log/%A", "--array=0-1",
        "--partition=long", "--account=physics", "--qos=low", "--constraint=a,b", "--gres=gpu:1",
    ]  # fmt: skip


def test_without_options_the_configuration_of_slurm_decides() -> None:
    assert submission(BatchTerms("a", SCHEDULER, 10), 1, 1).arguments == [
        "--parsable", "--requeue", "--job-name=scaler:a", "--comment=scaler workers=1 scheduler=tcp://10.0.0.1:2345",
        "--nodes=1", "--ntasks=1", "--cpus-per-task=1", "--signal=B:TERM@40", "--export=ALL",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("--job-name=mine", "--job-name is set by the manager itself"),
        ("--signal=KILL", "--signal is set by the manager itself"),
        ("fast", "'fast' is not an option of sbatch"),
        ("-p fast", "'-p' is not an option of sbatch"),
        ("--comment='", "No closing quotation"),
    ],
)
def test_options_of_sbatch_that_are_refused(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        sbatch_options(text)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ((SCHEDULER,), "give their number with --num-of-workers or --maximum-workers"),
        ((SCHEDULER, "-wn=a,b"), "Leave out --worker-names"),
        (("tcp://127.0.0.1:1", "-n=1"), "other hosts cannot reach the scheduler at tcp://127.0.0.1:1"),
        ((SCHEDULER, "-n=1", "--time-limit-seconds=60", "--grace-seconds=30"), "begin to drain 60 s before"),
    ],
)
def test_settings_that_are_refused(words: Sequence[str], problem: str) -> None:
    with pytest.raises(BadInput, match=problem):
        settings = read(*words)
        assert settings.worker_count and settings.terms()


def run_script(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["sh"], input=script, capture_output=True, text=True, timeout=30)


def test_a_job_ends_with_the_exit_code_of_its_command() -> None:
    assert run_script(job_script(["sh", "-c", "exit 7"], None, SLURM.traps)).returncode == 7
    assert run_script(job_script(["true"], "echo loaded", SLURM.traps)).stdout == "loaded\n"


@pytest.mark.parametrize(("number", "ends_with", "code"), [("TERM", 0, STOPPED_CODE), ("TERM", 3, 3), ("USR1", 0, 0)])
def test_a_job_passes_a_signal_on_and_waits(number: str, ends_with: int, code: int) -> None:
    """The command tells its shell's process id only when it is ready, so that no signal is too early."""
    program = f"trap 'echo drained; exit {ends_with}' TERM; kill -{number} $PPID; while :; do sleep 0.05; done"
    done = run_script(job_script(["sh", "-c", program], None, SLURM.traps))
    assert (done.stdout, done.returncode) == ("drained\n", code)


def test_jobs_get_no_other_variables() -> None:
    kept = {"HOME": "/h", "SCALER_KEYS": "/h/keys", "SLURM_CONF": "/c", "SBATCH_ACCOUNT": "physics"}
    assert job_environment(SLURM, {**kept, "AWS_SECRET": "x", "SLURM_JOB_ID": "7", "SBATCH_EXPORT": "NONE"}) == kept


def test_a_manager_that_runs_in_a_job_does_not_pass_its_terms_on() -> None:
    own = {"SLURM_CONF": "/c", "SLURM_CPUS_PER_TASK": "4", "SQUEUE_FORMAT": "x", "SBATCH_ACCOUNT": "a", "HOME": "/h"}
    assert command_environment(SLURM, own) == {"SLURM_CONF": "/c", "SBATCH_ACCOUNT": "a", "HOME": "/h"}


# ---- the answers of the commands -------------------------------------------------------------------------------------


def listing(
    *jobs: tuple[str, str, str], workers: int = 1, address: str = SCHEDULER, name: str = f"scaler:{TERMS.name}"
) -> str:
    comment = job_comment(workers, address)
    return "".join(f"{id}|{state}|{reason}|{name}|{comment}\n" for id, state, reason in jobs)


def test_jobs_of_other_managers_and_schedulers_are_not_listed() -> None:
    """squeue lists jobs of all names that differ in case only."""
    ours = listing(("7_0", "RUNNING", "None"), workers=4)
    others = listing(("8", "RUNNING", "None"), address="tcp://10.0.0.2:1")
    alike = listing(("9", "RUNNING", "None"), name=f"scaler:{TERMS.name.upper()}")
    assert read_jobs(ours + others + alike + "9|RUNNING|None|scaler:x|mine\nnonsense\n", TERMS) == [
        BatchJob("7_0", 4, JobState.RUNNING, "None")
    ]


@pytest.mark.parametrize(
    ("state", "meaning"),
    [
        ("PENDING", JobState.STARTING),
        ("CONFIGURING", JobState.STARTING),
        ("REQUEUED", JobState.STARTING),
        ("RUNNING", JobState.RUNNING),
        ("SUSPENDED", JobState.RUNNING),
        ("COMPLETING", JobState.RUNNING),
        ("COMPLETED", JobState.DISMISSED),
        ("CANCELLED", JobState.FAILED),
        ("TIMEOUT", JobState.FAILED),
        ("NODE_FAIL", JobState.FAILED),
        ("A_STATE_OF_A_LATER_SLURM", JobState.FAILED),
    ],
)
def test_what_a_state_means(state: str, meaning: JobState) -> None:
    assert meaning_of(state) is meaning


def test_the_ids_of_accepted_jobs() -> None:
    assert read_ids("41\n", 1) == ["41"]
    assert read_ids("sbatch: a note of a plugin\n41;north\n", 2) == ["41_0", "41_1"]
    with pytest.raises(ValueError, match="hello"):
        read_ids("hello", 1)


def test_what_scontrol_shows() -> None:
    text = "JobId=7 JobName=scaler:a ExitCode=75:0 DerivedExitCode=0:0 StdOut=/home/ann/slurm-7.out Power="
    assert read_end(text) == JobEnd(
        JobState.FAILED, "was ended by Slurm, at its time limit or for another job, or with its machine"
    )
    assert read_end("") is None


def waits(reason: str) -> str:
    jobs = [BatchJob(id, 4, JobState.STARTING, reason) for id in ("7_0", "7_1")]
    (sentence,) = explain_waits(jobs, SLURM)
    return sentence


@pytest.mark.parametrize(
    ("reason", "advice"),
    [
        ("Resources", "no suitable nodes are free."),
        ("ReqNodeNotAvail, UnavailableNodes:n1", "no suitable nodes are free."),
        ("Priority", "jobs with a higher priority wait, too."),
        ("QOSMaxCpuPerUserLimit", "a limit of the quality of service is reached."),
        ("AssocGrpCpuLimit", "a limit of the account is reached."),
        ("InvalidAccount", "the account may not run them."),
        ("InvalidQOS", "the quality of service may not be used."),
        ("JobHeldUser", "they are held. Run: scontrol release 7_0 7_1"),
        ("JobHeldAdmin", "an administrator holds them."),
        ("launch failed requeued held", "Slurm holds them after a failed start."),
        ("PartitionDown", "the partition is closed."),
        ("PartitionTimeLimit", "the partition allows less time."),
        ("BeginTime", "they may not begin yet."),
        ("SomethingLater", "See: man squeue"),
    ],
)
def test_a_job_that_waits_is_explained(reason: str, advice: str) -> None:
    assert waits(reason).startswith(f"8 workers wait in the queue of Slurm for the reason {reason}: {advice}")


def test_jobs_that_run_or_have_no_reason_yet_are_not_explained() -> None:
    jobs = [BatchJob("1", 1, JobState.RUNNING, "Resources"), BatchJob("2", 1, JobState.STARTING, "None")]
    assert explain_waits(jobs, SLURM) == []


@pytest.mark.parametrize(
    ("said", "sentence", "is_final"),
    [
        (
            "sbatch: error: invalid partition specified: x\n"
            "sbatch: error: Batch job submission failed: Invalid partition name specified",
            "Slurm rejects the jobs: Invalid partition name specified. Give another --partition; sinfo shows",
            True,
        ),
        (
            "sbatch: error: Batch job submission failed: Invalid account or account/partition combination specified",
            "Slurm rejects the jobs: Invalid account or account/partition combination specified. Give another "
            "--account",
            True,
        ),
        (
            "sbatch: error: Batch job submission failed: Requested node configuration is not available",
            "Slurm rejects the jobs: Requested node configuration is not available. Give a smaller --workers-per-job",
            True,
        ),
        (
            "sbatch: error: Batch job submission failed: Requested time limit is invalid (missing or exceeds some "
            "limit)",
            "Slurm rejects the jobs: Requested time limit is invalid (missing or exceeds some limit). Give a smaller "
            "--time-limit-seconds",
            True,
        ),
        (
            "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit limit, user's "
            "size and/or time limits)",
            "Slurm does not accept the jobs: Job violates accounting/QOS policy (job submit limit, user's size and/or "
            "time limits). Wait until other jobs have ended",
            False,
        ),
        (
            "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)",
            "Slurm does not accept the jobs: Unable to contact slurm controller (connect failure). Check with sinfo",
            False,
        ),
        ("", "Slurm does not accept the jobs: it gives no reason. Ask the administrators", False),
    ],
)
def test_a_rejection_is_explained(said: str, sentence: str, is_final: bool) -> None:
    text, final = explain_rejection(said, SLURM)
    assert text.startswith(sentence) and final is is_final


def test_ends_and_failed_listings_are_explained() -> None:
    assert (
        explain_exit(75, 0, "/o", "Slurm")
        == "was ended by Slurm, at its time limit or for another job, or with its machine"
    )
    assert explain_exit(0, 9, "/o", "Slurm") == "was ended by signal 9. See /o"
    assert (
        explain_exit(127, 0, "", "Slurm")
        == "exited with code 127 because its node has no such Python. Give --remote-python"
    )
    assert explain_unlisted("squeue: error: slurm_load_jobs: x", SLURM) == (
        "Cannot list the jobs of Slurm: slurm_load_jobs: x. Check with sinfo that slurmctld runs."
    )


# ---- the backend -----------------------------------------------------------------------------------------------------


class PreparedAnswers:
    """Stands in for the commands: records the calls, and answers what was prepared."""

    def __init__(self) -> None:
        self.calls: list[BatchCall] = []
        self.answers = {
            "squeue": BatchAnswer(""),
            "sbatch": BatchAnswer("41\n"),
            "scancel": BatchAnswer(""),
            "scontrol": BatchAnswer(""),
        }
        self.now = 1000.0

    def run(self, system: BatchSystem, call: BatchCall) -> BatchAnswer:
        self.calls.append(call)
        return self.answers[call.program]

    def list_as(self, *jobs: tuple[str, str, str], workers: int = 1) -> None:
        self.answers["squeue"] = BatchAnswer(listing(*jobs, workers=workers))
        self.now += LISTING_SECONDS

    def cancelled(self) -> list[Sequence[str]]:
        return [arguments for program, arguments, _ in self.calls if program == "scancel"]

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> PreparedAnswers:
    found = PreparedAnswers()
    monkeypatch.setenv("SCALER_HOME", str(tmp_path))
    monkeypatch.setattr(batch, "check_programs", lambda system: None)
    monkeypatch.setattr(batch, "run_batch", found.run)
    monkeypatch.setattr(batch, "time", found)
    return found


def no_name() -> str:
    raise KeyError("getpwuid(): uid not found: 5")


def backend(*words: str) -> BatchBackend:
    return BatchBackend(read(SCHEDULER, "-n=8", "--name=night", *words))


def test_a_missing_program_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BadInput, match="this host has no program sbatch. Run the manager on a login node"):
        backend()


def test_a_user_without_a_name_is_named_by_number(commands: PreparedAnswers, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container."""
    words = ["gridengine", SCHEDULER, "-n=1", "--name=night"]
    settings = read_settings(GridEngineSettings, words, program="scaler_worker_manager", section="manager")
    monkeypatch.setattr(batch.getpass, "getuser", no_name)
    commands.answers["qstat"] = BatchAnswer("<job_info/>")
    assert BatchBackend(settings).list() == []
    assert str(os.getuid()) in commands.calls[0].arguments


def test_jobs_of_the_same_size_are_an_array(commands: PreparedAnswers) -> None:
    assert backend("--workers-per-job=3").start(8, ["gpu=1"]) == [Job("41_0", 3), Job("41_1", 3), Job("41", 2)]
    (_, first, script), (_, second, _) = commands.calls
    assert "--array=0-1" in first and not any("--array" in each for each in second)
    assert f"{sys.executable} -P -m scaler_worker.cli {SCHEDULER} --num-of-workers=3" in script
    assert "--per-worker-capabilities=gpu=1" in script and "SCALER_KEYS" not in script


def test_the_jobs_belong_to_a_manager_that_scales(commands: PreparedAnswers) -> None:
    BatchBackend(read(SCHEDULER, "--maximum-workers=2", "--name=night", "--manager=night")).start(1, [])
    assert "--manager=night" in commands.calls[-1][2]


def following_the_load(*words: str) -> BatchBackend:
    return BatchBackend(read(SCHEDULER, "--maximum-workers=8", "--name=night", *words))


def test_a_manager_that_follows_the_load_asks_whether_its_jobs_will_be_accepted(commands: PreparedAnswers) -> None:
    """One with jobs from the start submits them instead."""
    following_the_load("--minimum-workers=1")
    backend()
    assert not commands.calls
    following_the_load("--workers-per-job=3")
    ((program, arguments, script),) = commands.calls
    assert program == "sbatch" and "--test-only" in arguments and "--num-of-workers=3" in script
    commands.answers["sbatch"] = BatchAnswer("", "allocation failure: Invalid qos specification")
    with pytest.raises(BadInput, match="^Slurm rejects the jobs: Invalid qos specification. Give another --qos"):
        following_the_load()


@pytest.mark.parametrize(
    "said",
    [
        "allocation failure: Requested node configuration is not available",
        "allocation failure: Unable to contact slurm controller (connect failure)",
        "sbatch timed out after 20 s",
    ],
)
def test_an_answer_that_may_change_does_not_end_a_manager_that_follows_the_load(
    commands: PreparedAnswers, said: str
) -> None:
    commands.answers["sbatch"] = BatchAnswer("", said)
    assert following_the_load().list() == []


def test_a_final_rejection_ends_a_manager_without_jobs(commands: PreparedAnswers) -> None:
    commands.answers["sbatch"] = BatchAnswer(
        "", "sbatch: error: Batch job submission failed: Invalid qos specification"
    )
    with pytest.raises(BadInput, match="Invalid qos specification. Give another --qos"):
        backend().start(1, [])


def test_a_final_rejection_does_not_end_a_manager_with_jobs(commands: PreparedAnswers) -> None:
    running = backend()
    commands.list_as(("7", "RUNNING", "None"))
    running.list()
    commands.answers["sbatch"] = BatchAnswer(
        "", "sbatch: error: Batch job submission failed: Invalid qos specification"
    )
    with pytest.raises(StartError, match="Give another --qos"):
        running.start(1, [])


def test_jobs_of_an_earlier_manager_are_adopted_and_its_ended_ones_are_not(commands: PreparedAnswers) -> None:
    commands.list_as(("7_0", "RUNNING", "None"), ("7_1", "PENDING", "Resources"), ("6", "COMPLETED", "None"), workers=4)
    adopting = backend()
    assert adopting.list() == [Job("7_0", 4, JobState.RUNNING), Job("7_1", 4)]
    assert adopting.why_not() == [waits("Resources").replace("8 workers wait", "4 workers wait")]
    assert f"--user={os.getuid()}" in commands.calls[0][1] and "--name=scaler:night" in commands.calls[0][1]


def test_the_end_of_a_job_is_reported_once(commands: PreparedAnswers) -> None:
    commands.answers["scontrol"] = BatchAnswer("ExitCode=3:0 StdOut=/o")
    running = backend("--workers-per-job=4")
    running.start(8, [])
    commands.list_as(("41_0", "FAILED", "NonZeroExitCode"), ("41_1", "COMPLETED", "None"), workers=4)
    assert list(running.list()) == [
        Job("41_0", 4, JobState.FAILED, "exited with code 3. See /o"),
        Job("41_1", 4, JobState.DISMISSED),
    ]
    commands.list_as(("41_0", "FAILED", "NonZeroExitCode"))
    assert list(running.list()) == []


def test_a_job_that_slurm_holds_after_a_failed_start_is_cancelled_and_counts_as_failed(
    commands: PreparedAnswers,
) -> None:
    running = backend("--workers-per-job=4")
    running.start(4, [])
    commands.list_as(("41", "PENDING", "launch failed requeued held"), ("7", "PENDING", "JobHeldUser"), workers=4)
    end = "could not be started, and Slurm held it. See the log of the daemon on its node"
    assert running.list() == [Job("7", 4), Job("41", 4, JobState.FAILED, end)]
    assert commands.cancelled() == [["41"]]
    commands.list_as(("41", "CANCELLED", "None"), ("7", "PENDING", "JobHeldUser"), workers=4)
    assert running.list() == [Job("7", 4)] and commands.cancelled() == [["41"]]


def test_slurm_is_not_asked_all_the_time(commands: PreparedAnswers) -> None:
    running = backend()
    commands.list_as(("7", "RUNNING", "None"))
    assert running.list() == running.list() == [Job("7", 1, JobState.RUNNING)]
    assert len(commands.calls) == 1


def test_a_failed_listing_is_told(commands: PreparedAnswers) -> None:
    commands.answers["squeue"] = BatchAnswer("", "slurm_load_jobs error: Unable to contact slurm controller")
    with pytest.raises(ListError, match="Unable to contact slurm controller. Check with sinfo"):
        backend().list()


def test_running_jobs_get_their_grace_time_and_waiting_ones_none(commands: PreparedAnswers) -> None:
    running = backend("--grace-seconds=60")
    commands.list_as(("7_0", "RUNNING", "None"), ("7_1", "PENDING", "Resources"))
    running.list()
    running.stop(["7_0", "7_1", "unknown"])
    told = [["--state=PENDING", "7_0", "7_1"], ["--batch", "--signal=USR1", "7_0", "7_1"]]
    assert commands.cancelled() == told
    commands.list_as(("7_0", "RUNNING", "None"), ("7_1", "CANCELLED", "None"))
    running.list()
    assert commands.cancelled() == told
    commands.now += REPEAT_SECONDS
    running.list()
    assert commands.cancelled()[2:] == [["--state=PENDING", "7_0"], ["--batch", "--signal=USR1", "7_0"]]
    commands.now += 60 + 30
    running.list()
    assert commands.cancelled()[4:] == [["7_0"]]
    commands.list_as(("7_0", "COMPLETING", "None"), ("7_1", "CANCELLED", "None"))
    assert list(running.list()) == [] and running.why_not() == []


def test_a_job_that_is_not_listed_any_more_is_looked_for_elsewhere(commands: PreparedAnswers) -> None:
    running = backend()
    running.start(8, [])
    commands.list_as()
    assert list(running.list()) == [Job("41", 8)]
    commands.answers["scontrol"] = BatchAnswer("ExitCode=3:0 StdOut=/o")
    commands.list_as()
    assert list(running.list()) == [Job("41", 8, JobState.FAILED, "exited with code 3. See /o")]
    commands.list_as()
    assert list(running.list()) == []


def test_the_search_for_the_end_of_a_job_ends(commands: PreparedAnswers) -> None:
    running = backend()
    running.start(8, [])
    commands.list_as()
    running.list()
    commands.now += VANISHED_SECONDS
    assert list(running.list()) == [Job("41", 8, JobState.FAILED, "disappeared from the list of Slurm")]


# ---- the programs ----------------------------------------------------------------------------------------------------


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of programs that are found before all others."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    return folder


def write_program(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def test_a_command_gets_the_script_as_its_input(programs: Path) -> None:
    write_program(programs, "sbatch", "cat; echo $1")
    assert run_batch(SLURM, BatchCall("sbatch", ["--parsable"], "#!/bin/sh\n")) == BatchAnswer(
        "#!/bin/sh\n--parsable\n"
    )


@pytest.mark.parametrize(
    ("script", "complaint"),
    [("echo no >&2; exit 1", "no\n"), ("exit 3", "exit code 3"), ("exec sleep 30", "squeue timed out after 0.2 s")],
)
def test_a_command_that_fails_says_why(
    programs: Path, monkeypatch: pytest.MonkeyPatch, script: str, complaint: str
) -> None:
    monkeypatch.setattr(batch_commands, "ANSWER_SECONDS", 0.2 if "sleep" in script else 20.0)
    write_program(programs, "squeue", script)
    assert run_batch(SLURM, BatchCall("squeue", [])).complaint == complaint


def test_a_command_that_cannot_be_run_says_why(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(programs))
    (programs / "squeue").mkdir()
    assert "squeue cannot be run" in str(run_batch(SLURM, BatchCall("squeue", [])).complaint)


def test_noaddress_towards_a_controller_on_this_host_is_one_for_nodes(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("sbatch", "squeue", "scancel"):
        write_program(programs, name, "exit 1")
    write_program(programs, "scontrol", "echo 'SlurmctldHost[0]        = here(127.0.0.1)'")
    monkeypatch.setattr(batch_route, "ELSEWHERE", "127.0.0.1")
    with pytest.raises(BadInput, match="Start a scheduler at an address of its host in the network"):
        batch_route.address_for_nodes("slurm")
