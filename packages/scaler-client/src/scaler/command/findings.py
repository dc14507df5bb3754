"""The conclusions of ``scaler doctor``: functions of facts, which return findings."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any


class Severity(Enum):
    OK = "ok"
    WARNING = "warn"
    FAILURE = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line. ``remedy``: what to do, as a sentence; empty if nothing is wrong."""

    severity: Severity
    text: str
    remedy: str = ""


CLOCK_LIMIT_SECONDS = 1.0
DESCRIPTORS_LIMIT = 4096
PROCESSES_LIMIT = 1024
SPILL_LIMIT_BYTES = 1 << 30
SHARED_MEMORY_LIMIT_BYTES = 32 << 20
MEMORY_PER_WORKER_BYTES = 256 << 20


def versions_of(name: str, theirs: str, ours: str) -> Finding:
    """Compare the versions of a distribution of Scaler at the scheduler and here."""
    if theirs.split(".")[:1] == ours.split(".")[:1]:
        return Finding(Severity.OK, f"The scheduler has version {theirs}; this host has {ours}.")
    return Finding(
        Severity.WARNING,
        f"The scheduler has version {theirs}, but this host has {ours}.",
        f"Install the same major version of {name} on both.",
    )


def of_host(
    theirs: Mapping[str, Any], ours: Mapping[str, Any], offset_seconds: float, workers: int, scheduler_version: str
) -> Iterator[Finding]:
    """``theirs`` and ``ours``: host facts. ``offset_seconds``: how much their clock is ahead, beyond what the
    measurement may be wrong by. ``workers``: how many run there."""
    host = theirs["host"]
    problems = [
        *_worker_version(host, theirs["scaler"], scheduler_version),
        *_python(host, theirs["python"], ours["python"]),
        *_packages(host, theirs["packages"], ours["packages"]),
        *of_clock(host, offset_seconds),
        *_limits(host, theirs),
        *_memory(host, theirs, workers),
    ]
    yield from problems
    if not problems:
        yield Finding(
            Severity.OK, f"{host}: Python {theirs['python']}, {theirs['cpus']} CPUs, packages and limits fit."
        )


def _worker_version(host: str, theirs: str, scheduler_version: str) -> Iterator[Finding]:
    """``theirs``: empty where scaler-worker runs without being installed."""
    if theirs and theirs.split(".")[:1] != scheduler_version.split(".")[:1]:
        yield Finding(
            Severity.WARNING,
            f"{host}: its workers have version {theirs}, but the scheduler has {scheduler_version}.",
            "Install the same major version of scaler-worker there and of scaler-scheduler.",
        )


def _python(host: str, theirs: str, ours: str) -> Iterator[Finding]:
    if theirs.split(".")[:2] != ours.split(".")[:2]:
        yield Finding(
            Severity.FAILURE,
            f"{host}: its workers have Python {theirs}, but this host has {ours}.",
            "Functions cannot be sent between these versions. Use the same minor version of Python on both.",
        )


def _packages(host: str, theirs: Mapping[str, str], ours: Mapping[str, str]) -> Iterator[Finding]:
    for name, version in sorted(ours.items()):
        there = theirs.get(name)
        if there is None:
            yield Finding(
                Severity.WARNING,
                f"{host}: it has no {name}, but this host has {name} {version}.",
                f"If your tasks use it, install it for the workers: python -m pip install {name}=={version}",
            )
        elif there.split(".")[:2] != version.split(".")[:2]:
            yield Finding(
                Severity.WARNING,
                f"{host}: it has {name} {there}, but this host has {version}.",
                f"{_contents(name)} may not travel between these versions. Install the same one on both.",
            )


def _contents(package: str) -> str:
    return "Functions" if package == "cloudpickle" else f"Values of {package}"


def certain_offset_seconds(least_seconds: float, most_seconds: float) -> float:
    """Return how much a clock is ahead of this host's for certain, if it is ahead by between these; 0: they may
    agree."""
    return max(0.0, least_seconds) + min(0.0, most_seconds)


def of_clock(host: str, offset_seconds: float) -> Iterator[Finding]:
    if abs(offset_seconds) > CLOCK_LIMIT_SECONDS:
        direction = "ahead of" if offset_seconds > 0 else "behind"
        yield Finding(
            Severity.WARNING,
            f"{host}: its clock is {abs(offset_seconds):.1f} s {direction} this host's.",
            "Times in logs and monitors will disagree. Synchronize the clocks, for example with chrony.",
        )


