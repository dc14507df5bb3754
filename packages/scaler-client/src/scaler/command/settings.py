"""The settings of the subcommands of ``scaler``."""

from __future__ import annotations

from dataclasses import dataclass

from scaler_protocol.address import parse_address
from scaler_protocol.command import argument, option
from scaler_protocol.units import SECONDS


def _address(text: str) -> str:
    return str(parse_address(text))


@dataclass(frozen=True, kw_only=True)
class AddressSettings:
    """The settings of every subcommand."""

    address: str = argument(
        help="Connect to the scheduler at this address, such as tcp://127.0.0.1:2345.", parse=_address
    )
    timeout: float = option(
        5.0, "-t", unit=SECONDS, minimum=0.1, help="Give up when the scheduler has not answered for this long."
    )


@dataclass(frozen=True, kw_only=True)
class ReportSettings(AddressSettings):
    """The settings of the subcommands that only read."""

    json: bool = option(False, "-j", help="Print JSON.")


@dataclass(frozen=True, kw_only=True)
class ProgressSettings(ReportSettings):
    """The settings of ``progress``."""

    once: bool = option(
        False, "-1", help="Print the progress once and exit, instead of every second until all tasks have ended."
    )


@dataclass(frozen=True, kw_only=True)
class TargetSettings:
    """An argument that follows the address: the arguments of base classes come last."""

    target: str = argument(help="The name of a host, an agent or a worker.")


@dataclass(frozen=True, kw_only=True)
class WorkerNameSettings:
    """TargetSettings with the names of workers."""

    worker: str = argument(help="The name of the worker, as monitors show it.")


@dataclass(frozen=True, kw_only=True)
class ProfileSettings(AddressSettings):
    """The settings of ``profile``."""

    seconds: float = option(10.0, "-s", unit=SECONDS, minimum=0.01, help="Sample the running tasks for this long.")
    interval: float = option(0.02, "-i", unit=SECONDS, minimum=0.001, help="Sample them at this interval.")
    by: str = option(
        "function", choices=("function", "worker", "client"), help="Group the time by function, worker or client first."
    )
    output: str | None = option(
        None,
        "-o",
        metavar="FILE",
        default_text="text on stdout",
        help="Save a flame graph (.html), a speedscope profile (.json) or text (.txt) to this file.",
    )


@dataclass(frozen=True, kw_only=True)
class StackSettings(AddressSettings, WorkerNameSettings):
    """The settings of ``stack``."""


@dataclass(frozen=True, kw_only=True)
class OutputSettings(AddressSettings, WorkerNameSettings):
    """Settings of ``output``."""

    follow: bool = option(False, "-f", help="Keep printing new output until Ctrl-C.")


@dataclass(frozen=True, kw_only=True)
class WorkersSettings(AddressSettings, TargetSettings):
    """The settings of ``pause``, ``resume`` and ``drain``."""

    yes: bool = option(False, "-y", help="Do not ask for confirmation.")


@dataclass(frozen=True, kw_only=True)
class WorkerSettings(AddressSettings, WorkerNameSettings):
    """The settings of ``kill`` and ``restart``."""

    yes: bool = option(False, "-y", help="Do not ask for confirmation.")


@dataclass(frozen=True, kw_only=True)
class SetSettings(AddressSettings):
    """The settings of ``set``."""

    client: str | None = option(
        None, metavar="ID", default_text="none", help="Change the client whose ID begins with this."
    )
    group: str | None = option(None, metavar="NAME", default_text="none", help="Change this group of clients.")
    function: str | None = option(
        None, metavar="NAME", default_text="none", help="Change the waiting tasks of all functions with this name."
    )
    weight: float | None = option(
        None, metavar="NUMBER", default_text="none", help="Give the client or the group this weight."
    )
    limit: int | None = option(
        None,
        minimum=0,
        metavar="WORKERS",
        default_text="none",
        help="Let the group use at most this many workers. 0 = any number.",
    )
    priority: int | None = option(
        None, metavar="NUMBER", default_text="none", help="Give the waiting tasks this priority."
    )
    yes: bool = option(False, "-y", help="Do not ask for confirmation.")


@dataclass(frozen=True, kw_only=True)
class CancelSettings(AddressSettings):
    """The settings of ``cancel``."""

    client: str | None = option(
        None, metavar="ID", default_text="none", help="Cancel the tasks of the client whose ID begins with this."
    )
    function: str | None = option(
        None, metavar="NAME", default_text="none", help="Cancel the tasks of all functions with this name."
    )
    task: int | None = option(
        None, minimum=1, metavar="NUMBER", default_text="none", help="Cancel only this task of the client."
    )
    graph: int | None = option(
        None, minimum=1, metavar="NUMBER", default_text="none", help="Cancel only this graph of the client."
    )
    yes: bool = option(False, "-y", help="Do not ask for confirmation.")


@dataclass(frozen=True, kw_only=True)
class CompletionSettings:
    """The settings of ``completion``."""

    shell: str = argument(help="The shell: bash, zsh, fish or tcsh.")


@dataclass(frozen=True, kw_only=True)
class FileSettings:
    """The settings of the subcommands about a stack."""

    file: str = argument(default="cluster.toml", help="The file that describes the stack. Default: cluster.toml.")


@dataclass(frozen=True, kw_only=True)
class InitSettings(FileSettings):
    """The settings of ``init``."""


@dataclass(frozen=True, kw_only=True)
class UpSettings(FileSettings):
    """The settings of ``up``."""

    detach: bool = option(
        False, "-d", help="Return when everything is running, and leave it running in the background."
    )


@dataclass(frozen=True, kw_only=True)
class DownSettings(FileSettings):
    """The settings of ``down``."""
