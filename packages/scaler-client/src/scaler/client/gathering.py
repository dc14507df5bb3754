"""Results of futures inside containers, and values that are sent ahead of the calls that need them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from scaler.client.fetching_ahead import FetchingAhead
from scaler.client.future import ScalerFuture
from scaler.client.object_reference import ObjectReference
from scaler.core.outcome import Outcome
from scaler.utility.private_apis import FINISHED
from scaler_protocol.messages import Status

if TYPE_CHECKING:
    from scaler.shell.client_io import ClientIO

T = TypeVar("T")
_SENT = Outcome(Status.SUCCESS, b"")


class ScatteredFuture(ScalerFuture[T]):
    """The future of a value that was sent by ``scatter``. As an argument it is the object that was sent."""

    def __init__(self, client_io: ClientIO, reference: ObjectReference[T], value: T) -> None:
        super().__init__(client_io)
        self.reference: ObjectReference[T] | None = reference
        self._result, self._outcome = value, _SENT
        self._loaded, self._state = True, FINISHED

    def release(self) -> None:
        super().release()
        self.reference = None


def futures_in(nested: Any) -> list[ScalerFuture[Any]]:
    """The futures in lists, tuples, sets and dicts, in their order."""
    futures: list[ScalerFuture[Any]] = []
    _replace(nested, lambda future: futures.append(future))
    return futures


def gather(nested: Any) -> Any:
    """The same lists, tuples, sets and dicts with results in the places of futures."""
    futures = futures_in(nested)
    ahead = FetchingAhead(futures)
    for place, future in enumerate(futures):
        ahead.reach(place)
        future.result()
    return _replace(nested, ScalerFuture.result)


def _replace(value: Any, change: Callable[[ScalerFuture[Any]], Any]) -> Any:
    kind = type(value)
    if isinstance(value, ScalerFuture):
        return change(value)
    if kind in (list, tuple, set, frozenset):
        return kind(_replace(each, change) for each in value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return kind(*(_replace(each, change) for each in value))
    if kind is dict:
        return {_replace(key, change): _replace(each, change) for key, each in value.items()}
    return value
