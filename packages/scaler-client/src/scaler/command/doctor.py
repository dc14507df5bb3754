"""``scaler doctor``: checks a cluster from this host, step by step, and says what to fix."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import logging
import socket
import time
from collections.abc import Iterator, Sequence
from typing import Any

from scaler import Client, __version__
from scaler.client.cluster_info import ClusterInfo
from scaler.command.findings import Finding, Severity, of_host, of_ways, versions_of
from scaler.command.host_facts import host_facts
from scaler.command.settings import ReportSettings
from scaler.core.scheduler_link import out_of_reach
from scaler.utility.exceptions import ScalerError
from scaler_protocol.address import Address, parse_address
from scaler_protocol.host_software import PACKAGES

HOSTS_SECONDS = 10.0
"""Seconds that hosts have to answer."""

_TASKS_PER_WORKER = 2
_ROUND_SECONDS = 0.2


def run(settings: ReportSettings) -> int:
    """Exit code 1 if something fails, although warnings do not count."""
    logging.getLogger("scaler").setLevel(logging.ERROR)  # the findings say why the client waits
    findings = []
    for each in examine(settings.address, settings.timeout):
        findings.append(each)
        if not settings.json:
            print("\n".join(_lines(each)), flush=True)
    if settings.json:
        rows = [{**dataclasses.asdict(each), "severity": each.severity.value} for each in findings]
        print(json.dumps(rows, indent=1))
    return int(any(each.severity is Severity.FAILURE for each in findings))


def examine(address: str, timeout_seconds: float) -> Iterator[Finding]:
    """Ends with the first failure that leaves nothing more to check."""
    reached = _reach(parse_address(address), timeout_seconds)
    yield reached
    if reached.severity is Severity.FAILURE:
        return
    try:
        with Client(address, timeout_seconds=timeout_seconds) as client:
            info = client.cluster_info()
            yield Finding(Severity.OK, f"A scheduler answers at {address} and accepts this client.")
            yield versions_of("scaler-client and scaler-scheduler", info.scheduler.version, __version__)
            yield from _workers(client, info)
    except (ScalerError, OSError) as error:
        yield _unaccepted(address, " ".join(str(error).split()), timeout_seconds)


def _unaccepted(address: str, reason: str, timeout_seconds: float) -> Finding:
    """``reason``: the error of the client. That the scheduler was out of reach says nothing after ``_reach``."""
    obstacle = reason.removeprefix(out_of_reach(timeout_seconds)).strip()
    if obstacle:
        return Finding(Severity.FAILURE, "The scheduler did not accept this client.", obstacle)
    return Finding(
        Severity.FAILURE,
        f"What listens at {address} does not answer as a scheduler.",
        "Give the address of a scheduler. If this is one, it may be suspended or too busy: try a longer --timeout.",
    )


def _reach(address: Address, timeout_seconds: float) -> Finding:
    """Return whether anything listens there."""
    if address.scheme != "tcp":
        return Finding(Severity.OK, f"{address} is an address of this host.")
    try:
        socket.create_connection((address.host, address.port), timeout_seconds).close()
    except socket.gaierror:
        return Finding(
            Severity.FAILURE, f"No host is called {address.host!r}.", "Correct the name, or give an IP address."
        )
    except ConnectionRefusedError:
        return Finding(
            Severity.FAILURE,
            f"Nothing listens at {address}.",
            f"Start a scheduler there: scaler_scheduler {address}; or give the address of the running one.",
        )
    except OSError as error:
        return Finding(
            Severity.FAILURE,
            f"{address.host} cannot be reached: {error.strerror or error}.",
            f"Check the address, the network, and that firewalls let port {address.port} through.",
        )
    return Finding(Severity.OK, f"{address.host} is reachable, and something listens at port {address.port}.")


def _workers(client: Client, info: ClusterInfo) -> Iterator[Finding]:
    hosts = sorted({each.host for each in info.agents})
    if not hosts:
        yield Finding(
            Severity.WARNING, "No workers are connected.", f"Start some on each host: scaler_cluster {client.address}"
        )
        return
    workers_by_host = {host: sum(len(each.workers) for each in info.agents if each.host == host) for host in hosts}
    endpoints = _store_endpoints(info)
    answers = _ask_hosts(client, hosts, len(info.workers), list(endpoints))
    ours = host_facts(list(_installed()), list(endpoints))
    for host in hosts:
        if host in answers:
            yield from of_host(answers[host][0], ours, answers[host][1], workers_by_host[host])
        else:
            yield Finding(
                Severity.WARNING,
                f"{host}: its workers did not answer within {HOSTS_SECONDS:g} s.",
                "They may be busy: try again later, or see what they run with scaler status.",
            )
    yield from of_ways([ours, *(facts for facts, _ in answers.values())], endpoints)


def _store_endpoints(info: ClusterInfo) -> dict[tuple[str, int], str]:
    """The names of the hosts, by where the object stores of others connect to them."""
    found = {}
    for store in info.snapshot.stores:
        if store.endpoint.startswith("tcp://"):
            address = parse_address(store.endpoint)
            found[address.host, address.port] = store.host
    return found


def _ask_hosts(
    client: Client, hosts: Sequence[str], workers: int, endpoints: list[tuple[str, int]]
) -> dict[str, tuple[dict[str, Any], float]]:
    """The facts of each host that answers, and how much its clock is ahead for certain."""
    packages = list(_installed())
    answers: dict[str, tuple[dict[str, Any], float]] = {}
    deadline = time.monotonic() + HOSTS_SECONDS
    while len(answers) < len(hosts) and time.monotonic() < deadline:
        begin = time.time()
        futures = [client.submit(host_facts, packages, endpoints) for _ in range(_TASKS_PER_WORKER * workers)]
        done, not_done = client.wait(futures, timeout=max(0.0, deadline - time.monotonic()))
        for future in not_done:
            future.cancel()
        for future in done:
            facts = future.result()
            answers.setdefault(facts["host"], (facts, _certain_offset(facts["time"], begin, time.time())))
        if len(answers) < len(hosts):
            time.sleep(_ROUND_SECONDS)
    return answers


def _certain_offset(theirs: float, begin: float, end: float) -> float:
    """0 if their time is possible on a clock that agrees."""
    return theirs - end if theirs > end else min(0.0, theirs - begin)


def _installed() -> Iterator[str]:
    for name in PACKAGES:
        try:
            importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        yield name


def _lines(finding: Finding) -> list[str]:
    lines = [f"[{finding.severity.value}]".ljust(7) + finding.text]
    return [*lines, " " * 7 + finding.remedy] if finding.remedy else lines
