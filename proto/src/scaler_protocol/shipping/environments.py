"""The environment in which the tasks of a client run: packages, variables and a directory, as a value and as text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from scaler_protocol.limits import ENVIRONMENT_LIMIT_BYTES

_OWN_PREFIX = "SCALER_"


@dataclass(frozen=True, slots=True, init=False)
class Environment:
    """The packages, variables and directory that the worker processes of a client's tasks have in addition to those of
    their host.

    ``requirements``: packages to install, as for pip: ``["numpy==2.1", "polars>=1"]``. Each host installs them once,
    from the index that is configured there. ``variables``: environment variables. ``working_directory``: an absolute
    path that exists on the workers.

    Tasks of equal environments share worker processes; others never run in them."""

    requirements: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict, hash=False)
    working_directory: str = ""

    def __init__(
        self,
        requirements: Iterable[str] = (),
        variables: Mapping[str, str] | None = None,
        working_directory: str | None = None,
    ) -> None:
        if isinstance(requirements, str):
            raise TypeError(f"requirements must be a list of requirements, not {requirements!r}.")
        for each in (found := list(requirements)):
            _check_requirement(each)
        for name, value in (given := dict(variables or {})).items():
            _check_variable(name, value)
        _check_directory(working_directory or "")
        object.__setattr__(self, "requirements", tuple(sorted({each.strip() for each in found})))
        object.__setattr__(self, "variables", dict(sorted(given.items())))
        object.__setattr__(self, "working_directory", working_directory or "")

    def to_text(self) -> str:
        """Equal environments have equal texts. Empty if nothing is asked for. Raises ValueError if it is too long."""
        parts = {
            "requirements": list(self.requirements),
            "variables": dict(self.variables),
            "working_directory": self.working_directory,
        }
        asked = {name: value for name, value in parts.items() if value}
        text = json.dumps(asked, separators=(",", ":"), ensure_ascii=False) if asked else ""
        if len(text.encode()) > ENVIRONMENT_LIMIT_BYTES:
            raise ValueError(
                f"Cannot send the environment: as text it has more than {ENVIRONMENT_LIMIT_BYTES} bytes. "
                "Put large values into files or arguments."
            )
        return text

    @classmethod
    def from_text(cls, text: str) -> Environment:
        """Raises ValueError for a text that ``to_text`` does not give."""
        try:
            parts: Any = json.loads(text) if text else {}
            environment = cls(**parts)
        except (TypeError, AttributeError, RecursionError, json.JSONDecodeError) as error:
            raise ValueError(f"Cannot read the environment of a client: {error}.") from None
        if environment.to_text() != text:
            raise ValueError("Cannot read the environment of a client: its text is not in the usual form.")
        return environment


def _check_requirement(requirement: object) -> None:
    if not isinstance(requirement, str):
        raise TypeError(f"A requirement must be a text such as 'numpy>=2', not {requirement!r}.")
    if not requirement.strip() or not requirement.isprintable():
        raise ValueError(f"Cannot install {requirement!r}: it is not a requirement such as 'numpy>=2'.")
    if requirement.lstrip().startswith("-"):
        raise ValueError(
            f"Cannot install {requirement!r}: it is an option. Configure the index on the hosts of the workers."
        )


def _check_variable(name: object, value: object) -> None:
    if not isinstance(name, str) or not isinstance(value, str):
        raise TypeError(f"The variable {name!r} must be a text, and so must its value {value!r}.")
    if not name or "=" in name or "\0" in name + value:
        raise ValueError(f"Cannot set the variable {name!r}: neither '=' nor a null character is allowed.")
    if name.startswith(_OWN_PREFIX):
        raise ValueError(f"Cannot set the variable {name}: {_OWN_PREFIX}* belongs to Scaler. Use another name.")


def _check_directory(path: object) -> None:
    if not isinstance(path, str):
        raise TypeError(f"working_directory must be a path as text, not {path!r}.")
    if path and (not path.startswith("/") or "\0" in path):
        raise ValueError(f"Cannot use the working directory {path!r}: it is not an absolute path on the workers.")


_current = ""


def current_environment() -> str:
    """The environment of this worker process, as text; empty outside of tasks and in processes without one."""
    return _current


def set_current_environment(text: str) -> None:
    global _current
    _current = text
