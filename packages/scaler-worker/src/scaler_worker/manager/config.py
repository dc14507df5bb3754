"""The settings of ``scaler_worker_manager``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from scaler_protocol.command import BadInput, argument, option
from scaler_worker.config import ClusterSettings
from scaler_worker.manager.kinds import KINDS

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


def _kind(text: str) -> str:
    if text not in KINDS:
        raise ValueError(f"{text!r} is not a kind of manager. Give {' or '.join(KINDS)} first.")
    return text


def _manager_name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise ValueError(
            f"{text!r} is not a name of a manager. Give at most 64 letters, digits, underscores, dots and hyphens, "
            "beginning with a letter or digit."
        )
    return text


@dataclass(frozen=True, kw_only=True)
class ManagerSettings(ClusterSettings):
    """The options of every kind: those of ``scaler_cluster``, which its jobs get, and the manager's own. A kind with
    more options derives a class that adds them, so that they are read from the same section."""

    kind: str = argument(help=f"Start workers in this way: {' or '.join(KINDS)}.", parse=_kind)
    name: str | None = option(
        None,
        metavar="NAME",
        parse=_manager_name,
        default_text="none",
        see="managers.md",
        help="Reserve this name: a second manager of the same name is refused.",
    )

    def check_kind(self) -> None:
        """Raises BadInput when these are not the settings of the kind: it was not the first argument."""
        if type(self) is not KINDS[self.kind].load_settings_class():
            raise BadInput(f"Cannot read the options of {self.kind}: give the kind as the first argument.")
