"""Results of futures inside containers, and values that are sent ahead of the calls that need them."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import CancelledError, Future
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
    """Raise TypeError if ``values`` is, more likely, one value and not several. Its items, if it has any, would be
    characters, keys, rows or names of columns."""
    is_one = isinstance(values, (str, bytes, bytearray, memoryview, Mapping)) or hasattr(values, "shape")
    if is_one or not isinstance(values, Iterable):
        raise TypeError(
            f"Cannot scatter a {type(values).__name__}: scatter() sends each of several values. Pass [value] to send "
            "it as one, or a list of its items."
        )


class Collection(ABC):  # noqa: B024  its subclasses are found, not derived
    """A collection of Dask, or of a library that follows its protocol. Dask itself is not loaded for the check."""

    @classmethod
    def __subclasshook__(cls, kind: type) -> bool:
        return hasattr(kind, "__dask_graph__")


def futures_in(nested: Any) -> list[ScalerFuture[Any]]:
    """The futures in lists, tuples, sets and dicts, in their order, and then those of persisted collections of Dask."""
    from_collections = [future for each in _instances_in(nested, Collection) for future in _futures_of(each)]
    return _instances_in(nested, ScalerFuture) + from_collections


def futures_to_wait_for(futures: Iterable[ScalerFuture[T]]) -> list[ScalerFuture[T]]:
    """``futures``, which may be a persisted collection of Dask, or contain some: then these are replaced by their
    futures. Raises TypeError for a collection that is not persisted."""
    if isinstance(futures, Collection):
        return _awaited(futures)
    listed: list[Any] = list(futures)
    kinds = set(map(type, listed))
    for kind in kinds:
        if not issubclass(kind, (Future, Collection)):
            raise TypeError(f"Cannot wait for an object of type {kind.__name__}: it is not a future.")
    if not any(issubclass(kind, Collection) for kind in kinds):
        return listed
    return [future for each in listed for future in (_awaited(each) if isinstance(each, Collection) else [each])]


def _awaited(collection: Any) -> list[ScalerFuture[Any]]:
    futures = _futures_of(collection)
    if not futures:
        raise TypeError(
            f"Cannot wait for a {type(collection).__name__} that is not persisted: nothing computes it. Pass what its "
            "persist() returns, or call compute()."
        )
    return futures


def _futures_of(collection: Any) -> list[ScalerFuture[Any]]:
    from scaler.integrations.dask_collections import futures_of

    return futures_of(collection)


def gather(nested: Any, get: Callable[..., Any]) -> Any:
    """The same lists, tuples, sets and dicts with results in the places of futures, and values in those of collections
    of Dask, which ``get`` computes. An interruption cancels the futures, as that of a map does."""
    found = _instances_in(nested, (ScalerFuture, Collection))
    futures = [each for each in found if isinstance(each, ScalerFuture)]
    _wait_for_results(futures)
    if len(futures) == len(found):
        return replace_instances(nested, ScalerFuture, ScalerFuture.result)
    from scaler.integrations.dask_collections import values_of

    values = iter(values_of(get, [each for each in found if not isinstance(each, ScalerFuture)]))

    def value_of(each: Any) -> Any:
        return each.result() if isinstance(each, ScalerFuture) else next(values)

    return replace_instances(nested, (ScalerFuture, Collection), value_of)


def _wait_for_results(futures: list[ScalerFuture[Any]]) -> None:
    ahead = FetchingAhead(futures)
    for place, future in enumerate(futures):
        try:
            ahead.reach(place)
            future.result()
        except BaseException as error:
            if not future.done() or _was_cancelled_by(future, error) or is_interruption(error, future.result):
                _cancel(futures[place:])
            raise


def _was_cancelled_by(future: ScalerFuture[Any], error: BaseException) -> bool:
    """Return whether the future is cancelled because ``error``, that of Ctrl-C, was raised while it was awaited."""
    return future.cancelled() and not isinstance(error, CancelledError)


def _cancel(futures: list[ScalerFuture[Any]]) -> None:
    for future in futures:
        future.cancel()


def note_interrupted_wait(futures: list[ScalerFuture[T]]) -> None:
    """A call that waited for these futures was left by Ctrl-C."""
    for future in futures:
        if isinstance(future, ScalerFuture):
            future.note_interrupted_wait()


def _instances_in(nested: Any, types: type | tuple[type, ...]) -> list[Any]:
    found: list[Any] = []
    replace_instances(nested, types, found.append)
    return found


def replace_instances(value: Any, replaced: type | tuple[type, ...], change: Callable[[Any], Any]) -> Any:
    """The same lists, tuples, sets and dicts with what ``change`` returns in the places of instances of these types."""
    kind = type(value)
    if isinstance(value, replaced):
        return change(value)
    if kind in (list, tuple, set, frozenset):
        return kind(replace_instances(each, replaced, change) for each in value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return kind(*(replace_instances(each, replaced, change) for each in value))
    if kind is dict:
        return {
            replace_instances(key, replaced, change): replace_instances(each, replaced, change)
            for key, each in value.items()
        }
    return value
