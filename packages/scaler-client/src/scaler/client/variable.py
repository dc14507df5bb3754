"""Variables of the whole cluster."""

from __future__ import annotations

from typing import Any

from scaler.client.named import NamingClient
from scaler.client.named_value import NamedValue, deadline_of, loaded, serialized
from scaler.core.named_calls import CallState
from scaler_protocol.messages import CoordinationKind, NamedAction


class Variable(NamedValue):
    """A variable of the whole cluster. Make it with :meth:`Client.variable`.

    Variables of one name are one variable wherever they are used: in this application, in others and in tasks. Its
    value is any small object that can be pickled. A task that waits for a value lends its worker to other tasks. A
    variable is forgotten when all applications that have used it have left; the tasks of an application count as that
    application."""

    noun = "variable"
    kind = CoordinationKind.VARIABLE

    def __init__(self, name: str, client: NamingClient | None = None) -> None:
        """If ``client`` is None, the variable uses the client of the task that uses it."""
        super().__init__(name, client)

    def get(self, timeout: float | None = None) -> Any:
        """Return the value; wait until there is one. Raises TimeoutError if that takes longer than ``timeout``
        seconds."""
        call = self._wait_for(NamedAction.READ, deadline_of(timeout))
        if call.state is not CallState.DONE:
            raise TimeoutError(f"The variable {self.name!r} had no value for {timeout} seconds.")
        return loaded(self, call)

    def set(self, value: Any) -> None:
        """Replace the value. Raises ValueError if it is too large."""
        self._call(NamedAction.SET, serialized(self, value))

    def delete(self) -> None:
        """Remove the value. ``get`` then waits until a value is set."""
        self._call(NamedAction.CLEAR)

    def __reduce__(self) -> tuple[Any, ...]:
        return Variable, (self.name, self._client)

    def __dask_tokenize__(self) -> tuple[str, str]:
        return "scaler.Variable", self.name

    def __repr__(self) -> str:
        return f"Variable({self.name!r})"
