"""What programs on hosts print: jobs behind SSH, commands of Slurm, installers of packages, stacks of Python.

Whatever they say, facts have their types, lists name jobs of this scheduler only, and texts for people are short and
printable.
"""

from __future__ import annotations

from collections.abc import Iterator

from scaler_worker.core.stack_text import STACK_LIMIT, shown_stack
from scaler_worker.manager.core.slurm_listing import (
    job_comment,
    parse_exit_code,
    parse_listing,
    parse_output_path,
    parse_submitted,
)
from scaler_worker.manager.core.slurm_reasons import explain_exit, explain_rejection, explain_unlisted, explain_waits
from scaler_worker.manager.core.ssh_facts import facts_in
from scaler_worker.manager.core.ssh_failures import explain_failure
from scaler_worker.manager.core.ssh_hosts import parse_host
from scaler_worker.package_installation import last_line

ADDRESS = "tcp://10.0.0.1:5"
HOST = parse_host("node1")
TYPES = {"version": str, "ready": bool, "failed": str, "ended": int, "log": str, "python": tuple}


def one_input(data: bytes) -> None:
    text = data[1:].decode(errors="backslashreplace")
    check_ssh(text, data[0] if data else 0)
    check_slurm(text)
    assert len(last_line(text)) <= 2000
    shown = shown_stack(text)
    assert len(shown) < STACK_LIMIT + 100 and all(each == "\n" or each.isprintable() for each in shown)


def check_ssh(text: str, code: int) -> None:
    for line in text.splitlines():
        assert all(type(value) is TYPES[name] for name, value in facts_in(line).items())
    assert explain_failure(text, code, HOST, "python3", "1.0")


def check_slurm(text: str) -> None:
    jobs = parse_listing(text, ADDRESS)
    assert all(job.workers >= 0 and isinstance(job.end, str) and job.meaning for job in jobs)
    assert all(explain_waits(jobs)) and explain_rejection(text)[0] and explain_unlisted(text)
    code = parse_exit_code(text)
    assert code is None or explain_exit(*code, parse_output_path(text))
    try:
        assert all(each[0].isdigit() for each in parse_submitted(text, 3))
    except ValueError:
        pass


def seeds() -> Iterator[bytes]:
    yield b'\0{"python": [3, 11]}\n{"version": "1.0"}\n{"ready": true}\n{"ended": 0}\n{"log": "x"}\n{"failed": "no"}'
    yield f"\0 12_3|PENDING|Resources|{job_comment(4, ADDRESS)}\n7|FAILED|None|{job_comment(1, ADDRESS)}".encode()
    yield b"\xff12;cluster\n"
    yield b"\1JobId=5 ExitCode=1:0 StdOut=/tmp/slurm-5.out Reason=NonZeroExitCode"
    yield b"\2sbatch: error: Batch job submission failed: Invalid partition name specified\nTry again"
    yield b"\xffPermission denied {x} {name.__class__}\n  \xe2\x95\xb0 cause: error: ERROR: Exception:"
    yield b'\0Thread 0x1 (most recent call first):\n  File "/scaler_worker/worker_process/x.py", line 1 in f\n\nThread'
