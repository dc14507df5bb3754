"""Functions and arguments of calls: checked, serialized, and remembered where that is sound."""

from __future__ import annotations

import pickle
import time
import types
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import cloudpickle

from scaler.client.captures import CaptureSnapshot, pickles_by_reference, take_snapshot
from scaler.client.reducers import serialize_for_task
from scaler.client.serializer import (
    PICKLE_PROTOCOL,
    DefaultSerializer,
    Serializer,
    probe,
    probe_privately,
    send_program_by_value,
    serialize_apart,
    serialize_for_sharing,
    serialize_privately,
    serialize_privately_apart,
    serialize_privately_for_sharing,
)
from scaler.client.signatures import function_module, function_name
from scaler.core.runs import Function, Shape
from scaler_protocol.culprit import explained
from scaler_protocol.limits import NAME_LIMIT_BYTES
from scaler_protocol.messages import TaskOptions
from scaler_protocol.objects.layout import ObjectLayout, load
from scaler_protocol.shipping.modules import ShippedModule, ShippedModules

_REMEMBERED_LIMIT = 4096
_BY_VALUE_LIMIT = 512
_CHANGES_LIMIT = 16
_KEYWORDS_LIMIT_BYTES = 256 * 1024

PLAIN_TYPES = frozenset({int, float, str, bytes, bool, complex, type(None)})
"""The types for which pickle and cloudpickle write the same bytes."""


class Encoder:
    """Serializes functions and arguments. ``plain_types``: the types for which plain pickle suffices. ``is_private``:
    others cannot read what the client sends. ``probe`` raises what serializing a part of a value would raise; None for
    a custom serializer, whose values may have parts that are not serialized one by one."""

    def __init__(self, serializer: Serializer | type[Serializer], is_private: bool = False) -> None:
        self.is_default = serializer is DefaultSerializer or type(serializer) is DefaultSerializer
        self.plain_types = PLAIN_TYPES if self.is_default else frozenset()
        serialize = serialize_privately if is_private else DefaultSerializer.serialize
        self.encode: Callable[[Any], bytes] = serialize if self.is_default else self._encode_custom
        apart = serialize_privately_apart if is_private else serialize_apart
        self.encode_argument: Callable[[Any], bytes | ObjectLayout] = apart if self.is_default else self.encode
        shared = serialize_privately_for_sharing if is_private else serialize_for_sharing
        self.encode_shared: Callable[[Any], bytes | ObjectLayout] = shared if self.is_default else self.encode
        self.decode: Callable[[bytes], Any] = pickle.loads if self.is_default else self._decode_custom
        self.decode_object: Callable[[Any], Any] = load if self.is_default else self._decode_custom
        self.probe: Callable[[Any], object] | None = None
        if self.is_default:
            self.probe = probe_privately if is_private else probe
        self._serializer = serializer
        send_program_by_value()

    def definition(self, modules: tuple[ShippedModule, ...] = (), environment: str = "") -> Function | None:
        """The serializer itself, for the workers, with the modules and the environment that they need; None for the
        default serializer, which they have."""
        own = None if self.is_default else self._own_definition()
        if not modules and not environment:
            return own
        shipped = ShippedModules(modules, b"" if own is None else own.payload, environment)
        return Function("modules", pickle.dumps(shipped, PICKLE_PROTOCOL), environment)

    def _own_definition(self) -> Function:
        serializer = self._serializer
        name = serializer.__name__ if isinstance(serializer, type) else type(serializer).__name__
        return Function(name, cloudpickle.dumps(serializer, PICKLE_PROTOCOL))

    def _encode_custom(self, value: Any) -> bytes:
        payload = serialize_for_task(self._serializer.serialize, value)
        if type(payload) is bytes:
            return payload
        if isinstance(payload, (bytes, bytearray, memoryview)):
            return bytes(payload)
        raise TypeError(f"{type(self._serializer).__name__}.serialize() returned {type(payload).__name__}, not bytes.")

    def _decode_custom(self, payload: bytes) -> Any:
        return self._serializer.deserialize(bytes(payload))


@dataclass(frozen=True, slots=True)
class _ByValue:
    """The last function of some code. ``snapshot``: None if it must be serialized each time. ``changes``: how often
    such a function was not the last one. Other threads may read: it is replaced, not changed."""

    code: types.CodeType
    snapshot: CaptureSnapshot | None
    function: Function
    changes: int


