"""The settings of ``scaler_worker_manager``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from scaler_protocol.command import argument, option
from scaler_worker.config import ClusterSettings

KINDS = ("local",)

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


def _kind(text: str) -> str:
    if text not in KINDS:
        raise ValueError(f"{text!r} is not a kind of manager. Give {' or '.join(KINDS)}.")
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
    """Every option of the command: those of ``scaler_cluster``, which its jobs get, and its own."""

    kind: str = argument(help="Start workers in this way: local.", parse=_kind)
    name: str | None = option(
        None,
        metavar="NAME",
        parse=_manager_name,
        default_text="none",
        see="managers.md",
        help="Reserve this name: a second manager of the same name is refused.",
    )
