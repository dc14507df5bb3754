"""Results of futures inside containers, and values that are sent ahead of the calls that need them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from scaler.client.fetching_ahead import FetchingAhead
from scaler.client.future import ScalerFuture
from scaler.client.object_reference import ObjectReference
from scaler.core.outcome import Outcome
from scaler.shell.interruptions import is_interruption
from scaler.utility.private_apis import FINISHED
from scaler_protocol.messages import Status

if TYPE_CHECKING:
    from scaler.shell.client_io import ClientIO

T = TypeVar("T")
F = TypeVar("F")
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


def check_scattered(values: Any) -> None:
    """Raise TypeError if ``values`` is more likely one value than several. Its items would be characters, keys, rows or
    names of columns."""
    if isinstance(values, (str, bytes, bytearray, memoryview, Mapping)) or hasattr(values, "shape"):
        raise TypeError(
            f"Cannot scatter a {type(values).__name__}: scatter() sends each of several values. Pass [value] to send "
            "it as one, or a list of its items."
        )


def futures_in(nested: Any) -> list[ScalerFuture[Any]]:
    """The futures in lists, tuples, sets and dicts, in their order."""
    futures: list[ScalerFuture[Any]] = []
    replace_futures(nested, ScalerFuture, lambda future: futures.append(future))
    return futures


def gather(nested: Any) -> Any:
    """The same lists, tuples, sets and dicts with results in the places of futures. An interruption cancels the
    futures, as that of a map does."""
    futures = futures_in(nested)
    ahead = FetchingAhead(futures)
    for place, future in enumerate(futures):
        try:
            ahead.reach(place)
            future.result()
        except BaseException as error:
            if not future.done() or is_interruption(error, future.result):
                _cancel(futures[place:])
            raise
    return replace_futures(nested, ScalerFuture, ScalerFuture.result)


def _cancel(futures: list[ScalerFuture[Any]]) -> None:
    for future in futures:
        future.cancel()


def replace_futures(value: Any, future_type: type[F], change: Callable[[F], Any]) -> Any:
    """The same lists, tuples, sets and dicts with what ``change`` returns in the places of futures."""
    kind = type(value)
    if isinstance(value, future_type):
        return change(value)
    if kind in (list, tuple, set, frozenset):
        return kind(replace_futures(each, future_type, change) for each in value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return kind(*(replace_futures(each, future_type, change) for each in value))
    if kind is dict:
        return {
            replace_futures(key, future_type, change): replace_futures(each, future_type, change)
            for key, each in value.items()
        }
    return value
