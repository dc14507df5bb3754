"""The settings of ``scaler_worker_manager ssh``."""

from __future__ import annotations

from dataclasses import dataclass

from scaler_protocol.address import parse_address
from scaler_protocol.command import BadInput, option
from scaler_protocol.limits import WORKERS_LIMIT
from scaler_worker.manager.config import ManagerSettings
from scaler_worker.manager.core.ssh_hosts import RemoteHost, capacities, parse_host


def _host(text: str) -> str:
    parse_host(text)
    return text


@dataclass(frozen=True, kw_only=True)
class SSHSettings(ManagerSettings):
    """The options of the kind ``ssh``, besides those of every kind."""

    hosts: tuple[str, ...] = option(
        (),
        metavar="HOST",
        parse=_host,
        see="managers.md",
        help="Run workers on these hosts: HOST, USER@HOST:PORT or HOST=WORKERS. Hosts without a number share the rest "
        "of --num-of-workers.",
    )
    num_of_workers: int | None = option(
        None,
        "-n",
        metavar="COUNT",
        minimum=1,
        maximum=WORKERS_LIMIT,
        default_text="the sum of the numbers in --hosts",
        help="Run this many workers on all hosts together, each of which runs one task at a time.",
    )
    remote_python: str | None = option(
        None,
        metavar="PATH",
        default_text="this manager's own path, or else python3",
        help="Run this Python on the hosts; it must have scaler-worker installed.",
    )
    ssh_config: str | None = option(
        None, metavar="FILE", default_text="~/.ssh/config", help="Let ssh read this configuration file."
    )

    @property
    def remote_hosts(self) -> tuple[RemoteHost, ...]:
        """Raises BadInput when there are none, or when they cannot reach the scheduler's address."""
        hosts = tuple(map(parse_host, self.hosts))
        if not hosts:
            raise BadInput("Cannot run workers through SSH: no hosts are given. Give --hosts HOST,HOST.")
        away = [each.text for each in hosts if not each.is_local]
        if away and parse_address(self.address).is_local:
            raise BadInput(
                f"Cannot run workers on {away[0]}: it cannot reach the scheduler at {self.address}. Let the scheduler "
                "listen at an address of its host in the network, and give that."
            )
        return hosts

    @property
    def host_capacities(self) -> dict[str, int]:
        """The number of workers that each host runs. Raises BadInput when the numbers do not fit."""
        if self.worker_names:
            raise BadInput(
                "Cannot name workers that run on several hosts. Leave out --worker-names: they are named after hosts."
            )
        hosts = self.remote_hosts
        try:
            return capacities(hosts, self.num_of_workers or self.maximum_workers)
        except ValueError as error:
            raise BadInput(f"Cannot use --hosts: {error}") from None

    def check_ssh_config(self) -> None:
        """Raises BadInput when the file of --ssh-config cannot be read."""
        if self.ssh_config is None:
            return
        try:
            open(self.ssh_config, "rb").close()
        except OSError as error:
            raise BadInput(
                f"Cannot read the --ssh-config {self.ssh_config!r}: {error.strerror}. Give a file that exists and is "
                "readable, or leave it out."
            ) from None

    @property
    def worker_count(self) -> int:
        return sum(self.host_capacities.values())
