"""The instance to which a worker process is dedicated."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn, Protocol


class ActorHolder(Protocol):
    """Keeps the instance."""

    actor: Any


def make_actor(holder: ActorHolder, factory: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Make the instance."""
    holder.actor = factory(*args, **kwargs)


def method_of(instance: Any, name: Any) -> Callable[..., Any]:
    """The method that calls with this name run. ``name``: of class and method, for people; the last part counts. Or a
    partial function whose first argument is such a name: the method takes its place."""
    if isinstance(name, partial):
        return partial(name.func, method_of(instance, name.args[0]))
    try:
        method: Callable[..., Any] = getattr(instance, name.rpartition(".")[2])
    except AttributeError as error:
        return partial(_raise, error)
    return method


def _raise(error: Exception, /, *args: Any, **kwargs: Any) -> NoReturn:
    raise error
