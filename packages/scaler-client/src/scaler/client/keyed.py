"""Futures by key: two calls with one key are one task, as long as the future of the first is alive."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Hashable, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from scaler.client.fronts import argument_of
from scaler.client.future import FutureInArgument, ScalerFuture
from scaler.client.inputs import pickled_around
from scaler.client.signatures import takes_keyword, tells_keywords
from scaler.core.runs import Function
from scaler.core.uploads import Upload

if TYPE_CHECKING:
    from scaler.client.arguments import Arguments

F = TypeVar("F")
Future = ScalerFuture[Any]

_NAMES = ("key", "pure")
_DIGEST_BYTES = 20


class Identity(NamedTuple):
    """The identity of a call: ``key``, or its function and arguments (``is_pure``)."""

    key: Hashable
    is_pure: bool


class _PureKey(NamedTuple):
    """The key of a pure call, which is never equal to one that the application states."""

    digest: bytes


def identity_of(key: Hashable, pure: bool) -> Identity | None:
    """None: the call is a task of its own. Raises TypeError for a key that cannot be hashed, and for both at once."""
    if key is not None and pure:
        raise TypeError("Cannot submit a call with key= and pure=True: pass one of them.")
    try:
        hash(key)
    except TypeError as error:
        raise TypeError(f"Cannot use this key: {error}. Use a string, a number, or a tuple of these.") from None
    return Identity(key, bool(pure)) if key is not None or pure else None


def take_identity(callable_: Callable[..., Any], kwargs: dict[str, Any]) -> Identity | None:
    """Remove ``key`` and ``pure`` from the keyword arguments, unless they belong to the function: it has parameters of
    these names, or takes any, or does not tell."""
    names = [name for name in _NAMES if name in kwargs and not takes_keyword(callable_, name)]
    if not names or not tells_keywords(callable_):
        return None
    taken = {name: kwargs.pop(name) for name in names}
    return identity_of(taken.get("key"), taken.get("pure", False))


class KeyedFutures:
    """The futures of one client that have keys."""

    def __init__(self) -> None:
        self._futures: weakref.WeakValueDictionary[Hashable, Any] = weakref.WeakValueDictionary()
        self._numbers: weakref.WeakKeyDictionary[Future, int] = weakref.WeakKeyDictionary()
        self._next_number = 0
        self._lock = threading.RLock()  # what a call pickles may submit, too

    def future_of(self, key: Hashable, submit: Callable[[], F]) -> F:
        """The future with this key, or that of a new call. A cancelled future does not count."""
        with self._lock:
            known = self._futures.get(key)
            if known is not None and not known.cancelled():
                return cast("F", known)
            future = self._futures[key] = submit()
            return future

    def forget(self, key: Hashable, future: object) -> None:
        """The call of this future could not be sent."""
        with self._lock:
            if self._futures.get(key) is future:
                del self._futures[key]

    def pure_key(
        self, arguments: Arguments, function: Function, values: Sequence[Any], keywords: Sequence[str]
    ) -> Hashable:
        """The key of a call by its content. Futures among the values stand for themselves."""
        digest = blake2b(function.digest, digest_size=_DIGEST_BYTES)
        digest.update(repr((len(values), tuple(keywords))).encode())
        for value in values:
            for part in self._parts_of(arguments, value):
                digest.update(len(part).to_bytes(8, "little"))
                digest.update(part)
        return _PureKey(digest.digest())

    def _parts_of(self, arguments: Arguments, value: Any) -> list[bytes]:
        value = argument_of(value)
        if isinstance(value, ScalerFuture):
            return [b"future", self._number_of(value)]
        try:
            payload = arguments.encode((value,))[0]
        except FutureInArgument:
            inner: dict[int, Future] = {}
            pickled = pickled_around(value, inner)
            return [pickled, *map(self._number_of, inner.values())]
        if isinstance(payload, Upload):
            return [b"object", payload.key.owner, payload.key.number.to_bytes(8, "little")]
        return [payload if isinstance(payload, bytes) else payload.to_bytes()]

    def _number_of(self, future: Future) -> bytes:
        with self._lock:
            if future not in self._numbers:
                self._next_number += 1
            return self._numbers.setdefault(future, self._next_number).to_bytes(8, "little")
