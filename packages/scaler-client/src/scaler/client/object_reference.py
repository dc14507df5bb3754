"""A name for an object that a client has sent."""

from __future__ import annotations

from types import GenericAlias
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from scaler.core.uploads import Upload

T = TypeVar("T")

if TYPE_CHECKING:

    class _StandsForValue(Any, Generic[T]):
        """A type checker accepts it wherever a value is expected. It does not compare ``T`` with what is expected: that
        an argument may be a ``T`` or a reference to one cannot be said of a function's parameters."""

else:

    class _Subscriptable:
        __slots__ = ()
        __class_getitem__ = classmethod(GenericAlias)

    _StandsForValue = _Subscriptable


class ObjectReference(_StandsForValue[T]):
    """The result of ``Client.send_object`` for a ``T``: use it as a top-level argument or as an item of a map. The
    object stays with the cluster while the reference, or a task that uses it, lives; ``Client.clear`` drops it."""

    __slots__ = ("_name", "_owner", "_number", "_upload", "__weakref__")

    def __init__(self, name: str, owner: bytes, number: int, upload: Upload | None = None) -> None:
        self._name = name
        self._owner = owner
        self._number = number
        self._upload = upload

    @property
    def name(self) -> str:
        return self._name

    def __repr__(self) -> str:
        return f"ObjectReference(name={self._name!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ObjectReference):
            return NotImplemented
        return (self._owner, self._number) == (other._owner, other._number)

    def __hash__(self) -> int:
        return hash((self._owner, self._number))

    def __reduce__(self) -> tuple[Any, ...]:
        # Elsewhere it is only a name: the client it came from is not there.
        return ObjectReference, (self._name, self._owner, self._number)

    def __del__(self) -> None:
        upload = getattr(self, "_upload", None)  # a Ctrl-C may strike before it is set
        if upload is not None:
            upload.drop_later()
