"""``scaler doctor``: checks a cluster from this host, step by step, and says what to fix."""

from __future__ import annotations

import dataclasses
import inspect
import json
import logging
import socket
import time
from collections.abc import Iterator, Sequence
from typing import Any

from scaler import Client, __version__
from scaler.client.cluster_info import ClusterInfo
from scaler.command import host_facts
from scaler.command.findings import (
    Finding,
    Severity,
    certain_offset_seconds,
    of_client_host,
    of_clock,
    of_host,
    of_missing_stores,
    of_ways,
    versions_of,
)
from scaler.command.settings import ReportSettings
from scaler.core.scheduler_link import out_of_reach
from scaler.utility.exceptions import ScalerError
from scaler_protocol.address import Address, parse_address
from scaler_protocol.host_software import PACKAGES

HOSTS_SECONDS = 10.0
"""Seconds that hosts have to answer."""

_DESCRIPTION_AGE_SECONDS = 0.5
"""A scheduler may answer with a description that it made a moment ago."""

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
            began = time.time()
            info = client.cluster_info()
            ended = time.time()
            yield Finding(Severity.OK, f"A scheduler answers at {address} and accepts this client.")
            yield versions_of("scaler-client and scaler-scheduler", info.scheduler.version, __version__)
            yield from of_clock(f"{info.scheduler.host} (scheduler)", _scheduler_offset_seconds(info, began, ended))
            yield from _workers(client, info)
    except (ScalerError, OSError, ValueError) as error:  # the last one: a key is missing or wrong
        yield _unaccepted(address, " ".join(str(error).split()), timeout_seconds)


def _scheduler_offset_seconds(info: ClusterInfo, began: float, ended: float) -> float:
    """Return how much the clock of the scheduler, which answered between these times, is ahead for certain."""
    stated = info.snapshot.time
    return certain_offset_seconds(stated - ended, stated - began + _DESCRIPTION_AGE_SECONDS)


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
    endpoints = _store_endpoints(info)
    ours = host_facts.host_facts(list(PACKAGES), list(endpoints))
    if ours["host"] not in hosts:
        yield from of_client_host(ours)
    if not hosts:
        yield Finding(
            Severity.WARNING, "No workers are connected.", f"Start some on each host: scaler_cluster {client.address}"
        )
        return
    workers_by_host = {host: sum(len(each.workers) for each in info.agents if each.host == host) for host in hosts}
    answers, error = _ask_hosts(client, hosts, len(info.workers), list(endpoints))
    for host in hosts:
        if host in answers:
            answer = answers[host]
            offset_seconds = answer.certain_offset_seconds()
            yield from of_host(answer.facts, ours, offset_seconds, workers_by_host[host], info.scheduler.version)
        elif error:
            yield Finding(Severity.FAILURE, f"{host}: its workers cannot be examined.", f"A task failed: {error}")
        else:
            yield Finding(
                Severity.WARNING,
                f"{host}: its workers did not answer within {HOSTS_SECONDS:g} s.",
                "They may be busy: try again later, or see what they run with scaler status.",
            )
    if not parse_address(client.address).is_local:
        yield from of_missing_stores(hosts, {each.host for each in info.snapshot.stores})
    yield from of_ways([ours, *(answer.facts for answer in answers.values())], endpoints)


def _store_endpoints(info: ClusterInfo) -> dict[tuple[str, int], str]:
    """The names of the hosts, by where the object stores of others connect to them."""
    found = {}
    for store in info.snapshot.stores:
        if store.endpoint.startswith("tcp://"):
            address = parse_address(store.endpoint)
            found[address.host, address.port] = store.host
    return found


@dataclasses.dataclass(frozen=True, slots=True)
class HostAnswer:
    """The facts of a host. Its clock is ahead of this host's by between ``least_`` and ``most_offset_seconds``."""

    facts: dict[str, Any]
    least_offset_seconds: float
    most_offset_seconds: float

    def certain_offset_seconds(self) -> float:
        """0 if the clocks may agree."""
        return certain_offset_seconds(self.least_offset_seconds, self.most_offset_seconds)

    def narrowed_by(self, other: HostAnswer) -> HostAnswer:
        return HostAnswer(
            self.facts,
            max(self.least_offset_seconds, other.least_offset_seconds),
            min(self.most_offset_seconds, other.most_offset_seconds),
        )


def _ask_hosts(
    client: Client, hosts: Sequence[str], workers: int, endpoints: list[tuple[str, int]]
) -> tuple[dict[str, HostAnswer], str]:
    """The answers of the hosts that answer, and the error of a task that failed, if one did."""
    answers: dict[str, HostAnswer] = {}
    error = ""
    deadline = time.monotonic() + HOSTS_SECONDS
    while len(answers) < len(hosts) and not error and time.monotonic() < deadline:
        for answer in _ask_once(client, _TASKS_PER_WORKER * workers, endpoints, deadline):
            if isinstance(answer, HostAnswer):
                host = answer.facts["host"]
                answers[host] = answer.narrowed_by(answers.get(host, answer))
            else:
                error = " ".join(str(answer).split()) or type(answer).__name__
        if len(answers) < len(hosts) and not error:
            time.sleep(_ROUND_SECONDS)
    return answers, error


def _ask_once(
    client: Client, tasks: int, endpoints: list[tuple[str, int]], deadline: float
) -> Iterator[HostAnswer | BaseException]:
    begin = time.time()
    received: dict[Any, float] = {}
    names = {"source": inspect.getsource(host_facts), "facts": {}, "arguments": (list(PACKAGES), endpoints)}
    call = "exec(source, facts) or facts['host_facts'](*arguments)"
    futures = [client.submit(eval, call, names) for _ in range(tasks)]
    for future in futures:
        future.add_done_callback(lambda done: received.setdefault(done, time.time()))
    done, not_done = client.wait(futures, timeout=max(0.0, deadline - time.monotonic()))
    for each in not_done:
        each.cancel()
    for each in done:
        if (error := each.exception()) is not None:
            yield error
            continue
        facts = each.result()
        yield HostAnswer(facts, facts["ended"] - received.get(each, time.time()), facts["began"] - begin)


def _lines(finding: Finding) -> list[str]:
    lines = [f"[{finding.severity.value}]".ljust(7) + finding.text]
    return [*lines, " " * 7 + finding.remedy] if finding.remedy else lines
