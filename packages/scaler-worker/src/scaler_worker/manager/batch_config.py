"""The settings that all kinds of batch systems have."""

from __future__ import annotations

from dataclasses import dataclass

from scaler_protocol.address import parse_address
from scaler_protocol.command import BadInput, option
from scaler_protocol.limits import WORKERS_LIMIT
from scaler_protocol.units import BYTES, SECONDS
from scaler_worker.manager.config import ManagerSettings, default_name
from scaler_worker.manager.core.batch_script import notice_seconds
from scaler_worker.manager.core.batch_system import BatchSystem, BatchTerms


@dataclass(frozen=True, kw_only=True)
class BatchSettings(ManagerSettings):
    """The options of every batch system, besides those of every kind. The class of each system adds its own, and
    returns them in ``system_options``."""

    num_of_workers: int | None = option(
        None,
        "-n",
        metavar="COUNT",
        minimum=1,
        maximum=WORKERS_LIMIT,
        default_text="none",
        help="Run this many workers in all jobs together, each of which runs one task at a time.",
    )
    time_limit_seconds: float | None = option(
        None,
        unit=SECONDS,
        minimum=60,
        default_text="that of the queue",
        see="managers.md",
        help="Let each job run for this long, in whole minutes. Its workers drain before, and a new job replaces it.",
    )
    cpus_per_worker: int = option(1, metavar="COUNT", minimum=1, help="Reserve this many CPUs for each worker.")
    memory_per_worker: int | None = option(
        None,
        unit=BYTES,
        minimum=1,
        default_text="that of the queue",
        help="Reserve this much memory for each worker.",
    )
    output: str | None = option(
        None,
        metavar="PATH",
        default_text="a file per job in the manager's working directory",
        help="Write the output of each job to this file on its node. The batch system's placeholders work.",
    )
    job_setup: str | None = option(
        None,
        metavar="COMMAND",
        default_text="none",
        help="Run this shell command in each job before its workers start, such as '. /etc/profile'.",
    )
    remote_python: str | None = option(
        None,
        metavar="PATH",
        default_text="this manager's own path",
        help="Run this Python on the nodes; it must have scaler-worker installed.",
    )

    @staticmethod
    def system() -> BatchSystem:
        raise NotImplementedError

    def system_options(self) -> tuple[str, ...]:
        """The arguments of the program that submits jobs. Raises BadInput."""
        raise NotImplementedError

    @property
    def own_name(self) -> str:
        """The manager's name, which its jobs carry."""
        return self.name or default_name(self.kind)

    @property
    def reserved_name(self) -> str:
        """Its jobs outlive it, so that another manager of its name would have them."""
        return self.own_name

    @property
    def worker_count(self) -> int:
        """Raises BadInput when no number was given."""
        if self.worker_names:
            raise BadInput(
                "Cannot name workers that run in jobs. Leave out --worker-names: they are named after their hosts."
            )
        if self.num_of_workers is None:
            title = self.system().title
            raise BadInput(
                f"Cannot run workers in {title}: give their number with --num-of-workers or --maximum-workers."
            )
        return self.num_of_workers

    def terms(self) -> BatchTerms:
        """Return how jobs are submitted. Raises BadInput."""
        if parse_address(self.address).is_local:
            raise BadInput(
                f"Cannot run workers in {self.system().title}: other hosts cannot reach the scheduler at "
                f"{self.address}. Let the scheduler listen at an address of its host in the network, and give that."
            )
        notice = notice_seconds(self.grace_seconds)
        if self.time_limit_seconds is not None and self.time_limit_seconds <= notice:
            raise BadInput(
                f"Cannot run jobs for {self.time_limit_seconds:g} s: their workers begin to drain {notice} s before. "
                "Give a larger --time-limit-seconds or smaller --grace-seconds."
            )
        return BatchTerms(
            self.own_name,
            self.address,
            self.grace_seconds,
            self.cpus_per_worker,
            self.memory_per_worker,
            self.time_limit_seconds,
            self.output,
            self.system_options(),
        )
