"""A real Grid Engine with a master and an execution daemon on this machine, and a configuration of its own."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import psutil
import pytest

from tests.support.commands import Command, kill_quietly
from tests.support.ports import free_port
from tests.support.slurm_site import network_address
from tests.support.waiting import wait_until

CPUS = 4

_PROGRAMS = ("sge_qmaster", "sge_execd", "qsub", "qstat", "qdel", "qacct", "qconf", "qmod", "qrls")
_PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
_ROOT = Path("/var/lib/gridengine")
_TOOLS = Path("/usr/lib/gridengine")
_RESOURCES = Path("/usr/share/gridengine")
_START_SECONDS = 60.0

_BOOTSTRAP = """
admin_user              none
default_domain          none
ignore_fqdn             true
spooling_method         classic
spooling_lib            libspoolc
spooling_params         {folder}/cell/common;{folder}/spool/qmaster
binary_path             /usr/sbin
qmaster_spool_dir       {folder}/spool/qmaster
security_mode           none
listener_threads        2
worker_threads          2
scheduler_threads       1
"""

_QUEUE = {
    "qname": "main.q", "hostlist": "localhost", "seq_no": "0", "load_thresholds": "NONE", "suspend_thresholds": "NONE",
    "nsuspend": "1", "suspend_interval": "00:05:00", "priority": "0", "min_cpu_interval": "00:05:00",
    "processors": "UNDEFINED", "qtype": "BATCH INTERACTIVE", "ckpt_list": "NONE", "pe_list": "smp", "rerun": "FALSE",
    "slots": str(CPUS), "tmpdir": "/tmp", "shell": "/bin/sh", "prolog": "NONE", "epilog": "NONE",
    "shell_start_mode": "unix_behavior", "starter_method": "NONE", "suspend_method": "NONE", "resume_method": "NONE",
    "terminate_method": "NONE", "notify": "00:01:00", "owner_list": "NONE", "user_lists": "NONE", "xuser_lists": "NONE",
    "subordinate_list": "NONE", "complex_values": "NONE", "projects": "NONE", "xprojects": "NONE", "calendar": "NONE",
    "initial_state": "default",
    **{f"{kind}_{limit}": "INFINITY" for limit in
       ("rt", "cpu", "fsize", "data", "stack", "core", "rss", "vmem") for kind in ("s", "h")},
}  # fmt: skip

_PARALLEL_ENVIRONMENT = {
    "pe_name": "smp", "slots": "999", "user_lists": "NONE", "xuser_lists": "NONE", "start_proc_args": "NONE",
    "stop_proc_args": "NONE", "allocation_rule": "$pe_slots", "control_slaves": "FALSE", "job_is_first_task": "TRUE",
    "urgency_slots": "min", "accounting_summary": "FALSE", "qsort_args": "NONE",
}  # fmt: skip


@dataclass(frozen=True)
class GridEngineSite:
    """``variables``: those of its commands. ``address``: of this host in its network."""

    folder: Path
    variables: dict[str, str]
    address: str

    def run(self, program: str, *arguments: str) -> str:
        """The output of one of its commands."""
        done = self.try_to(program, *arguments)
        assert done.returncode == 0, f"{program} {arguments}: {done.stdout}{done.stderr}"
        return done.stdout

    def try_to(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, **self.variables}
        path = shutil.which(program, path=_PATH) or program
        return subprocess.run([path, *arguments], env=environment, capture_output=True, text=True, timeout=60)

    def jobs(self) -> dict[str, str]:
        """The letters of the state of each job that has not ended."""
        root = ElementTree.fromstring(self.run("qstat", "-xml", "-g", "d"))
        return {_id(each): each.findtext("state", "") for each in root.iter("job_list")}

    def processes(self) -> list[psutil.Process]:
        """Those of its jobs."""
        return [each for each in psutil.process_iter() if self._is_of_job(each)]

    def _is_of_job(self, process: psutil.Process) -> bool:
        try:
            environment = process.environ()
        except (psutil.Error, OSError):
            return False
        return "JOB_ID" in environment and environment.get("SGE_ROOT") == str(self.folder)


def _id(job: ElementTree.Element) -> str:
    number, task = job.findtext("JB_job_number", ""), job.findtext("tasks", "")
    return f"{number}.{task}" if task else number


@contextmanager
def gridengine_site(slots: int = CPUS) -> Iterator[GridEngineSite]:
    """Skips the test where there are no daemons of Grid Engine, or they may not be started."""
    missing = [each for each in _PROGRAMS if shutil.which(each, path=_PATH) is None]
    if missing:
        pytest.skip(f"there is no {missing[0]}")
    if os.geteuid() != 0:
        pytest.skip("the daemons of Grid Engine need root")
    address, folder = network_address(), Path(tempfile.mkdtemp(prefix="gridengine-", dir="/tmp"))
    ports = {"SGE_QMASTER_PORT": str(free_port()), "SGE_EXECD_PORT": str(free_port())}
    site = GridEngineSite(folder, {"SGE_ROOT": str(folder), "SGE_CELL": "cell", **ports}, address)
    try:
        _write_configuration(site)
        with ExitStack() as stack:
            _start_daemons(site, stack, slots)
            yield site
            _end_jobs(site)
    finally:
        for process in site.processes():
            kill_quietly(process)
        shutil.rmtree(folder, ignore_errors=True)


def _write_configuration(site: GridEngineSite) -> None:
    folder, common = site.folder, site.folder / "cell" / "common"
    folder.chmod(0o755)
    for each in (common, folder / "spool/qmaster/job_scripts", folder / "spool/execd"):
        each.mkdir(parents=True)
    for name in ("bin", "lib", "util", "utilbin"):
        (folder / name).symlink_to(_ROOT / name)
    (common / "bootstrap").write_text(_BOOTSTRAP.format(folder=folder))
    (common / "act_qmaster").write_text("localhost\n")
    (common / "host_aliases").write_text(f"localhost {socket.gethostname()}\n")
    text = (_RESOURCES / "default-configuration").read_text()
    for name, value in (
        ("execd_spool_dir", f"{folder}/spool/execd"), ("min_uid", "0"), ("min_gid", "0"),
        ("execd_params", "ENABLE_ADDGRP_KILL=true"), ("finished_jobs", "0"), ("load_report_time", "00:00:01"),
    ):  # fmt: skip
        text = re.sub(rf"(?m)^{name} .*$", f"{name} {value}", text)
    text = text.replace("flush_time=00:00:15", "flush_time=00:00:15 accounting_flush_time=00:00:00")
    (folder / "configuration").write_text(text)
    spool = f"{common};{folder}/spool/qmaster"
    site.run(str(_TOOLS / "spoolinit"), "classic", "libspoolc", spool, "init")
    for kind, value in (
        ("configuration", f"{folder}/configuration"), ("complexes", f"{_RESOURCES}/util/resources/centry"),
        ("usersets", f"{_RESOURCES}/util/resources/usersets"), ("managers", "root"),
    ):  # fmt: skip
        site.run(str(_TOOLS / "spooldefaults"), kind, value)


def _start_daemons(site: GridEngineSite, stack: ExitStack, slots: int) -> None:
    environment = {**os.environ, **site.variables, "SGE_ND": "1"}
    master, executor = (str(shutil.which(each, path=_PATH)) for each in ("sge_qmaster", "sge_execd"))
    daemons = [stack.enter_context(Command([master], environment))]
    wait_until(lambda: site.try_to("qconf", "-ah", "localhost").returncode == 0, _START_SECONDS, "the master")
    site.run("qconf", "-as", "localhost")
    daemons.append(stack.enter_context(Command([executor], environment)))
    try:
        wait_until(lambda: site.try_to("qconf", "-sel").stdout.split() == ["localhost"], _START_SECONDS, "a host")
    except AssertionError as error:
        raise AssertionError(f"{error}: {[each.output[-3000:] for each in daemons]}") from None
    scheduling = site.run("qconf", "-ssconf")
    for name in ("schedule_interval", "flush_submit_sec", "flush_finish_sec"):
        scheduling = re.sub(
            rf"(?m)^{name} .*$", f"{name} {'0:0:1' if name == 'schedule_interval' else '1'}", scheduling
        )
    _configure(site, "-Msconf", scheduling)
    _configure(site, "-Ap", _lines(_PARALLEL_ENVIRONMENT))
    _configure(site, "-Aq", _lines({**_QUEUE, "slots": str(slots)}))
    _configure(site, "-Aq", _lines({**_QUEUE, "qname": "brief.q", "h_rt": "00:02:00"}))


def _lines(values: dict[str, str]) -> str:
    return "".join(f"{name} {value}\n" for name, value in values.items())


def _configure(site: GridEngineSite, option: str, text: str) -> None:
    path = site.folder / f"configuration{option}"
    path.write_text(text)
    site.run("qconf", option, str(path))


def _end_jobs(site: GridEngineSite) -> None:
    site.try_to("qdel", "-f", "-u", "root")
    wait_until(lambda: not site.jobs(), _START_SECONDS, "no jobs")
