"""``@remote``."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Generic, NoReturn, TypeVar

from scaler.client.client import Client
from scaler.client.signatures import check_call
from scaler.compat.ray.actor_classes import actor_class
from scaler.compat.ray.connecting import current_client
from scaler.compat.ray.object_refs import ObjectRef
from scaler.compat.ray.remote_options import RemoteOptions, remote_options
from scaler.compat.ray.remote_tasks import item, task_function

T = TypeVar("T")


def remote(*decorated: Any, **options: Any) -> Any:
    """Make a function remote: ``@remote``, or ``@remote(num_returns=2)`` with options."""
    if len(decorated) == 1 and not options and callable(decorated[0]):
        return _remote(decorated[0], {})
    if decorated or not options:
        raise TypeError("Cannot use @remote like this: write @remote, or @remote(option=value) with keywords only.")
    return lambda function: _remote(function, options)


def _remote(decorated: Any, options: dict[str, Any]) -> Any:
    if inspect.isclass(decorated):
        return actor_class(decorated, options)
    if not callable(decorated):
        raise TypeError(f"Cannot make {decorated!r} remote: it is neither a function nor a class.")
    return RemoteFunction(decorated, options)


class RemoteFunction(Generic[T]):
    """A function that runs on a worker. It is serialized at its first call, with what it captures then."""

    def __init__(self, function: Callable[..., T], options: dict[str, Any]) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._options = options
        self._settings: RemoteOptions = remote_options(options)
        self._task: Callable[..., Any] | None = None
        self._checked: set[tuple[Any, ...]] = set()

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        name = self._function.__name__
        raise TypeError(f"Cannot call the remote function {name}() directly. Call {name}.remote().")

    def options(self, **options: Any) -> RemoteFunction[T]:
        """The same function with other options."""
        return RemoteFunction(self._function, {**self._options, **options})

    def remote(self, *args: Any, **kwargs: Any) -> Any:
        """Submit a task. Returns an ObjectRef; a list of them for ``num_returns`` above 1, None for 0."""
        client = current_client()
        key = (len(args), *kwargs)
        if key not in self._checked:
            self._check_generator()
            check_call(self._function, args, kwargs)
            self._checked.add(key)
        if self._task is None:
            self._task = task_function(self._function, self._settings)
        values = [each.argument if type(each) is ObjectRef else each for each in args]
        return self._refs(client, self._submit(client, self._task, values, kwargs))

    def _check_generator(self) -> None:
        if inspect.isgeneratorfunction(self._function) and self._settings.num_returns == 1:
            raise NotImplementedError(
                f"Cannot run the generator function {self._function.__name__}() as a task: a task returns when it "
                "ends. Return a list, or pass num_returns=... if the number of values is known."
            )

    def _submit(self, client: Client, task: Callable[..., Any], values: list[Any], kwargs: dict[str, Any]) -> Any:
        if not kwargs and not self._settings.submit_options:
            return client.submit(task, *values)
        named = {name: each.argument if type(each) is ObjectRef else each for name, each in kwargs.items()}
        return client.submit_verbose(task, values, named, **self._settings.submit_options)

    def _refs(self, client: Client, future: Any) -> Any:
        count = self._settings.num_returns
        if count == 1:
            return ObjectRef(future)
        return [ObjectRef(client.submit(item, future, place), future) for place in range(count)] or None

    def __reduce__(self) -> tuple[Any, ...]:
        return RemoteFunction, (self._function, {}), {"_options": self._options, "_settings": self._settings}
