"""Stands in for the commands of PBS and LSF, which cannot be had: a queue in a folder, whose jobs are processes.

Each stand-in refuses options that the real command does not have, and prints what the real one prints. The script of a
job runs in a process group of its own, which gets signals as a whole, as jobs of PBS and LSF do. The file ``closed`` in
the folder keeps jobs in the queue, and the file ``refusing`` lets no user submit any."""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import psutil

from tests.support.commands import REPOSITORY

VARIABLES = {"pbs": "PBS_CONF_FILE", "lsf": "LSF_ENVDIR"}
"""The variable of each system that jobs and commands keep names the folder here."""

_COMMANDS = {"pbs": ("qsub", "qselect", "qstat", "qsig", "qdel"), "lsf": ("bsub", "bjobs", "bkill", "bqueues", "lsid")}
_KILL_DELAY_SECONDS = 3.0
_SERVER = "pbs"


class BatchPrograms:
    """The commands, in ``folder / "bin"``, and the jobs that they have started."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.variable, self.folder = VARIABLES[kind], folder
        self.path = folder / "bin"
        self.path.mkdir(parents=True)
        (folder / "jobs").mkdir()
        for name in _COMMANDS[kind]:
            program = self.path / name
            program.write_text(f'#!/bin/sh\nPYTHONPATH={REPOSITORY} exec {sys.executable} -m {__name__} {name} "$@"\n')
            program.chmod(0o755)

    def jobs(self) -> dict[str, str]:
        """The state of each job that has not ended."""
        return {
            f"{each['number']}-{each['index']}": each["state"]
            for each in _read_jobs(self.folder)
            if each["state"] != "ended"
        }

    def close(self) -> None:
        """Let jobs wait."""
        (self.folder / "closed").touch()

    def open(self) -> None:
        (self.folder / "closed").unlink(missing_ok=True)

    def refuse(self) -> None:
        """Let the user submit no jobs."""
        (self.folder / "refusing").touch()

    def accept(self) -> None:
        (self.folder / "refusing").unlink()

    def kill_all(self) -> None:
        for job in _read_jobs(self.folder):
            if job["state"] == "running":
                _signal(job, signal.SIGKILL)


# ---- the queue -------------------------------------------------------------------------------------------------------


def _folder() -> Path:
    return Path(next(os.environ[name] for name in VARIABLES.values() if name in os.environ))


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _read_jobs(folder: Path) -> list[dict[str, Any]]:
    """As they are now: jobs begin when the queue is open, and end."""
    with _locked(folder):
        jobs = []
        for path in sorted((folder / "jobs").glob("*.json"), key=_place):
            job = json.loads(path.read_text())
            if job["state"] == "waiting" and not job["held"] and not (folder / "closed").exists():
                _begin(folder, job)
            end = path.with_suffix(".end")
            if job["state"] == "running" and end.exists():
                job |= {"state": "ended", "code": int(end.read_text())}
                _write(folder, job)
            jobs.append(job)
        return jobs


def _place(path: Path) -> tuple[int, int]:
    number, _, index = path.stem.partition("-")
    return int(number), -1 if index == "None" else int(index)


def _write(folder: Path, job: Mapping[str, Any]) -> None:
    path = folder / "jobs" / f"{job['number']}-{job['index']}.json"
    path.with_suffix(".new").write_text(json.dumps(job))
    path.with_suffix(".new").rename(path)


def _begin(folder: Path, job: dict[str, Any]) -> None:
    """A process between waits for the script, and notes how it ended."""
    name = f"{job['number']}-{job['index']}"
    (folder / f"{name}.sh").write_text(job["script"])
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.batch_programs", "run", str(folder), name],
        env={**job["environment"], "PYTHONPATH": str(REPOSITORY)},
        cwd=job["cwd"],
        start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    pid = folder / "jobs" / f"{name}.pid"
    while not pid.exists() and process.poll() is None:
        time.sleep(0.01)
    job |= {"state": "running", "pid": int(pid.read_text())}
    _write(folder, job)


def _run(folder: Path, name: str) -> None:
    with open(folder / f"{name}.out", "w") as output:
        job = subprocess.Popen(["/bin/sh", str(folder / f"{name}.sh")], stdout=output, stderr=output, process_group=0)
    (folder / "jobs" / f"{name}.new-pid").write_text(str(job.pid))
    (folder / "jobs" / f"{name}.new-pid").rename(folder / "jobs" / f"{name}.pid")
    code = job.wait()
    (folder / "jobs" / f"{name}.new-end").write_text(str(code))
    (folder / "jobs" / f"{name}.new-end").rename(folder / "jobs" / f"{name}.end")


def _submit(script: str, count: int, name: str, held: bool, record: str = "") -> int:
    folder = _folder()
    with _locked(folder):
        number = 1 + max((int(each.name.split("-")[0]) for each in (folder / "jobs").glob("*.json")), default=40)
        for index in range(count) if count > 1 else [None]:
            _write(folder, {
                "number": number, "index": index, "name": name, "record": record, "state": "waiting", "held": held,
                "script": script, "cwd": os.getcwd(), "environment": dict(os.environ),
            })  # fmt: skip
    return number


def _signal(job: Mapping[str, Any], number: int) -> None:
    try:
        os.killpg(job["pid"], number)
    except ProcessLookupError:
        pass


def _terminate(job: dict[str, Any], signals: Sequence[int]) -> None:
    """As the real ones do: a job that waits is removed; one that runs gets signals, and is killed after a delay."""
    folder = _folder()
    if job["state"] == "waiting":
        _write(folder, {**job, "state": "ended", "code": None})
    elif job["state"] == "running":
        for number in signals:
            _signal(job, number)
        if os.fork() == 0:
            os.setsid()
            time.sleep(_KILL_DELAY_SECONDS)
            if psutil.pid_exists(job["pid"]):
                _signal(job, signal.SIGKILL)
            os._exit(0)


def _fail(text: str, code: int) -> NoReturn:
    print(text, file=sys.stderr)
    sys.exit(code)


class _Options(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        _fail(f"{self.prog}: invalid option: {message}", 2)


def _options(program: str) -> _Options:
    return _Options(prog=program, add_help=False, allow_abbrev=False)


# ---- PBS -------------------------------------------------------------------------------------------------------------


def _pbs_id(job: Mapping[str, Any]) -> str:
    index = "" if job["index"] is None else f"[{job['index']}]"
    return f"{job['number']}{index}.{_SERVER}"


def qsub(arguments: Sequence[str]) -> None:
    parser = _options("qsub")
    for flag in ("-N", "-S", "-j", "-r", "-v", "-o", "-J", "-q", "-A", "-P", "-W", "-p"):
        parser.add_argument(flag)
    parser.add_argument("-l", action="append", default=[])
    parser.add_argument("-V", action="store_true")
    parser.add_argument("-h", action="store_true")
    given = parser.parse_args(arguments)
    if (
        not re.fullmatch(r"[A-Za-z][!-~]{0,235}", given.N)
        or given.j != "oe"
        or given.r not in ("y", "n")
        or not given.V
    ):
        _fail("qsub: illegal -N, -j, -r or -V value", 2)
    for each in given.l:
        if not re.fullmatch(r"select=1:ncpus=\d+(:mem=\d+mb)?(:\w+=[^:]+)*|walltime=\d+|place=\w+", each):
            _fail(f"qsub: Illegal attribute or resource value Resource_List.{each}", 168)
    if given.q == "none":
        _fail("qsub: Unknown queue", 170)
    if (_folder() / "refusing").exists():
        _fail("qsub: Unauthorized Request", 15)
    if given.q == "full":
        _fail("qsub: would exceed queue full's per-user limit of jobs in 'Q' state", 1)
    first, _, last = (given.J or "").partition("-")
    count = int(last) - int(first) + 1 if given.J else 1
    number = _submit(sys.stdin.read(), count, given.N, given.h, given.v.partition("=")[2])
    print(f"{number}{'[]' if count > 1 else ''}.{_SERVER}")


def qselect(arguments: Sequence[str]) -> None:
    parser = _options("qselect")
    for flag in ("-u", "-N"):
        parser.add_argument(flag, required=True)
    for flag in ("-x", "-T"):
        parser.add_argument(flag, action="store_true", required=True)
    given = parser.parse_args(arguments)
    found = [job for job in _read_jobs(_folder()) if job["name"] == given.N]
    arrays = {f"{job['number']}[].{_SERVER}" for job in found if job["index"] is not None}
    print("\n".join([*sorted(arrays), *map(_pbs_id, found)]))


def qstat(arguments: Sequence[str]) -> None:
    if list(arguments) == ["-B", "-f"]:
        return print(f"Server: {_SERVER}\n    server_state = Active\n    server_host = 127.0.0.1")
    if arguments[0] == "-Q":
        (queue,) = arguments[1:]
        _fail(f"qstat: Unknown queue {queue}", 170) if queue == "none" else None
        counts = "Max   Tot Ena Str   Que   Run   Hld   Wat   Trn   Ext Type"
        values = "  0     0 yes yes     0     0     0     0     0     0 Exec"
        rule = " ".join("-" * width for width in (16, 5, 5, 3, 3, 5, 5, 5, 5, 5, 5, 4))
        return print(f"Queue              {counts}\n{rule}\n{queue:<16.15}   {values}")
    assert list(arguments[:5]) == ["-x", "-t", "-f", "-F", "json"], arguments
    jobs = {_pbs_id(job): job for job in _read_jobs(_folder())}
    shown: dict[str, Any] = {}
    for id in arguments[5:]:
        if "[]" in id:
            shown[id] = {"Job_Name": "", "job_state": "B", "comment": "Not Running: Job is in a closed queue"}
        elif id in jobs:
            shown[id] = _pbs_job(jobs[id])
        else:
            print(f"qstat: Unknown Job Id {id}", file=sys.stderr)
    print(json.dumps({"timestamp": 1, "pbs_version": "23.06.06", "pbs_server": _SERVER, "Jobs": shown}))
    sys.exit(153 if len(shown) < len(arguments) - 5 else 0)


def _pbs_job(job: Mapping[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = {
        "Job_Name": job["name"],
        "Variable_List": {"SCALER_JOB": job["record"], "PBS_O_HOME": "/"},
    }
    if job["state"] == "waiting" and job["held"]:
        return {**values, "job_state": "H", "Hold_Types": "u"}
    if job["state"] == "waiting":
        comment = {"comment": "Not Running: Insufficient amount of resource: ncpus "} if job["index"] is None else {}
        return {**values, "job_state": "Q", **comment}
    if job["state"] == "running":
        return {**values, "job_state": "R"}
    code = job["code"]
    status = {} if code is None else {"Exit_status": code if code >= 0 else 256 - code}
    return {**values, "job_state": "F" if job["index"] is None else "X", **status}


def qsig(arguments: Sequence[str]) -> None:
    assert arguments[0] == "-s", arguments
    jobs = {_pbs_id(job): job for job in _read_jobs(_folder())}
    for id in arguments[2:]:
        if id in jobs and jobs[id]["state"] == "running":
            _signal(jobs[id], signal.Signals[arguments[1]])
        else:
            print(f"qsig: Request invalid for state of job {id}", file=sys.stderr)


def qdel(arguments: Sequence[str]) -> None:
    jobs = {_pbs_id(job): job for job in _read_jobs(_folder())}
    for id in arguments:
        if id in jobs:
            _terminate(jobs[id], [signal.SIGTERM])
        else:
            print(f"qdel: Unknown Job Id {id}", file=sys.stderr)


# ---- LSF -------------------------------------------------------------------------------------------------------------


def _lsf_id(job: Mapping[str, Any]) -> str:
    return str(job["number"]) if job["index"] is None else f"{job['number']}[{job['index'] + 1}]"


def bsub(arguments: Sequence[str]) -> None:
    parser = _options("bsub")
    for flag in ("-J", "-n", "-env", "-M", "-W", "-o", "-q", "-P", "-G", "-gpu"):
        parser.add_argument(flag)
    parser.add_argument("-R", action="append", default=[])
    for flag in ("-r", "-H"):
        parser.add_argument(flag, action="store_true")
    given = parser.parse_args(arguments)
    match = re.fullmatch(r"([A-Za-z][A-Za-z0-9._-]*)(?:\[1-(\d+)\])?", given.J)
    assert match is not None and given.n.isdigit() and given.env == "all", arguments
    assert all(re.fullmatch(r"span\[hosts=1\]|rusage\[mem=\d+MB\]|select\[.*\]", each) for each in given.R), given.R
    assert given.W is None or given.W.isdigit(), given.W
    if given.q == "none":
        _fail("none: No such queue. Job not submitted.", 255)
    if (_folder() / "refusing").exists():
        _fail("User permission denied. Job not submitted.", 255)
    if given.q == "full":
        _fail("Pending job threshold reached. Job not submitted.", 255)
    number = _submit(sys.stdin.read(), int(match[2] or 1), match[1], given.H)
    print(f"Job <{number}> is submitted to queue <{given.q or 'normal'}>.")


def bjobs(arguments: Sequence[str]) -> None:
    parser = _options("bjobs")
    for flag in ("-u", "-J", "-o"):
        parser.add_argument(flag, required=True)
    for flag in ("-a", "-json"):
        parser.add_argument(flag, action="store_true", required=True)
    given = parser.parse_args(arguments)
    pattern = re.escape(given.J).replace(r"\*", ".*")
    found = [job for job in _read_jobs(_folder()) if re.fullmatch(pattern, job["name"])]
    if not found:
        _fail("No matching job found", 255)
    fields = [name.upper() for name in given.o.split()]
    records = [{name: _lsf_values(job)[name] for name in fields} for job in found]
    print(json.dumps({"COMMAND": "bjobs", "JOBS": len(records), "RECORDS": records}))


def _lsf_values(job: Mapping[str, Any]) -> dict[str, str]:
    waits, code = job["state"] == "waiting", job.get("code")
    state = {"waiting": "PSUSP" if job["held"] else "PEND", "running": "RUN"}.get(
        job["state"], "DONE" if code == 0 else "EXIT"
    )
    suffix = "" if job["index"] is None else f"[{job['index'] + 1}]"
    return {
        "JOBID": str(job["number"]), "JOBINDEX": "0" if job["index"] is None else str(job["index"] + 1), "STAT": state,
        "EXIT_CODE": "" if code in (None, 0) else str(code if code > 0 else 128 - code),
        "EXIT_REASON": "TERM_OWNER: job killed by owner" if state == "EXIT" and code is None else "",
        "PEND_REASON": "Not enough job slots in host;" if waits else "", "OUTPUT_FILE": "",
        "JOB_NAME": job["name"] + suffix,
    }  # fmt: skip


def bkill(arguments: Sequence[str]) -> None:
    number = None
    if arguments[0] == "-s":
        number, arguments = signal.Signals["SIG" + arguments[1]], arguments[2:]
    jobs = {_lsf_id(job): job for job in _read_jobs(_folder())}
    for id in arguments:
        if id not in jobs or jobs[id]["state"] == "ended":
            print(f"Job <{id}>: Job has already finished", file=sys.stderr)
        elif number is None:
            _terminate(jobs[id], [signal.SIGINT, signal.SIGTERM])
        elif jobs[id]["state"] == "running":
            _signal(jobs[id], number)


def bqueues(arguments: Sequence[str]) -> None:
    (queue,) = arguments
    _fail(f"{queue}: No such queue", 255) if queue == "none" else None
    print("QUEUE_NAME      PRIO STATUS          MAX JL/U JL/P JL/H NJOBS  PEND   RUN  SUSP")
    print(f"{queue:<15}  30  Open:Active       -    -    -    -     0     0     0     0")


def lsid(arguments: Sequence[str]) -> None:
    print("IBM Spectrum LSF 10.1\n\nMy cluster name is test\nMy master name is 127.0.0.1")


if __name__ == "__main__":
    program, *rest = sys.argv[1:]
    if program == "run":
        _run(Path(rest[0]), rest[1])
    else:
        globals()[program](rest)
