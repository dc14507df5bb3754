"""Cancels the tasks of a call that ends early: by an exception, by Ctrl-C, or because its iterator is closed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from scaler.shell.shielded import shielded

if TYPE_CHECKING:
    from scaler.client.future import ScalerFuture
    from scaler.shell.pump import Pump


def cancel_futures(pump: Pump, futures: Iterable[ScalerFuture[Any]]) -> None:
    """Cancel those of ``futures`` that have not ended, also when a signal handler interrupts this."""

    unfinished = list(futures)

    def withdraw() -> None:
        for future in unfinished:
            future.withdraw()

    cancel_with(pump, withdraw)


def cancel_with(pump: Pump, cancel: Callable[[], object]) -> None:
    """Have ``cancel``, which is idempotent, change the session, with the lock held and where no signal handler
    interrupts it."""

    def act() -> None:
        with pump.lock:
            if not pump.unusable:
                pump.mend()
                cancel()
                pump.turn()

    if pump.unusable:
        return
    if pump.is_mine():  # the garbage collector closes an iterator in the middle of the session's work
        pump.do_late(act)
        return
    shielded(act)
    pump.settle_notices()
