"""The state that a worker process keeps for an actor of Ray: the instance, and what each call of it needs."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

from scaler.compat.ray.connecting import leave_task
from scaler.compat.ray.remote_tasks import pickled, with_values


class ActorHost:
    """Holds an instance of the user's class. Subclasses have the name of that class, for monitors."""

    payload = b""
    """The user's class."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        try:
            self._instance = pickle.loads(self.payload)(*args, **kwargs)
        finally:
            leave_task()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name == "_instance":
            raise AttributeError(name)
        method = getattr(self._instance, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            try:
                return with_values(method(*args, **kwargs))
            finally:
                leave_task()

        return call


def host_of(cls: type) -> type[ActorHost]:
    """The host of actors of a class, which is serialized now, with what it captures."""
    members = {"payload": pickled(cls), "__module__": __name__, "__qualname__": cls.__qualname__}
    return type(cls.__name__, (ActorHost,), members)
