"""Actions on the cluster that pages ask for: first the question, and after a yes the action itself."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable
from typing import Any

from scaler_protocol.address import Address, parse_address
from scaler_protocol.command.threads import lack_of_thread, start_thread
from scaler_protocol.monitor.operation import (
    ACTION_LABELS,
    ACTIONS_OF_TABLE,
    TARGET_LIMIT,
    VALUE_LABELS,
    Operation,
    OperationOutcome,
    action_of,
    needs_confirmation,
    question_of,
    scheduler_address,
)
from scaler_protocol.monitor.operator import operate
from scaler_protocol.profile_report import nested
from scaler_scheduler.web.sources import PageSource

_AT_ONCE = 4
_AWAY_TEXT = "Cannot do this: nothing is known of the scheduler yet."
_OFF_TEXT = "Cannot do this: scaler_ui runs without actions. Start it with a token, and without --no-actions."

Offer = dict[str, list[tuple[int, str, tuple[str, ...], str]]]
"""The actions by table, each as its number, its label, the keys of the columns with the target, and a description of
the value that it needs; empty if it needs none."""


class PageOperations:
    """``is_permitted``: False: pages may only watch."""

    def __init__(
        self,
        source: PageSource,
        is_permitted: bool,
        perform: Callable[[Address, Operation, str, str], OperationOutcome] = operate,
    ) -> None:
        self._source = source
        self._is_permitted = is_permitted and bool(source.watched)
        self._perform = perform
        self._turns = asyncio.Semaphore(_AT_ONCE)

    def offer(self) -> Offer:
        """Return the actions that pages may request; empty if nothing is permitted."""
        if not self._is_permitted:
            return {}
        return {
            table: [
                (int(each), ACTION_LABELS[each], columns, VALUE_LABELS.get(each, ""))
                for each, columns in actions.items()
            ]
            for table, actions in ACTIONS_OF_TABLE.items()
        }

    async def answer(self, said: dict[str, Any]) -> dict[str, Any]:
        """The answer to a page: a ``question``, or whether it ``is_done``, with a ``text``. ``said``: the ``action``
        by its number, its ``target`` and ``value``, and whether it ``is_confirmed``. Raises ValueError for anything
        else."""
        value = float(said.get("value") or 0.0)
        operation = Operation(action_of(int(said["action"])), str(said["target"]), value)
        if not 0 < len(operation.target) <= TARGET_LIMIT or not math.isfinite(value):
            raise ValueError("a target that no page has")
        if not self._is_permitted:
            return _told(OperationOutcome(False, _OFF_TEXT))
        if needs_confirmation(operation) and said.get("is_confirmed") is not True:
            return {"question": question_of(operation)}
        snapshot = self._source.model.snapshot
        if snapshot is None:
            return _told(OperationOutcome(False, _AWAY_TEXT))
        try:
            address = scheduler_address(parse_address(self._source.watched), parse_address(snapshot.scheduler.address))
        except ValueError as error:  # whatever publishes there says so
            return _told(OperationOutcome(False, f"Cannot do this: {error}"))
        async with self._turns:
            return _told(await self._carry_out(address, operation))

    async def _carry_out(self, address: Address, operation: Operation) -> OperationOutcome:
        """Perform it in a thread of its own: an executor that finds no thread keeps the work, and does it later."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[OperationOutcome] = loop.create_future()

        def end(outcome: OperationOutcome) -> None:
            if not done.done():
                done.set_result(outcome)

        def run() -> None:
            outcome = self._perform(address, operation, "scaler-scheduler", "scaler_ui")
            with contextlib.suppress(RuntimeError):  # scaler_ui has ended meanwhile
                loop.call_soon_threadsafe(end, outcome)

        try:
            start_thread(run)
        except RuntimeError as error:
            return OperationOutcome(False, f"Cannot do this: {lack_of_thread(error)}")
        return await done


def _told(outcome: OperationOutcome) -> dict[str, Any]:
    told: dict[str, Any] = {"is_done": outcome.is_done, "text": outcome.text, "report": outcome.report}
    if outcome.profile is not None and outcome.profile.total_us:
        told["flame"] = nested(outcome.profile)
    return told
