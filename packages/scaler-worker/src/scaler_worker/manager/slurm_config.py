"""The settings of ``scaler_worker_manager slurm``."""

from __future__ import annotations

from dataclasses import dataclass

from scaler_protocol.command import option
from scaler_worker.manager.batch_config import BatchSettings
from scaler_worker.manager.core.batch_system import BatchSystem
from scaler_worker.manager.core.slurm import SLURM, sbatch_options


def _sbatch_options(text: str) -> str:
    sbatch_options(text)
    return text


@dataclass(frozen=True, kw_only=True)
class SlurmSettings(BatchSettings):
    """The options of the kind ``slurm``, besides those of every batch system."""

    partition: str | None = option(
        None, metavar="NAME", default_text="Slurm's default", help="Submit the jobs to this partition."
    )
    account: str | None = option(
        None, metavar="NAME", default_text="Slurm's default", help="Charge this account for the jobs."
    )
    qos: str | None = option(
        None, metavar="NAME", default_text="Slurm's default", help="Submit the jobs with this quality of service."
    )
    sbatch_options: str | None = option(
        None,
        metavar="OPTIONS",
        parse=_sbatch_options,
        default_text="none",
        help="Pass these further options to sbatch, such as '--constraint=fast --gres=gpu:1'.",
    )

    @staticmethod
    def system() -> BatchSystem:
        return SLURM

    def system_options(self) -> tuple[str, ...]:
        named = {"partition": self.partition, "account": self.account, "qos": self.qos}
        given = (f"--{name}={value}" for name, value in named.items() if value is not None)
        return (*given, *sbatch_options(self.sbatch_options or ""))