class FunctionBook:
    """Finds the Function of a callable. A callable that is pickled by reference is serialized once; a function that is
    pickled by value, when what it captures has changed; any other callable each time, and large functions, too, so
    that what they capture is not kept. ``on_function`` is called with each callable that is looked for."""

    def __init__(self, encoder: Encoder, on_function: Callable[[Callable[..., Any]], None] | None = None) -> None:
        self._encoder = self.encoder = encoder
        self._on_function = on_function
        self.by_reference: dict[int, tuple[Callable[..., Any], Function]] = {}
        self._by_code: dict[int, _ByValue] = {}
        self._by_content: dict[bytes, Function] = {}

    def find(self, callable_: Callable[..., Any]) -> Function:
        if self._on_function is not None:
            self._on_function(callable_)
        known = self.by_reference.get(id(callable_))
        if known is not None and known[0] is callable_:
            return known[1]
        if type(callable_) is types.FunctionType:
            last = self._by_code.get(id(callable_.__code__))
            if last is not None and last.snapshot is not None and last.snapshot.is_of(callable_):
                return last.function
        elif not callable(callable_):
            raise TypeError(f"{callable_!r} is not callable.")
        return self._serialize(callable_)

    def _serialize(self, callable_: Callable[..., Any]) -> Function:
        function = self._encoded(callable_)
        if not self._encoder.is_default:
            return function
        if pickles_by_reference(callable_, function.payload):
            _bound(self.by_reference)[id(callable_)] = (callable_, function)
        elif type(callable_) is types.FunctionType and not function.is_large:
            return self._remember_by_value(callable_, function)
        return function

    def _encoded(self, callable_: Callable[..., Any]) -> Function:
        try:
            payload = self._encoder.encode(callable_)
        except Exception as error:
            what = f"Cannot send the function {function_name(callable_)}()"
            raise explained(error, what, callable_, self._encoder.probe) from None
        clock = time.time if getattr(callable_, "states_submission", False) is True else None
        return self._remember(
            Function(function_name(callable_), payload, module=function_module(callable_), clock=clock)
        )

    def _remember_by_value(self, callable_: types.FunctionType, function: Function) -> Function:
        """Take a snapshot, which costs as much as serializing, so that a function that changes often has none. The
        function is serialized again afterwards: another thread may have changed what it captures."""
        code = callable_.__code__
        last = self._by_code.get(id(code))
        changes = 0 if last is None else last.changes + 1
        snapshot = take_snapshot(callable_) if changes <= _CHANGES_LIMIT else None
        if snapshot is not None:
            function = self._encoded(callable_)
            if not snapshot.is_of(callable_):
                snapshot = None
        _bound(self._by_code, _BY_VALUE_LIMIT)[id(code)] = _ByValue(code, snapshot, function, changes)
        return function

    def _remember(self, function: Function) -> Function:
        known = self._by_content.get(function.digest)
        if known is not None:
            return known
        if not function.is_large:
            _bound(self._by_content)[function.digest] = function
        return function


def _bound(book: dict[Any, Any], limit: int = _REMEMBERED_LIMIT) -> dict[Any, Any]:
    if len(book) >= limit:
        book.clear()
    return book


def shape_of(function: Function, arity: int, keywords: tuple[str, ...], options: TaskOptions) -> Shape:
    """The shape of a call. Equal calls get the same object, so that their tasks join one run. If the shape is new, the
    caller must check the call."""
    key = (arity, keywords, options)
    shape = function.shapes.get(key)
    if shape is None:
        _check_keywords(keywords)
        shape = _bound(function.shapes)[key] = Shape(function, arity, keywords, options)
    return shape


class MapCalls:
    """The shapes of calls that are submitted one by one and belong together: monitors show their progress as that of
    one map. ``number``: of the map. ``tasks``: how many calls there will be; 0: all are submitted at once."""

    def __init__(self, options: TaskOptions, number: int, tasks: int) -> None:
        self._options = replace(options, map_number=number, map_tasks=tasks)
        self._shapes: dict[tuple[Function, object], Shape] = {}

    def find(self, function: Function, key: object) -> Shape | None:
        """None: it is new, so that the caller must check the call. ``key``: as of ``Function.usual_shapes``."""
        return self._shapes.get((function, key))

    def add(self, function: Function, key: object, arity: int, keywords: tuple[str, ...]) -> Shape:
        _check_keywords(keywords)
        shape = Shape(function, arity, keywords, self._options)
        if not function.is_large:
            _bound(self._shapes)[function, key] = shape
        return shape


def _check_keywords(keywords: tuple[str, ...]) -> None:
    """Raises ValueError when these names cannot be sent."""
    try:
        sizes = [len(name.encode()) for name in keywords]
    except UnicodeEncodeError as error:
        raise ValueError(f"The name of the keyword argument {error.object!r} cannot be encoded as UTF-8.") from None
    if sum(sizes) > _KEYWORDS_LIMIT_BYTES:
        raise ValueError(f"The names of the keyword arguments have {sum(sizes)} bytes, over {_KEYWORDS_LIMIT_BYTES}.")
    if max(sizes, default=0) > NAME_LIMIT_BYTES:
        raise ValueError(f"The name of a keyword argument has {max(sizes)} bytes, over {NAME_LIMIT_BYTES}.")
