"""The arguments that a callable accepts according to its signature. Many builtins have none and accept anything."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from inspect import Signature
from typing import Any, NamedTuple


class OptionNames(NamedTuple):
    """The options that ``method`` takes, and that its plain form would pass on as arguments."""

    method: str
    names: frozenset[str]


NO_OPTIONS = OptionNames("", frozenset())
TASK_OPTIONS = OptionNames(
    "submit_verbose",
    frozenset(
        {"capabilities", "priority", "retries", "rerun", "timeout_seconds", "memory_bytes", "profiling", "reserialize"}
    ),
)
ACTOR_OPTIONS = OptionNames(
    "actor_verbose", frozenset({"name", "max_restarts", "max_concurrency", "capabilities", "priority"})
)

_NAME_LIMIT_BYTES = 1000
_VARIABLE_FLAGS = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS


def function_name(callable_: Callable[..., Any]) -> str:
    """A short name for display, of characters that can be sent."""
    name = getattr(callable_, "__qualname__", None) or getattr(callable_, "__name__", None)
    if not isinstance(name, str) or not name.strip():
        name = type(callable_).__qualname__
    return sendable_name(name)


def function_module(callable_: Callable[..., Any]) -> str:
    """The name of the module in which it is defined, for display."""
    name = getattr(callable_, "__module__", None)
    return sendable_name(name if isinstance(name, str) else type(callable_).__module__)


def sendable_name(name: str) -> str:
    """Return as much of a name as a message may have of it."""
    return name[:_NAME_LIMIT_BYTES].encode(errors="replace")[:_NAME_LIMIT_BYTES].decode(errors="ignore")


def argument_list(args: Sequence[Any]) -> Sequence[Any]:
    """Return the arguments of a call. Raises TypeError for what is not a sequence of them, such as a single string."""
    if isinstance(args, (str, bytes)) or not hasattr(args, "__len__"):
        raise TypeError(
            f"args must be a sequence of arguments, not {args!r:.100}. For one argument, write (argument,)."
        )
    return args


def check_call(
    callable_: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], options: OptionNames = NO_OPTIONS
) -> None:
    """Raises TypeError for a coroutine function, and when the arguments do not fit the signature, if there is one.
    ``options``: the error says where these belong."""
    if inspect.iscoroutinefunction(callable_):
        name = function_name(callable_)
        raise TypeError(
            f"Cannot call {name}() in a task: it is a coroutine function, and tasks run no event loop. Pass a function "
            f"that returns asyncio.run({name}(...))."
        )
    if not kwargs and _is_plain(callable_) and _plain_fits(callable_, len(args)):
        return
    signature = signature_of(callable_, follow_wrapped=False)
    if signature is not None:
        try:
            signature.bind(*args, **kwargs)
        except TypeError as error:
            remedy = _remedy(signature, kwargs, options)
            raise TypeError(f"Cannot call {function_name(callable_)}(): {error}.{remedy}") from None


def _remedy(signature: Signature, kwargs: Mapping[str, Any], options: OptionNames) -> str:
    misplaced = [name for name in kwargs if name in options.names and name not in signature.parameters]
    return f" Pass the option {misplaced[0]} to {options.method}()." if misplaced else ""


def signature_of(callable_: Callable[..., Any], follow_wrapped: bool) -> Signature | None:
    """None: it has no signature that can be read. ``follow_wrapped``: that of the function that a decorator wraps."""
    try:
        return inspect.signature(callable_, follow_wrapped=follow_wrapped)
    except (ValueError, TypeError):
        return None


def takes_keyword(callable_: Callable[..., Any], name: str) -> bool:
    """Return whether a keyword argument of this name is the function's own."""
    signature = signature_of(callable_, follow_wrapped=True)
    if signature is None:
        return False
    parameters = signature.parameters
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values()):
        return True
    parameter = parameters.get(name)
    return parameter is not None and parameter.kind is not inspect.Parameter.POSITIONAL_ONLY


def tells_keywords(callable_: Callable[..., Any]) -> bool:
    """Return whether it is known which keyword arguments belong to the function. Many builtins do not tell."""
    return signature_of(callable_, follow_wrapped=True) is not None


def argument_labels(callable_: Callable[..., Any], positional: int, keywords: Sequence[str]) -> list[str]:
    """Labels for the arguments of a call: the names of their parameters, if they are known."""
    signature = signature_of(callable_, follow_wrapped=True)
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = signature.parameters.values() if signature is not None else ()
    names = [parameter.name for parameter in parameters if parameter.kind in kinds][:positional]
    numbered = [f"argument {place + 1}" for place in range(len(names), positional)]
    return [*(f"argument {name!r}" for name in names), *numbered, *(f"argument {name!r}" for name in keywords)]


class Arities:
    """The number of positional arguments that a callable accepts. The function that a decorator wraps is asked, too:
    its wrapper often accepts anything. Where both contradict each other the wrapper counts, since it is what will be
    called."""

    def __init__(self, callable_: Callable[..., Any]) -> None:
        self._plain = callable_ if _is_plain(callable_) and not hasattr(callable_, "__wrapped__") else None
        self._own: Signature | None = None
        self._wrapped: Signature | None = None
        if self._plain is None:
            self._own = signature_of(callable_, follow_wrapped=False)
            self._wrapped = signature_of(callable_, follow_wrapped=True)

    def accepts(self, count: int) -> bool:
        if self._plain is not None:
            return _plain_fits(self._plain, count)
        return _binds(self._own, count)

    def prefers(self, count: int) -> bool:
        """Like ``accepts``, for the callable and for the function that it wraps."""
        return self.accepts(count) and _binds(self._wrapped, count)


def _binds(signature: Signature | None, count: int) -> bool:
    if signature is None:
        return True
    try:
        signature.bind(*[None] * count)
    except TypeError:
        return False
    return True


def _is_plain(callable_: Callable[..., Any]) -> bool:
    """Return whether its code object says all."""
    if type(callable_) is not types.FunctionType:
        return False
    code = callable_.__code__
    return not code.co_kwonlyargcount and not code.co_flags & _VARIABLE_FLAGS


def _plain_fits(function: Any, count: int) -> bool:
    accepted = function.__code__.co_argcount
    return accepted - len(function.__defaults__ or ()) <= count <= accepted
