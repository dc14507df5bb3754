"""Advice for tasks that fail because a module is missing on their worker, or cannot be imported there."""

from __future__ import annotations

from importlib.util import find_spec


def advise(error: BaseException, worker_name: str) -> None:
    """Add a note with the remedy to a ModuleNotFoundError, and one with the name of the module to an error that a
    module has raised when it was imported. Other exceptions are not changed."""
    where = f"on worker {worker_name}" if worker_name else "on the worker"
    if not isinstance(error, ModuleNotFoundError) or not error.name or type(error.name) is not str:
        module = _failed_module(error)
        if module:
            error.add_note(f"This error was raised when {module} was imported {where}.")
        return
    name = error.name
    top = name.partition(".")[0]
    if top != name and _is_installed(top):
        remedy = f"Install the same version of {top} on both."
        error.add_note(f"Cannot import {name} {where}: {top} is there, but has no such module. {remedy}")
    else:
        remedy = f"Pass modules=[{top}] to Client, name its package in Client(environment=...), or install it there."
        error.add_note(f"Cannot import {top} {where}. {remedy}")


def _failed_module(error: BaseException) -> str:
    """Return the name of the module whose import has raised the error, or an empty text."""
    found, frame = "", error.__traceback__
    while frame is not None:
        code, names = frame.tb_frame.f_code, frame.tb_frame.f_globals
        name = names.get("__name__")
        if code.co_name == "<module>" and code.co_filename == names.get("__file__") and type(name) is str:
            found = name
        frame = frame.tb_next
    return found


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except Exception:
        return False
