"""Finds out which part of a value cannot be pickled, by pickling its parts.

An exception such as "cannot pickle '_thread.lock' object" does not say where the lock is. The path to it does: "item 3
of list: attribute 'lock' of Settings".
"""

from __future__ import annotations

import functools
import pickle
import reprlib
import time
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from scaler_protocol.user_frames import user_part

Dumps = Callable[[Any], object]
Part = tuple[str, Any]

SEARCH_SECONDS = 2.0
_DEPTH_LIMIT = 50
_SHOWN_STEPS = 4
_PROTOCOL = 5
_REWRITABLE = (
    TypeError, ValueError, AttributeError, RuntimeError, RecursionError, NotImplementedError, pickle.PicklingError,
)  # fmt: skip
"""Exceptions whose only argument is a text."""


def explained(error: Exception, what: str, value: Any, dumps: Dumps | None) -> Exception:
    """The same exception with a text that begins with ``what`` and names the part of ``value`` that ``dumps`` cannot
    take; None: parts cannot be tried. An exception of another kind is returned as it is, with a note."""
    if dumps is None:
        return rewritten(error, f"{what}: {_text_of(error)}")
    path, culprit, reason = find_culprit(value, dumps, error)
    text, kind = _text_of(reason), type(culprit).__qualname__
    if kind not in text:
        text += f" (while pickling {kind})"
    return rewritten(error, ": ".join([what, *_shortened(path), text]))


def _shortened(path: list[str]) -> list[str]:
    """The outermost and the innermost steps of a long path."""
    return path if len(path) <= 2 * _SHOWN_STEPS else [*path[:_SHOWN_STEPS], "...", *path[-_SHOWN_STEPS:]]


def rewritten(error: Exception, text: str) -> Exception:
    """``error`` with this text, and of its traceback what is the user's. Exceptions that are made of more than a text
    keep theirs and get a note."""
    trace = user_part(error.__traceback__)
    if type(error) in _REWRITABLE:
        return type(error)(text).with_traceback(trace)
    error.add_note(text)
    return error.with_traceback(trace)


def find_culprit(value: Any, dumps: Dumps, error: Exception) -> tuple[list[str], Any, Exception]:
    """The path to the innermost part that cannot be pickled, that part, and what is raised for it; ``error`` is what
    was raised for ``value``. After SEARCH_SECONDS the path ends where the search has come to."""
    search = _Search(dumps, time.monotonic() + SEARCH_SECONDS)
    path: list[str] = []
    for _ in range(_DEPTH_LIMIT):
        found = search.first_bad_part(value)
        if found is None:
            break
        label, value, error = found
        path.append(label)
    return path, value, error


