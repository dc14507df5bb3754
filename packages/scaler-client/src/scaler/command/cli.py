"""``scaler``: reads the subcommand and runs it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from scaler import __version__
from scaler.command import (
    actions,
    completion,
    doctor,
    outputs,
    profiles,
    progress,
    stack,
    stack_template,
    stacks,
    status,
)
from scaler.command.settings import (
    CancelSettings,
    CompletionSettings,
    DownSettings,
    InitSettings,
    OutputSettings,
    ProfileSettings,
    ProgressSettings,
    ReportSettings,
    SetSettings,
    StackSettings,
    UpSettings,
    WorkerSettings,
    WorkersSettings,
)
from scaler.utility.exceptions import DisconnectedError, ScalerError
from scaler_protocol.command import run_command
from scaler_protocol.command.completion import FLAG, Completable
from scaler_protocol.command.runner import print_completion
from scaler_protocol.keys import KeysError
from scaler_protocol.monitor.format import printable


class Subcommand(NamedTuple):
    settings_class: type[Any]
    body: Callable[[Any], int]
    summary: str


SUBCOMMANDS: Mapping[str, Subcommand] = {
    "init": Subcommand(
        InitSettings, stack_template.init, "Write a file that describes a stack: scheduler, workers, monitor."
    ),
    "up": Subcommand(UpSettings, stack.up, "Start the stack that a file describes."),
    "down": Subcommand(DownSettings, stack.down, "Stop the stack that a file describes."),
    "status": Subcommand(ReportSettings, status.run, "Show what runs, what waits and why, and who uses the cluster."),
    "progress": Subcommand(ProgressSettings, progress.run, "Show the progress of tasks, and when they will end."),
    "doctor": Subcommand(
        ReportSettings, doctor.run, "Check the connection, keys, versions and hosts; say what to fix."
    ),
    "profile": Subcommand(ProfileSettings, profiles.run, "Show where running tasks spend their time."),
    "stack": Subcommand(StackSettings, stacks.run, "Show the Python stack of the task of a worker."),
    "output": Subcommand(OutputSettings, outputs.run, "Show what the tasks of a worker have printed."),
    "pause": Subcommand(WorkersSettings, actions.pause, "Stop giving tasks to some workers."),
    "resume": Subcommand(WorkersSettings, actions.resume, "Give tasks to paused workers again."),
    "drain": Subcommand(WorkersSettings, actions.drain, "Let workers finish their running tasks, then stop them."),
    "completion": Subcommand(CompletionSettings, completion.run, "Print a completion script for a shell."),
    "kill": Subcommand(WorkerSettings, actions.kill, "Kill the process of a worker; another takes its place."),
    "restart": Subcommand(WorkerSettings, actions.restart, "Replace the process of a worker when its task has ended."),
    "cancel": Subcommand(CancelSettings, actions.cancel, "Cancel a task, or those of a client, a function or a graph."),
    "set": Subcommand(SetSettings, actions.set_values, "Change weights, limits and priorities."),
}


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    given = list(sys.argv[1:] if arguments is None else arguments)
    name = given[0] if given else ""
    if name == FLAG:
        subcommands = {word: Completable(each.summary, each.settings_class) for word, each in SUBCOMMANDS.items()}
        print_completion("scaler", Completable("Start, watch and control a cluster.", None, subcommands), given[1:])
    if name not in SUBCOMMANDS:
        sys.exit(_explain(name))
    chosen = SUBCOMMANDS[name]
    run_command(
        chosen.settings_class,
        lambda settings: _run(name, chosen.body, settings),
        program=f"scaler {name}",
        section=name,
        description=chosen.summary,
        version=__version__,
        distribution="scaler-client",
        arguments=given[1:],
    )


def _run(name: str, body: Callable[[Any], int], settings: Any) -> int:
    """Run a subcommand. An error is one sentence on stderr, and exit code 1. The command ends quietly when the
    reader of its output, such as ``head``, has seen enough."""
    try:
        code = body(settings)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left is written when Python ends
        return 0
    except (ScalerError, KeysError, OSError) as error:
        advice = f" Check with: scaler doctor {settings.address}" if isinstance(error, DisconnectedError) else ""
        text = printable(" ".join(str(error).split()))  # it may contain the names of others
        print(f"scaler {name}: {text}{advice}", file=sys.stderr)
        return 1


def _explain(name: str) -> int:
    """Print the explanation. Return the exit code."""
    width = max(map(len, SUBCOMMANDS))
    lines = [f"  {each:{width}}  {SUBCOMMANDS[each].summary}" for each in SUBCOMMANDS]
    if name == "--version":
        print(f"scaler {__version__} (scaler-client)")
        return 0
    text = "\n".join(["usage: scaler SUBCOMMAND ...", "", *lines, "", "scaler SUBCOMMAND --help shows its options."])
    if name in ("-h", "--help", "help"):
        print(text)
        return 0
    problem = f"{name!r} is not a subcommand." if name else "A subcommand is missing."
    print(f"scaler: {problem} Give one of {', '.join(SUBCOMMANDS)}.", file=sys.stderr)
    return 2


if __name__ == "__main__":
    main()
