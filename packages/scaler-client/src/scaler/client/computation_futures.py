"""Futures of the calls of one computation, most of which the application does not get."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from scaler.client.future import ScalerFuture
from scaler.core.outcome import Outcome
from scaler_protocol.messages import Status

if TYPE_CHECKING:
    from scaler.shell.client_io import ClientIO

_WITH_VALUE = (int(Status.SUCCESS), int(Status.SUCCESS_LARGE))


class ComputationFuture(ScalerFuture[Any]):
    """The future of a call that other calls of its computation need, or that needs others. If it ends without a value,
    the calls that nothing needs any more are cancelled.

    ``uses``: how many times other calls need it, and one more if the application has it. The futures of its inputs are
    not kept: a value may go when no call needs it any more."""

    def __init__(self, client_io: ClientIO, is_target: bool, inputs: Sequence[ComputationFuture]) -> None:
        super().__init__(client_io)
        self.uses = 1 if is_target else 0
        self._inputs = tuple(map(weakref.ref, inputs))
        for each in inputs:
            each.uses += 1

    def settle(self, outcome: Outcome) -> bool:
        is_settled = super().settle(outcome)
        if is_settled and outcome[0] not in _WITH_VALUE:
            self._give_up_inputs()
        return is_settled

    def finish(self, outcome: Outcome) -> None:
        super().finish(outcome)
        if outcome[0] not in _WITH_VALUE:
            self._give_up_inputs()

    def set_exception(self, exception: BaseException | None) -> None:
        super().set_exception(exception)
        self._give_up_inputs()

    def _give_up_inputs(self) -> None:
        if self._inputs:
            self._client_io.take_turn_shielded(lambda session: self._withdraw_unneeded())

    def _withdraw_unneeded(self) -> None:
        """Within a turn. The calls at the end of the computation are cancelled first."""
        waiting: list[ComputationFuture] = [self]
        while waiting:
            future = waiting.pop()
            inputs, future._inputs = future._inputs, ()
            if future is not self:
                future.withdraw()
            for each in filter(None, [reference() for reference in inputs]):
                each.uses -= 1
                if not each.uses:
                    waiting.append(each)
