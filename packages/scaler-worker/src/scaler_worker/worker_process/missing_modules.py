"""Advice for tasks that fail because a module cannot be imported on their worker."""

from __future__ import annotations

from importlib.util import find_spec


def advise(error: BaseException, worker_name: str) -> None:
    """Add a note with the remedy to a ModuleNotFoundError. Other exceptions are not changed."""
    if not isinstance(error, ModuleNotFoundError) or not error.name or type(error.name) is not str:
        return
    name, where = error.name, f"on worker {worker_name}" if worker_name else "on the worker"
    top = name.partition(".")[0]
    if top != name and _is_installed(top):
        remedy = f"Install the same version of {top} on both."
        error.add_note(f"Cannot import {name} {where}: {top} is there, but has no such module. {remedy}")
    else:
        remedy = f"Pass modules=[{top}] to Client, name its package in Client(environment=...), or install it there."
        error.add_note(f"Cannot import {top} {where}. {remedy}")


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except Exception:
        return False
