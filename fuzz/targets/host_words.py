"""Words of programs on hosts: jobs behind SSH, commands of batch systems, installers of packages, stacks of Python.

Whatever they say, facts have their types, lists name jobs of this scheduler only, and texts for people are short and
printable.
"""

from __future__ import annotations

from collections.abc import Iterator

from scaler_worker.core.stack_text import STACK_LIMIT, shown_stack
from scaler_worker.manager.core import gridengine, lsf, pbs, slurm
from scaler_worker.manager.core.batch_reasons import explain_rejection, explain_unlisted, explain_waits
from scaler_worker.manager.core.batch_system import BatchSystem, BatchTerms, job_name
from scaler_worker.manager.core.ssh_facts import facts_in
from scaler_worker.manager.core.ssh_failures import explain_failure
from scaler_worker.manager.core.ssh_hosts import parse_host
from scaler_worker.package_installation import last_line

ADDRESS = "tcp://10.0.0.1:5"
TERMS = BatchTerms("cloud", ADDRESS, 30.0)
SYSTEMS = (slurm.SLURM, gridengine.GRID_ENGINE, pbs.PBS, lsf.LSF)
HOST = parse_host("node1")
TYPES = {"version": str, "ready": bool, "failed": str, "ended": int, "log": str, "python": tuple}


def one_input(data: bytes) -> None:
    text = data[1:].decode(errors="backslashreplace")
    check_ssh(text, data[0] if data else 0)
    check_batch(text, SYSTEMS[(data[0] if data else 0) % len(SYSTEMS)])
    assert len(last_line(text)) <= 2000
    shown = shown_stack(text)
    assert len(shown) < STACK_LIMIT + 100 and all(each == "\n" or each.isprintable() for each in shown)


def check_ssh(text: str, code: int) -> None:
    for line in text.splitlines():
        assert all(type(value) is TYPES[name] for name, value in facts_in(line).items())
    assert explain_failure(text, code, HOST, "python3", "1.0")


def check_batch(text: str, system: BatchSystem) -> None:
    try:
        jobs = system.read_jobs(text, TERMS)
    except ValueError as error:
        assert str(error)
        jobs = []
    assert all(job.workers >= 0 and not job.id.startswith("-") for job in jobs)
    assert all(explain_waits(jobs, system)) and explain_rejection(text, system)[0] and explain_unlisted(text, system)
    end = system.read_end(text)
    assert end is None or end.state is not None
    try:
        assert all(each[0].isdigit() for each in system.read_ids(text, 3))
    except ValueError:
        pass


def seeds() -> Iterator[bytes]:
    yield b'\0{"python": [3, 11]}\n{"version": "1.0"}\n{"ready": true}\n{"ended": 0}\n{"log": "x"}\n{"failed": "no"}'
    comment, name = slurm.job_comment(4, ADDRESS), job_name(TERMS, 4)
    yield f"\0 12_3|PENDING|Resources|{comment}\n7|FAILED|None|{comment}".encode()
    job = f"<JB_name>{name}</JB_name><JB_job_number>7</JB_job_number><state>qw</state><tasks>1</tasks>"
    yield f"\1<job_info><job_list>{job}</job_list></job_info>".encode()
    yield b"\1failed       100 : assumedly after job\nexit_status  137\n"
    job = '{"Job_Name": "scaler.cloud", "job_state": "Q", "comment": "Not Running: x"}'
    yield f'\2{{"Jobs": {{"7[1].pbs": {job}}}}}'.encode()
    yield f'\3{{"RECORDS": [{{"JOBID": "7", "JOBINDEX": "1", "STAT": "PEND", "JOB_NAME": "{name}"}}]}}'.encode()
    yield b"\3Job <12> is submitted to default queue <normal>.\n"
    yield b"\xff12;cluster\n"
    yield b"\1JobId=5 ExitCode=1:0 StdOut=/tmp/slurm-5.out Reason=NonZeroExitCode"
    yield b"\2sbatch: error: Batch job submission failed: Invalid partition name specified\nTry again"
    yield b"\xffPermission denied {x} {name.__class__}\n  \xe2\x95\xb0 cause: error: ERROR: Exception:"
    yield b'\0Thread 0x1 (most recent call first):\n  File "/scaler_worker/worker_process/x.py", line 1 in f\n\nThread'