class _Search:
    def __init__(self, dumps: Dumps, deadline: float) -> None:
        self._dumps = dumps
        self._deadline = deadline
        self._visited: list[Any] = []

    def first_bad_part(self, value: Any) -> tuple[str, Any, Exception] | None:
        if any(each is value for each in self._visited):
            return None
        self._visited.append(value)
        try:
            for parts in _groups_of_parts(value):
                found = self._search(list(parts))
                if found is not None:
                    return found
        except Exception:  # whatever the value's own methods do
            pass
        return None

    def _search(self, parts: Sequence[Part]) -> tuple[str, Any, Exception] | None:
        """Search by halves, since there may be many parts."""
        while len(parts) > 1:
            if time.monotonic() > self._deadline:
                return None
            half = parts[: len(parts) // 2]
            parts = half if self._error([part for _, part in half]) is not None else parts[len(half) :]
        for label, part in parts:
            error = self._error(part)
            if error is not None:
                return label, part, error
        return None

    def _error(self, value: Any) -> Exception | None:
        try:
            self._dumps(value)
        except Exception as error:
            return error
        return None


# ---- what values are made of -----------------------------------------------------------------------------------------


def _groups_of_parts(value: Any) -> Iterator[Iterator[Part]]:
    """Yield groups of parts in the order in which they are searched."""
    if isinstance(value, functools.partial):
        yield _parts_of_partial(value)
    elif isinstance(value, types.MethodType):
        yield iter([("its object", value.__self__), ("its function", value.__func__)])
    elif isinstance(value, types.FunctionType):
        yield _parts_of_function(value)
    elif isinstance(value, type):
        yield ((f"attribute {name!r} of class {value.__qualname__}", each) for name, each in _class_parts(value))
    else:
        yield from _groups_of_object(value)


def _groups_of_object(value: Any) -> Iterator[Iterator[Part]]:
    name = type(value).__qualname__
    if isinstance(value, dict):
        yield ((f"key {_short(key)} of {name}", key) for key in value)
        yield ((f"value of key {_short(key)} of {name}", each) for key, each in value.items())
    elif isinstance(value, (list, tuple, set, frozenset)):
        yield ((f"item {index} of {name}", each) for index, each in enumerate(value))
    if type(value).__module__ != "builtins":
        yield from _groups_of_state(value, name)
        yield iter([("its class", type(value))])


def _groups_of_state(value: Any, name: str) -> Iterator[Iterator[Part]]:
    """The parts of the object, according to ``__reduce_ex__``."""
    reduced = value.__reduce_ex__(_PROTOCOL)
    if not isinstance(reduced, tuple):
        return
    _, arguments, state, items, pairs = (*reduced, None, None, None, None)[:5]
    for part in state if isinstance(state, tuple) and len(state) == 2 else (state,):
        if isinstance(part, dict):
            yield ((f"attribute {key!r} of {name}", each) for key, each in part.items())
        elif part is not None:
            yield iter([(f"state of {name}", part)])
    if not isinstance(value, (list, dict)):
        yield ((f"item {index} of {name}", each) for index, each in enumerate(items or ()))
        yield ((f"value of key {_short(key)} of {name}", each) for key, each in pairs or ())
    yield ((f"part {index} of {name}", each) for index, each in enumerate(arguments or ()) if each is not type(value))


def _parts_of_partial(value: functools.partial[Any]) -> Iterator[Part]:
    yield "its function", value.func
    for index, each in enumerate(value.args):
        yield f"argument {index + 1} of partial", each
    for name, each in value.keywords.items():
        yield f"argument {name!r} of partial", each


def _parts_of_function(function: types.FunctionType) -> Iterator[Part]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield f"closure variable {name!r}", cell.cell_contents
        except ValueError:  # not set yet
            pass
    names = function.__code__.co_varnames
    defaults = function.__defaults__ or ()
    first = function.__code__.co_argcount - len(defaults)
    for index, each in enumerate(defaults):
        yield f"default of parameter {names[first + index]!r}", each
    for name, each in (function.__kwdefaults__ or {}).items():
        yield f"default of parameter {name!r}", each
    for name in _global_names(function.__code__):
        if name in function.__globals__:
            yield f"global variable {name!r}", function.__globals__[name]
    for name, each in function.__dict__.items():
        yield f"attribute {name!r} of {function.__qualname__}", each


def _global_names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _global_names(constant)


def _class_parts(value: type) -> Iterator[Part]:
    for name, each in vars(value).items():
        if isinstance(each, (staticmethod, classmethod)):
            each = each.__func__
        if name not in ("__dict__", "__weakref__"):
            yield name, each


# ---- text ------------------------------------------------------------------------------------------------------------


def _short(key: object) -> str:
    return (
        reprlib.repr(key) if type(key) in (str, int, float, bool, bytes, type(None)) else f"<{type(key).__qualname__}>"
    )


def _text_of(error: Exception) -> str:
    """The text of the error, with its type if the type is informative."""
    try:
        text = str(error)
    except Exception:
        text = ""
    return text if type(error) in _REWRITABLE and text else f"{type(error).__qualname__}: {text}".rstrip(": ")
