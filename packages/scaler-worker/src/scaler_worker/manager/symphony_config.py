"""The settings of ``scaler_worker_manager symphony``."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from scaler_protocol.command import BadInput, option
from scaler_protocol.limits import WORKERS_LIMIT
from scaler_worker.config import AgentOptions, ClusterSettings
from scaler_worker.manager.config import ManagerSettings

_IRRELEVANT = ("address", "num_of_workers", "manager", "echo_streamed_output")


@dataclass(frozen=True, kw_only=True)
class SymphonyManagerSettings(ManagerSettings):
    """The options of the kind ``symphony``, besides those of every kind."""

    num_of_workers: int | None = option(
        None,
        "-n",
        metavar="COUNT",
        minimum=1,
        maximum=WORKERS_LIMIT,
        default_text="none",
        help="Run at most this many tasks in Symphony at the same time.",
    )
    service: str | None = option(
        None, metavar="NAME", default_text="none; required", help="Use this Symphony service, such as ScalerService."
    )

    @property
    def worker_count(self) -> int:
        """Raises BadInput when no number was given."""
        if self.num_of_workers is None:
            raise BadInput("Cannot run tasks in Symphony: give --num-of-workers or --maximum-workers.")
        return self.num_of_workers

    def check(self) -> None:
        """Raises BadInput. Symphony's service runs the tasks, so that options of worker processes have no effect."""
        if not self.service:
            raise BadInput("Cannot run tasks in Symphony: give the name of its service with --service.")
        kept = {*_IRRELEVANT, *(field.name for field in dataclasses.fields(AgentOptions))}
        for field in dataclasses.fields(ClusterSettings):
            if field.name not in kept and getattr(self, field.name) != field.default:
                name = field.name.replace("_", "-")
                raise BadInput(
                    f"Cannot use --{name} with Symphony, whose service runs the tasks. Leave it out, and configure the "
                    "service."
                )
