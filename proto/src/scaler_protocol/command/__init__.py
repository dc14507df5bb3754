"""One machinery for all commands: settings, logging, signals, and starting a command as a child process.

A command is a frozen dataclass of settings and a function that takes it::

    @dataclass(frozen=True, kw_only=True)
    class SchedulerSettings(LoggingSettings):
        address: str = argument(help="where to listen, such as tcp://127.0.0.1:2345")
        io_threads: int = option(1, "-it", help="threads that move bytes", minimum=1)

    def main(arguments: Sequence[str] | None = None) -> None:
        run_command(SchedulerSettings, _run, program="scaler_scheduler", section="scheduler",
                    description="The scheduler.", arguments=arguments)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scaler_protocol.command.child import ChildCommand
    from scaler_protocol.command.errors import BadInput
    from scaler_protocol.command.event_loop import EVENT_LOOPS, new_event_loop
    from scaler_protocol.command.interpreter import module_command, restore_environment
    from scaler_protocol.command.logs import LoggingSettings, setup_logging
    from scaler_protocol.command.parent import Parent, current_parent
    from scaler_protocol.command.reader import read_settings, settings_arguments
    from scaler_protocol.command.runner import run_command
    from scaler_protocol.command.settings import argument, option
    from scaler_protocol.command.signals import hold_stop_signals, install_stop_signals
    from scaler_protocol.command.supervised import SupervisedCommand

__all__ = [
    "EVENT_LOOPS",
    "BadInput",
    "ChildCommand",
    "LoggingSettings",
    "Parent",
    "SupervisedCommand",
    "argument",
    "current_parent",
    "hold_stop_signals",
    "install_stop_signals",
    "module_command",
    "new_event_loop",
    "option",
    "read_settings",
    "restore_environment",
    "run_command",
    "settings_arguments",
    "setup_logging",
]

_HOMES = {
    "EVENT_LOOPS": "event_loop",
    "BadInput": "errors",
    "ChildCommand": "child",
    "LoggingSettings": "logs",
    "Parent": "parent",
    "SupervisedCommand": "supervised",
    "argument": "settings",
    "current_parent": "parent",
    "hold_stop_signals": "signals",
    "install_stop_signals": "signals",
    "module_command": "interpreter",
    "new_event_loop": "event_loop",
    "option": "settings",
    "read_settings": "reader",
    "restore_environment": "interpreter",
    "run_command": "runner",
    "settings_arguments": "reader",
    "setup_logging": "logs",
}


def __getattr__(name: str) -> Any:
    """Loaded when asked for: each process needs a few, and all together take longer to load than to use."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{home}"), name)
