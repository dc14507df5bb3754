"""The runner: from a command line to a running command, and from its end to an exit code."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import NoReturn, TypeVar

from scaler_protocol.command.completion import FLAG, Completable, completion_script
from scaler_protocol.command.descriptors import (
    allow_many_descriptors,
    descriptor_limit,
    require_descriptors,
)
from scaler_protocol.command.errors import BadInput
from scaler_protocol.command.inherited import open_standard_descriptors, restore_signals
from scaler_protocol.command.interpreter import restore_environment
from scaler_protocol.command.parent import current_parent
from scaler_protocol.command.reader import read_settings
from scaler_protocol.command.remedies import shortage_text

_T = TypeVar("_T")

_DESCRIPTORS_NEEDED = 26
"""A command that starts with fewer fails halfway: in an import, or with its first worker process."""

_LOW_LIMIT = 256
"""A soft limit below this is raised: it is not the usual one, which is there for programs that use ``select``."""


def run_command(
    settings_class: type[_T],
    body: Callable[[_T], int | None],
    *,
    program: str,
    section: str,
    description: str,
    version: str,
    distribution: str,
    arguments: Sequence[str] | None = None,
) -> NoReturn:
    """Read the settings, run ``body`` and exit with what it returns (None is 0). BadInput from either, and a lack of
    memory, threads or descriptors, is one line on stderr (or an exception in the script that started this command) and
    exit code 2. ``--version`` prints ``version``, which is that of ``distribution``, and
    the version of the protocol; ``--print-completion SHELL``, as the first argument, a script for a shell."""
    open_standard_descriptors()
    current_parent()
    restore_environment()
    restore_signals()
    given = sys.argv[1:] if arguments is None else arguments
    if list(given[:1]) == [FLAG]:
        print_completion(program, Completable(description, settings_class), given[1:])
    about = _about(version, distribution) if "--version" in given else version
    try:
        settings = read_settings(
            settings_class, given, program=program, section=section, description=description, version=about
        )
        _require_descriptors()
        code = body(settings)
    except BadInput as error:
        code = 2
        _complain(program, str(error))
    except (ImportError, MemoryError, OSError, RuntimeError, SystemError) as error:
        lack = shortage_text(error, "this process")
        if not lack:
            raise
        code = 2
        _complain(program, f"Cannot continue: {lack}")
    except KeyboardInterrupt:
        code = 130
    sys.exit(code)


def print_completion(program: str, completable: Completable, shells: Sequence[str]) -> NoReturn:
    """Print the script for the first of ``shells``, and exit."""
    try:
        print(completion_script(program, completable, next(iter(shells), "")))
    except BadInput as error:
        _complain(program, str(error))
        sys.exit(2)
    sys.exit(0)


def _require_descriptors() -> None:
    """A limit that is too low is raised first, if it may be."""
    try:
        if descriptor_limit() < _LOW_LIMIT:
            allow_many_descriptors()
        require_descriptors(_DESCRIPTORS_NEEDED, "start")
    except OSError as error:
        raise BadInput(str(error)) from None


def _about(version: str, distribution: str) -> str:
    from scaler_protocol.messages import PROTOCOL_MAJOR, PROTOCOL_MINOR  # takes longer than the rest of a start

    return f"{version} ({distribution}, protocol {PROTOCOL_MAJOR}.{PROTOCOL_MINOR})"


def _complain(program: str, text: str) -> None:
    parent = current_parent()
    line = " ".join(text.split())
    if parent is None or not parent.report_error(line):
        print(f"{program}: {line}", file=sys.stderr)
