"""Classes that are decorated with ``@remote``, and the actors that they make."""

from __future__ import annotations

import functools
import inspect
import pickle
import types
from collections.abc import Callable
from typing import Any, NoReturn

from scaler.client.actors import ActorHandle
from scaler.client.signatures import check_call
from scaler.compat.ray.actor_hosts import ActorHost, host_of
from scaler.compat.ray.actor_options import ActorOptions, actor_options
from scaler.compat.ray.connecting import current_client
from scaler.compat.ray.object_refs import ObjectRef
from scaler.compat.ray.remote_tasks import item
from scaler.compat.ray.warning import warn_of_ignored

_NUM_RETURNS = "_ray_num_returns"


def actor_class(decorated: type, options: dict[str, Any]) -> ActorClass:
    """The class with ``remote``, which makes actors of it."""
    for name, member in inspect.getmembers_static(decorated, inspect.iscoroutinefunction):
        raise NotImplementedError(
            f"Cannot make the class {decorated.__name__} remote: its method {name}() is a coroutine function, and "
            f"actors run no event loop. Write `def {member.__name__}`, and pass max_concurrency=... for several calls."
        )
    return ActorClass(decorated, options)


def method(*, num_returns: int = 1) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a method of an actor that returns several values."""

    def mark(function: Callable[..., Any]) -> Callable[..., Any]:
        setattr(function, _NUM_RETURNS, num_returns)
        return function

    return mark


def kill(actor: RayActorHandle, *, no_restart: bool = True) -> None:
    """End the actor now. Its calls raise RayActorError."""
    if not isinstance(actor, RayActorHandle):
        raise ValueError(f"Cannot kill {actor!r}: it is not the handle of an actor. Use cancel() for tasks.")
    if not no_restart:
        raise NotImplementedError("Cannot kill an actor with no_restart=False: an actor that is killed has ended.")
    actor._ray_handle.kill()


def get_actor(name: str, namespace: str | None = None) -> RayActorHandle:
    """The actor with this name. Raises ValueError if there is none. Names belong to the whole cluster: a namespace has
    no effect and warns."""
    if namespace is not None:
        warn_of_ignored("get_actor()", {"namespace": "names belong to the whole cluster"})
    handle = current_client().get_actor(name)
    host: Any = handle._actor.cls
    if not issubclass(host, ActorHost):
        raise ValueError(f"Cannot use the actor named {name!r} here: it is not an actor of this interface.")
    return RayActorHandle(pickle.loads(host.payload), handle)


class ActorClass:
    """A class whose instances are actors. It is serialized when the first one is made."""

    def __init__(self, decorated: type, options: dict[str, Any]) -> None:
        functools.update_wrapper(self, decorated, updated=())
        self._class = decorated
        self._options = options
        self._settings: ActorOptions = actor_options(options)
        self._host: type | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        name = self._class.__name__
        raise TypeError(f"Cannot make an instance of the remote class {name} directly. Call {name}.remote().")

    def options(self, **options: Any) -> ActorClass:
        """The same class with other options."""
        return ActorClass(self._class, {**self._options, **options})

    def remote(self, *args: Any, **kwargs: Any) -> RayActorHandle:
        """Make an actor. Returns its handle."""
        check_call(self._class, args, kwargs)
        if not self._settings.may_exist:
            return self._make(args, kwargs)
        found = self._find()
        if found is not None:
            return found
        try:
            return self._make(args, kwargs)
        except ValueError:  # perhaps another caller has just made it
            found = self._find()
            if found is None:
                raise
            return found

    def _find(self) -> RayActorHandle | None:
        assert self._settings.name is not None
        try:
            return get_actor(self._settings.name)
        except ValueError:
            return None

    def _make(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> RayActorHandle:
        if self._host is None:
            self._host = host_of(self._class)
        handle = current_client().actor_verbose(
            self._host,
            _values(args),
            _named_values(kwargs),
            name=self._settings.name,
            max_restarts=self._settings.max_restarts,
            max_concurrency=self._settings.max_concurrency,
            capabilities=self._settings.capabilities,
        )
        return RayActorHandle(self._class, handle)

    def __reduce__(self) -> tuple[Any, ...]:
        return ActorClass, (self._class, self._options)


class RayActorHandle:
    """An actor. It ends when its last handle is gone and its calls have ended."""

    def __init__(self, cls: type, handle: ActorHandle[Any]) -> None:
        self._ray_class = cls
        self._ray_handle = handle

    def __getattr__(self, name: str) -> RayActorMethod:
        cls = self._ray_class
        if name.startswith("__") or not (hasattr(cls, name) or hasattr(cls, "__getattr__")):
            raise AttributeError(f"{cls.__qualname__!r} object has no method {name!r}", name=name, obj=self)
        defined = inspect.getattr_static(cls, name, None)
        return RayActorMethod(self._ray_handle, name, defined, getattr(defined, _NUM_RETURNS, 1))

    def __reduce__(self) -> tuple[Any, ...]:
        return RayActorHandle, (self._ray_class, self._ray_handle)

    def __repr__(self) -> str:
        return f"Actor({self._ray_class.__qualname__})"


class RayActorMethod:
    """A method of an actor."""

    def __init__(self, handle: ActorHandle[Any], name: str, defined: object, num_returns: int) -> None:
        self._handle = handle
        self._name = name
        self._defined = defined
        self._num_returns = num_returns

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError(f"Cannot call the method {self._name}() of an actor directly. Call {self._name}.remote().")

    def options(self, *, num_returns: int = 1, **others: Any) -> RayActorMethod:
        """The same method with other options."""
        for name in others:
            raise ValueError(f"Cannot use the option {name!r} of a method. The only option is num_returns.")
        return RayActorMethod(self._handle, self._name, self._defined, num_returns)

    def remote(self, *args: Any, **kwargs: Any) -> Any:
        """Submit a call. Returns an ObjectRef; a list of them for ``num_returns`` above 1, None for 0."""
        if type(self._defined) is types.FunctionType:
            check_call(self._defined, (None, *args), kwargs)
        future = getattr(self._handle, self._name)(*_values(args), **_named_values(kwargs))
        if self._num_returns == 1:
            return ObjectRef(future)
        client = current_client()
        return [ObjectRef(client.submit(item, future, place), future) for place in range(self._num_returns)] or None


def _values(args: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple([each.argument if type(each) is ObjectRef else each for each in args])


def _named_values(kwargs: dict[str, Any]) -> dict[str, Any]:
    return {name: each.argument if type(each) is ObjectRef else each for name, each in kwargs.items()}