def _limits(host: str, facts: Mapping[str, Any]) -> Iterator[Finding]:
    if 0 <= facts["descriptors"] < DESCRIPTORS_LIMIT:
        yield Finding(
            Severity.WARNING,
            f"{host}: its workers may open only {facts['descriptors']} files.",
            f"Raise the limit before starting them: ulimit -n {DESCRIPTORS_LIMIT}",
        )
    if 0 <= facts["processes"] < PROCESSES_LIMIT:
        yield Finding(
            Severity.WARNING,
            f"{host}: its user may have only {facts['processes']} processes and threads.",
            f"Raise the limit before starting the workers: ulimit -u {PROCESSES_LIMIT}",
        )
    yield from _spill_directory(host, facts, ", or give scaler_cluster there another --spill-directory")


def of_client_host(facts: Mapping[str, Any]) -> Iterator[Finding]:
    """``facts``: of the host of this client, on which no workers run. It may have an object store for its clients."""
    yield from _spill_directory(f"{facts['host']} (this host)", facts, "")


def _spill_directory(host: str, facts: Mapping[str, Any], alternative: str) -> Iterator[Finding]:
    """``alternative``: the end of the sentence that says what to do."""
    directory = facts["spill_directory"]
    if not facts["spill_capacity_bytes"]:
        yield Finding(
            Severity.WARNING,
            f"{host}: objects that do not fit into memory cannot be written to {directory}.",
            f"Make this directory writable{alternative}.",
        )
    elif facts["spill_bytes"] < SPILL_LIMIT_BYTES:
        yield Finding(
            Severity.WARNING,
            f"{host}: {directory} has only {facts['spill_bytes'] >> 20} MiB left for objects that do not fit into "
            "memory.",
            f"Free some space there{alternative}.",
        )


def _memory(host: str, facts: Mapping[str, Any], workers: int) -> Iterator[Finding]:
    if not facts["memory_files"]:
        yield Finding(
            Severity.FAILURE,
            f"{host}: its workers cannot create memory files, which hold large values.",
            "Allow memfd_create there, for example in the seccomp profile of the container.",
        )
    free = facts["shared_memory_bytes"]
    if free < SHARED_MEMORY_LIMIT_BYTES:
        yield Finding(
            Severity.WARNING,
            f"{host}: /dev/shm has only {free >> 20} MiB left, which multiprocessing and torch may need in tasks.",
            "Remove files there that nothing uses, or enlarge it: mount -o remount,size=1G /dev/shm; for a container, "
            "--shm-size=1g.",
        )
    limit = facts["group_memory_bytes"]
    if 0 < limit < workers * MEMORY_PER_WORKER_BYTES:
        yield Finding(
            Severity.WARNING,
            f"{host}: its {workers} workers share the {limit >> 20} MiB of their control group.",
            "Raise the limit of the container or the job, or run fewer workers there.",
        )


def of_missing_stores(hosts: Sequence[str], hosts_with_stores: Collection[str]) -> Iterator[Finding]:
    """``hosts``: those with workers."""
    for host in hosts:
        if host not in hosts_with_stores:
            yield Finding(
                Severity.WARNING,
                f"{host}: it has no object store, so its large values go through the scheduler.",
                "The log of its scaler_cluster says why, for example because the home directory is not writable.",
            )


def of_ways(facts: Sequence[Mapping[str, Any]], names: Mapping[tuple[str, int], str]) -> Iterator[Finding]:
    """Between each pair of hosts, and from this one. ``facts``: of this host and the others, each with the endpoints
    that it could not reach. ``names``: the hosts of the endpoints."""
    is_open = True
    for each in facts:
        for address, port, obstacle in each["unreachable"]:
            is_open = False
            yield Finding(
                Severity.WARNING,
                f"{each['host']} cannot connect to {names[address, port]} at {address}:{port}: {obstacle}.",
                "Large values between them go through the scheduler, which is slower. Open this port in the "
                "firewall, or see docs/objects.md.",
            )
    if is_open and names:
        hosts = len({*names.values()})
        stores = f"object stores of {hosts} hosts" if hosts > 1 else f"object store of {hosts} host"
        yield Finding(Severity.OK, f"The {stores} can be reached from everywhere.")
