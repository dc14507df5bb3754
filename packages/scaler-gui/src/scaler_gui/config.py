"""The settings of ``scaler_gui``."""

from __future__ import annotations

from dataclasses import dataclass

from scaler_protocol.command import argument, option
from scaler_protocol.units import SECONDS


@dataclass(frozen=True, kw_only=True)
class GuiSettings:
    address: str | None = argument(
        default=None,
        help="Watch the scheduler at this address of this machine, such as tcp://127.0.0.1:2345, or the one with this "
        "monitor address.",
    )
    replay: str | None = option(
        None, "-r", metavar="DIR", help="Replay the event logs that scaler_scheduler --event-log DIR has written."
    )
    go_to: str | None = option(
        None, metavar="TIME", help="With --replay, begin at this time, such as 03:00 or 2023-11-14T14:03:59."
    )
    timeout: float = option(
        5.0, "-t", unit=SECONDS, minimum=0.1, help="Consider the scheduler lost after this long without a message."
    )
