"""The file of a stack: one section for each command that runs, whose keys are the options of the command."""

from __future__ import annotations

import importlib.util
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scaler_protocol.command import BadInput
from scaler_protocol.command.reader import tables_of


@dataclass(frozen=True, slots=True)
class StackRole:
    """``module``: of the command; ``fact``: what it reports when it is ready, for people; ``kinds``: it needs the kind
    as its first argument; ``extra``: a package without which it is left out, since the others work without it."""

    section: str
    title: str
    module: str
    distribution: str
    fact: str = ""
    has_kind: bool = False
    extra: str = ""

    @property
    def is_complete(self) -> bool:
        return not self.extra or importlib.util.find_spec(self.extra) is not None


ROLES = (
    StackRole("scheduler", "scheduler", "scaler_scheduler.cli", "scaler-scheduler", "address"),
    StackRole("cluster", "workers", "scaler_worker.cli", "scaler-worker"),
    StackRole("manager", "worker manager", "scaler_worker.manager.cli", "scaler-worker", has_kind=True),
    StackRole("ui", "web monitor", "scaler_scheduler.web", "scaler-scheduler[ui]", "url", extra="aiohttp"),
)
"""The roles in the order in which they start. They stop in the opposite order."""


@dataclass(frozen=True, slots=True)
class StackPart:
    """A command of a stack. ``section``: its part of the file. ``name``: of one of several sections for this command;
    empty: there is one."""

    role: StackRole
    section: Mapping[str, Any]
    name: str = ""

    @property
    def title(self) -> str:
        return f"{self.role.title} {self.name}".rstrip()

    def arguments(self, path: Path, scheduler: str) -> list[str]:
        """The command line. ``scheduler``: the address of the stack's scheduler, which holds unless the section has
        another one; empty: it is not known."""
        kind = [str(self.section["kind"])] if self.role.has_kind and "kind" in self.section else []
        address = [scheduler] if scheduler and "address" not in self.section else []
        name = [f"--name={self.name}"] if self.name else []
        return [*kind, *address, *name, "--config", str(path)]


def read_stack(path: Path) -> list[StackPart]:
    """The parts, in the order of their start. Raises BadInput if there is none, or if one is not installed."""
    try:
        document = tomllib.loads(path.read_text())
    except FileNotFoundError:
        raise BadInput(f"Cannot read {path}: it does not exist. Write one with: scaler init {path}") from None
    except OSError as error:
        raise BadInput(f"Cannot read {path}: {error.strerror}. Give another file.") from None
    except ValueError as error:
        raise BadInput(f"Cannot read {path}: it is not a TOML file ({error}). Correct it there.") from None
    parts = [part for role in ROLES for part in _parts(role, tables_of(document, role.section, str(path)))]
    if not parts:
        sections = ", ".join(f"[{role.section}]" for role in ROLES)
        raise BadInput(f"Cannot start anything: {path} has none of the sections {sections}. Add one.")
    for part in parts:
        _check_installed(part.role)
        if part.role.has_kind and "kind" not in part.section:
            section = part.role.section
            raise BadInput(f'The section [{section}] of {path} has no kind. Add one, such as: kind = "local"')
    return parts


def _parts(role: StackRole, tables: Sequence[Mapping[str, Any]]) -> list[StackPart]:
    return [StackPart(role, table, str(table["name"]) if len(tables) > 1 else "") for table in tables]


def _check_installed(role: StackRole) -> None:
    package = role.module.partition(".")[0]
    if importlib.util.find_spec(package) is None:
        raise BadInput(
            f"Cannot start the {role.title}: {role.distribution} is not installed. "
            f"Run pip install '{role.distribution}', or remove the section [{role.section}]."
        )
