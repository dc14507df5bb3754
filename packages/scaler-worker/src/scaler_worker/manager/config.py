"""The settings of ``scaler_worker_manager``."""

from __future__ import annotations

import os
import re
import socket
from dataclasses import dataclass

from scaler_protocol.command import BadInput, argument, option
from scaler_protocol.limits import WORKERS_LIMIT
from scaler_protocol.units import SECONDS
from scaler_worker.config import ClusterSettings
from scaler_worker.manager.kinds import KINDS

LONGEST_SECONDS = 86_400.0

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


def _kind(text: str) -> str:
    if text not in KINDS:
        raise ValueError(f"{text!r} is not a kind of manager. Give {_choices()} first.")
    return text


def _choices() -> str:
    *others, last = KINDS
    return f"{', '.join(others)} or {last}"


def _manager_name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise ValueError(
            f"{text!r} is not a name of a manager. Give at most 64 letters, digits, underscores, dots and hyphens, "
            "beginning with a letter or digit."
        )
    return text


def default_name(kind: str, is_unique: bool = True) -> str:
    """Return the name of a manager of this kind on this host. ``is_unique``: the host has no other one of this kind."""
    name = f"{kind}-{socket.gethostname()}"
    return name if is_unique else f"{name}-{os.getpid()}"


@dataclass(frozen=True, kw_only=True)
class ScalingOptions:
    """The options of how a manager follows the load."""

    minimum_workers: int = option(
        0,
        metavar="COUNT",
        minimum=0,
        maximum=WORKERS_LIMIT,
        help="With --maximum-workers: always run this many workers.",
    )
    maximum_workers: int | None = option(
        None,
        metavar="COUNT",
        minimum=1,
        maximum=WORKERS_LIMIT,
        default_text="none",
        see="managers.md",
        help="Follow the load: run as many workers as the tasks need, at most this many.",
    )
    target_seconds: float = option(
        60,
        unit=SECONDS,
        minimum=1,
        maximum=LONGEST_SECONDS,
        help="Run enough workers to finish the waiting tasks in this time.",
    )
    cool_down_seconds: float = option(
        20,
        unit=SECONDS,
        minimum=0,
        maximum=LONGEST_SECONDS,
        help="Keep workers for this long after the load has fallen.",
    )
    cost_per_worker_hour: float = option(
        1,
        metavar="COST",
        minimum=0,
        help="Set the price of one worker per hour. Among several managers, the cheapest starts workers first.",
    )
    workers_per_job: int | None = option(
        None,
        metavar="COUNT",
        minimum=1,
        maximum=WORKERS_LIMIT,
        default_text="1 with --maximum-workers, or else all",
        help="Run at most this many workers in one job. When the load falls, jobs end as a whole.",
    )


@dataclass(frozen=True, kw_only=True)
class ManagerSettings(ScalingOptions, ClusterSettings):
    """The options of every kind: those of ``scaler_cluster``, which its jobs get, and the manager's own. A kind with
    more options derives a class that adds them, so that they are read from the same section."""

    kind: str = argument(help=f"Start workers in this way: {_choices()}.", parse=_kind)
    name: str | None = option(
        None,
        metavar="NAME",
        parse=_manager_name,
        default_text="KIND-HOST",
        see="managers.md",
        help="Reserve this name: a second manager of the same name is refused.",
    )

    @property
    def scales(self) -> bool:
        """The number of workers follows the load. Raises BadInput when the options disagree."""
        if self.maximum_workers is None:
            if self.minimum_workers:
                raise BadInput("Cannot follow the load: --minimum-workers has no --maximum-workers. Give both.")
            return False
        if self.num_of_workers is not None or self.worker_names:
            raise BadInput(
                "Cannot follow the load and keep a number of workers. Give --maximum-workers, or --num-of-workers or "
                "--worker-names."
            )
        if self.minimum_workers > self.maximum_workers:
            raise BadInput(
                f"Cannot run at least {self.minimum_workers} and at most {self.maximum_workers} workers. Give a "
                "--minimum-workers that is not above --maximum-workers."
            )
        return True

    @property
    def reserved_name(self) -> str | None:
        """The name that no other manager on this host may have at the same time; None: there is none."""
        return self.name

    @property
    def most_per_job(self) -> int:
        """The most workers of one job."""
        return self.workers_per_job or (1 if self.maximum_workers is not None else WORKERS_LIMIT)

    def check_kind(self) -> None:
        """Raises BadInput when these are not the settings of the kind: it was not the first argument."""
        if f"{type(self).__module__}:{type(self).__name__}" != KINDS[self.kind].settings:
            raise BadInput(f"Cannot read the options of {self.kind}: give the kind as the first argument.")
