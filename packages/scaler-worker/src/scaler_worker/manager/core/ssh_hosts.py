"""The hosts of a manager of the kind ``ssh``, and how many workers each of them runs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_ENTRY = re.compile(
    r"(?:(?P<user>[A-Za-z0-9_][A-Za-z0-9_.-]*)@)?"
    r"(?P<host>\[[0-9A-Fa-f:.%a-z]+\]|[A-Za-z0-9_][A-Za-z0-9_.-]*)"
    r"(?::(?P<port>[0-9]{1,5}))?(?:=(?P<workers>[0-9]{1,5}))?"
)
_LOCAL = re.compile(r"localhost|127\.[0-9.]+|::1")


@dataclass(frozen=True, slots=True)
class RemoteHost:
    """``text``: as it was given, without the number of workers. ``workers`` None: a share of those that are needed."""

    text: str
    host: str
    user: str = ""
    port: int | None = None
    workers: int | None = None

    @property
    def is_local(self) -> bool:
        """Its name means the host that uses it."""
        return _LOCAL.fullmatch(self.host) is not None

    @property
    def ssh_words(self) -> str:
        """The words that a user writes after ssh, or ssh-copy-id, to reach it."""
        target = f"{self.user}@{self.host}" if self.user else self.host
        return f"-p {self.port} {target}" if self.port is not None else target

    @property
    def known_as(self) -> str:
        """Its name in the file of known hosts."""
        return f"[{self.host}]:{self.port}" if self.port is not None else self.host


def parse_host(text: str) -> RemoteHost:
    """``[USER@]HOST[:PORT][=WORKERS]``. Raises ValueError."""
    match = _ENTRY.fullmatch(text)
    port = int(match["port"]) if match is not None and match["port"] else None
    workers = int(match["workers"]) if match is not None and match["workers"] else None
    if match is None or port == 0 or (port or 0) > 65535 or workers == 0:
        raise ValueError(
            f"{text!r} is not a host. Give HOST, USER@HOST:PORT or HOST=WORKERS, and an IPv6 address in brackets."
        )
    return RemoteHost(text.partition("=")[0], match["host"].strip("[]"), match["user"] or "", port, workers)


def capacities(hosts: Sequence[RemoteHost], workers: int | None) -> dict[str, int]:
    """Return how many workers each host runs at most. Hosts without a number of their own share the rest of
    ``workers``, and none runs the share of one that fails. Raises ValueError when the numbers do not fit."""
    names = [each.text for each in hosts]
    twice = [each for each in names if names.count(each) > 1]
    if twice:
        raise ValueError(f"{twice[0]} is given twice. Give each host once, with its number of workers.")
    given = sum(each.workers or 0 for each in hosts)
    sharing = [each.text for each in hosts if each.workers is None]
    if sharing and workers is None:
        raise ValueError(f"{sharing[0]} has no number of workers. Give {sharing[0]}=WORKERS, or --num-of-workers.")
    rest = (workers if workers is not None else given) - given
    if rest < len(sharing) or (not sharing and rest > 0):
        raise ValueError(
            f"{workers} workers cannot be spread over the hosts: {given} are given to hosts by their own numbers, and "
            f"{len(sharing)} hosts share the rest. Change --num-of-workers or the numbers."
        )
    share, more = divmod(rest, len(sharing)) if sharing else (0, 0)
    shares = {name: share + (place < more) for place, name in enumerate(sharing)}
    return {each.text: each.workers if each.workers is not None else shares[each.text] for each in hosts}


def assign(count: int, capacity: Mapping[str, int], used: Mapping[str, int]) -> dict[str, int]:
    """Return how many of ``count`` new workers each host gets: all that fit, spread evenly."""
    free = {name: limit - used.get(name, 0) for name, limit in capacity.items()}
    given = dict.fromkeys(free, 0)
    while count > 0 and any(free.values()):
        for name in sorted(free, key=lambda each: -free[each]):
            if count > 0 and free[name] > 0:
                free[name] -= 1
                given[name] += 1
                count -= 1
    return {name: workers for name, workers in given.items() if workers}
