"""A real Slurm with a controller, several nodes on this machine, and a configuration and authentication of its own."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from tests.support.commands import Command, kill_quietly
from tests.support.ports import free_port
from tests.support.waiting import wait_until

DAEMONS = ("munged", "slurmctld", "slurmd")
COMMANDS = ("sbatch", "squeue", "scancel", "scontrol", "sinfo")
NODES = ("n1", "n2")
CPUS = 2

_PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
_START_SECONDS = 60.0

_CONFIGURATION = """
ClusterName=scaler
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmdParameters=config_overrides
ReturnToService=2
BatchStartTimeout=30
KillWait=2
EnforcePartLimits=ALL
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SchedulerParameters=batch_sched_delay=0,sched_interval=2
PartitionName=main Nodes=ALL Default=YES State=UP PriorityTier=1
PartitionName=long Nodes=ALL State=UP PriorityTier=1
PartitionName=urgent Nodes=ALL State=UP PriorityTier=10 PreemptMode=OFF
"""


@dataclass(frozen=True)
class SlurmSite:
    """``configuration``: the value of $SLURM_CONF for its commands. ``address``: of this host in its network."""

    folder: Path
    configuration: Path
    address: str

    def run(self, program: str, *arguments: str) -> str:
        """The output of one of its commands."""
        done = self.attempt(program, *arguments)
        assert done.returncode == 0, f"{program} {arguments}: {done.stderr}"
        return done.stdout

    def attempt(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """One of its commands has ended, maybe with an error."""
        environment = {**os.environ, "SLURM_CONF": str(self.configuration)}
        return subprocess.run([program, *arguments], env=environment, capture_output=True, text=True, timeout=60)

    def jobs(self, states: str = "PENDING,RUNNING,COMPLETING") -> dict[str, str]:
        """The state of each job. A controller that is too busy to answer is asked again."""
        arguments = ("--noheader", "--array", f"--states={states}", "--format=%i %T")
        done = wait_until(lambda: answered(self.attempt("squeue", *arguments)), what="an answer of squeue")
        lines = done.stdout.splitlines()
        return {id: state for id, _, state in (line.partition(" ") for line in lines)}

    def processes(self) -> list[psutil.Process]:
        """Those of its jobs."""
        return [each for each in psutil.process_iter() if self._is_of_job(each)]

    def is_cleaned_up(self, job: str) -> bool:
        """Whether nothing of an execution of this job is left, nor the daemon that watches over it."""
        daemons = psutil.process_iter(["cmdline"])
        return not self.processes() and not any(
            f"[{job}.batch]" in " ".join(each.info["cmdline"] or ()) for each in daemons
        )

    def _is_of_job(self, process: psutil.Process) -> bool:
        try:
            environment = process.environ()
        except (psutil.Error, OSError):
            return False
        return "SLURM_JOB_ID" in environment and environment.get("SLURM_CONF") == str(self.configuration)


def answered(done: subprocess.CompletedProcess[str]) -> subprocess.CompletedProcess[str] | None:
    return done if done.returncode == 0 else None


def network_address() -> str:
    """An address of this host that is not of its loopback interface. Skips the test where there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            pytest.skip("this host is in no network")
        return str(probe.getsockname()[0])


@contextmanager
def slurm_site(cpus: int = CPUS) -> Iterator[SlurmSite]:
    """``cpus``: of each node. Skips the test where there are no daemons of Slurm."""
    missing = [each for each in (*DAEMONS, *COMMANDS) if shutil.which(each, path=_PATH) is None]
    if missing:
        pytest.skip(f"there is no {missing[0]}")
    address, folder = network_address(), Path(tempfile.mkdtemp(prefix="slurm-", dir="/tmp"))
    site = SlurmSite(folder, _write_configuration(folder, cpus), address)
    try:
        with ExitStack() as stack:
            _start_daemons(site, stack)
            yield site
            _end_jobs(site)
    finally:
        for process in site.processes():
            kill_quietly(process)
        shutil.rmtree(folder, ignore_errors=True)


def _write_configuration(folder: Path, cpus: int) -> Path:
    host = socket.gethostname().partition(".")[0]
    folder.chmod(0o755)
    (folder / "state").mkdir()
    (folder / "munge.key").write_bytes(os.urandom(128))
    (folder / "munge.key").chmod(0o600)
    lines = _CONFIGURATION.format(host=host, port=free_port(), user=getpass.getuser(), folder=folder)
    lines += "".join(
        f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={free_port()} CPUs={cpus} State=UNKNOWN\n"
        for name in NODES
    )
    path = folder / "slurm.conf"
    path.write_text(lines)
    return path


def _start_daemons(site: SlurmSite, stack: ExitStack) -> None:
    folder, programs = site.folder, {each: str(shutil.which(each, path=_PATH)) for each in DAEMONS}
    files = [f"--{name}-file={folder}/munge.{name}" for name in ("key", "pid", "log", "seed")]
    munge = [
        programs["munged"],
        "--foreground",
        "--force",
        "--num-threads=2",
        f"--socket={folder}/munge.socket",
        *files,
    ]
    stack.enter_context(Command(munge))
    wait_until(lambda: (folder / "munge.socket").exists())
    common = ["-D", "-f", str(site.configuration)]
    daemons = [stack.enter_context(Command([programs["slurmctld"], *common]))]
    daemons += [stack.enter_context(Command([programs["slurmd"], *common, "-N", name])) for name in NODES]
    try:
        wait_until(lambda: _idle_nodes(site) == len(NODES), _START_SECONDS, "idle nodes")
    except AssertionError as error:
        raise AssertionError(f"{error}: {[each.output[-3000:] for each in daemons]}") from None


def _idle_nodes(site: SlurmSite) -> int:
    try:
        return site.run("sinfo", "--noheader", "--Node", "--partition=main", "--format=%T").split().count("idle")
    except AssertionError:
        return 0  # the controller does not listen yet


def _end_jobs(site: SlurmSite) -> None:
    site.run("scancel", f"--user={os.getuid()}")
    wait_until(lambda: not site.jobs(), _START_SECONDS, "no jobs")
