"""Functions that are pickled by value, and what they capture.

A function of ``__main__``, a lambda, or a function within another one travels with its code, and with the values of
the names in it. As long as all of these are the same, its pickle is the same. This module remembers those functions
whose captured values cannot change without becoming other objects: constants, modules, whatever is pickled by
reference, and functions of the same kind. Functions that capture lists, arrays or objects have no snapshot."""

from __future__ import annotations

import operator
import pickle
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import cloudpickle

from scaler.client.serializer import PICKLE_PROTOCOL

_CONSTANT_TYPES = frozenset({int, float, complex, str, bytes, bool, type(None)})
_FUNCTIONS_LIMIT = 64
_MISSING = object()
_MODULE_NAMES = ("__name__", "__package__", "__path__", "__file__")
"""Names of a module that cloudpickle sends with each of its functions."""


@dataclass(frozen=True, slots=True)
class _Captured:
    """One function at the time of a snapshot. ``values``: what the names in its code were, by name; _MISSING: not
    defined. ``cells``: the contents of its closure. The namespace itself is not kept, because it may be large."""

    code: types.CodeType
    labels: tuple[Any, ...]
    defaults: tuple[Any, ...] | None
    values: tuple[tuple[str, Any], ...]
    cells: tuple[Any, ...]

    def is_of(self, function: types.FunctionType) -> bool:
        """``function`` is the same function, or another one of the same code, and what it captures is the same."""
        if (
            function.__code__ is not self.code
            or function.__defaults__ is not self.defaults
            or function.__kwdefaults__
            or function.__dict__
            or not _same(_labels_of(function), self.labels)
        ):
            return False
        find = function.__globals__.get
        for name, value in self.values:
            if find(name, _MISSING) is not value:
                return False
        try:
            return not self.cells or _same(_contents_of(function), self.cells)
        except ValueError:  # a variable has lost its value
            return False


@dataclass(frozen=True, slots=True)
class CaptureSnapshot:
    """A function, and the functions that it captures, directly or through others. ``module_count``: the number of
    imported modules, if it captures a package: cloudpickle sends the package's imported modules with it.
    ``by_value_count``: the number of modules that cloudpickle sends as a whole."""

    root: _Captured
    others: tuple[tuple[types.FunctionType, _Captured], ...]
    module_count: int | None
    by_value_count: int

    def is_of(self, function: types.FunctionType) -> bool:
        """The pickle of ``function`` is the one of the function that the snapshot was taken of."""
        if self.module_count is not None and len(sys.modules) != self.module_count:
            return False
        if len(cloudpickle.list_registry_pickle_by_value()) != self.by_value_count:
            return False
        return self.root.is_of(function) and all(captured.is_of(other) for other, captured in self.others)


def take_snapshot(function: types.FunctionType) -> CaptureSnapshot | None:
    """None: something that the function captures may change and remain the same object."""
    modules_before, by_value_before = len(sys.modules), len(cloudpickle.list_registry_pickle_by_value())
    found: dict[int, tuple[types.FunctionType, _Captured]] = {}
    has_package = False
    waiting = [function]
    while waiting:
        each = waiting.pop()
        if id(each) in found:
            continue
        captured = _capture(each)
        if captured is None or len(found) >= _FUNCTIONS_LIMIT:
            return None
        found[id(each)] = (each, captured)
        for value in _values_of(captured):
            if type(value) is types.FunctionType and not _has_name(value):
                waiting.append(value)
            elif not _is_constant(value):
                return None
            has_package = has_package or (type(value) is types.ModuleType and hasattr(value, "__path__"))
    (_, root), *others = found.values()
    return CaptureSnapshot(root, tuple(others), modules_before if has_package else None, by_value_before)


def pickles_by_reference(value: Any, payload: bytes) -> bool:
    """Return whether ``payload`` only names ``value``. Functions of ``__main__`` are named by pickle, not by
    cloudpickle."""
    if not isinstance(value, (types.FunctionType, types.BuiltinFunctionType, type)):
        return False
    owner = getattr(value, "__self__", None)
    if owner is not None and not isinstance(owner, (types.ModuleType, type)):
        return False
    try:
        return pickle.dumps(value, PICKLE_PROTOCOL) == payload
    except Exception:
        return False


def _capture(function: types.FunctionType) -> _Captured | None:
    if function.__kwdefaults__ or function.__dict__:
        return None
    try:
        cells = _contents_of(function)
    except ValueError:  # a variable that has no value yet
        return None
    code, find = function.__code__, function.__globals__.get
    names = dict.fromkeys([*_MODULE_NAMES, *_names_in(code)])
    values = tuple((name, find(name, _MISSING)) for name in names)
    return _Captured(code, _labels_of(function), function.__defaults__, values, cells)


def _labels_of(function: types.FunctionType) -> tuple[Any, ...]:
    """Return the parts that do not change the work of the function, but its pickle."""
    annotations = function.__annotations__
    labels = (function.__name__, function.__qualname__, function.__doc__)
    return (*labels, *annotations, *annotations.values()) if annotations else labels


def _contents_of(function: Callable[..., Any]) -> tuple[Any, ...]:
    """Raises ValueError if a variable of the closure has no value."""
    closure = function.__closure__
    return tuple(cell.cell_contents for cell in closure) if closure else ()


def _same(values: tuple[Any, ...], others: tuple[Any, ...]) -> bool:
    return len(values) == len(others) and all(map(operator.is_, values, others))


def _names_in(code: types.CodeType) -> Iterator[str]:
    """The names of globals and attributes in the code, and in the functions defined within it."""
    yield from code.co_names
    for constant in code.co_consts:
        if type(constant) is types.CodeType:
            yield from _names_in(constant)


def _values_of(captured: _Captured) -> Iterator[Any]:
    yield from (value for _, value in captured.values if value is not _MISSING)
    yield from captured.cells
    yield from captured.defaults or ()


def _is_constant(value: Any) -> bool:
    if type(value) in _CONSTANT_TYPES:
        return True
    if type(value) is tuple:
        return all(map(_is_constant, value))
    if type(value) is types.ModuleType:
        return _is_imported(value)
    return _has_name(value)


def _is_imported(module: types.ModuleType) -> bool:
    """Workers import the module by its name."""
    name = module.__name__
    by_value = cloudpickle.list_registry_pickle_by_value()
    return (
        sys.modules.get(name) is module
        and name != "__main__"
        and not any(name == each or name.startswith(f"{each}.") for each in by_value)
    )


def _has_name(value: Any) -> bool:
    try:
        return pickles_by_reference(value, cloudpickle.dumps(value, PICKLE_PROTOCOL))
    except Exception:
        return False
