"""Completion of command lines in a shell: scripts that shtab writes from the settings of a command."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass

from scaler_protocol.command.errors import BadInput
from scaler_protocol.command.settings import CommandSetting, settings_of

FLAG = "--print-completion"
SHELLS = ("bash", "zsh", "fish", "tcsh")
_FILE_METAVARS = ("PATH", "DIR", "FILE", "FILE.toml")


@dataclass(frozen=True)
class Completable:
    """The words after the name of a command: the options of ``settings_class``, or one of ``subcommands``, each with
    options of its own. ``summary``: the line that shells show."""

    summary: str
    settings_class: type | None = None
    subcommands: Mapping[str, Completable] | None = None


def completion_script(program: str, completable: Completable, shell: str) -> str:
    """The script that makes ``shell`` complete the command lines of ``program``."""
    if shell not in SHELLS:
        raise BadInput(f"Cannot complete commands in {shell!r}. Give one of {', '.join(SHELLS)}.")
    try:
        import shtab
    except ImportError:
        raise BadInput(
            "Cannot write the script: shtab is not installed. Install it: python -m pip install shtab"
        ) from None
    parser = argparse.ArgumentParser(prog=program, description=completable.summary, allow_abbrev=False)
    _describe(parser, completable)
    return str(shtab.complete(parser, shell))


def _describe(parser: argparse.ArgumentParser, completable: Completable) -> None:
    parser.add_argument("--version", action="store_true", help="Print the version.")
    for each in settings_of(completable.settings_class) if completable.settings_class is not None else ():
        _describe_setting(parser, each)
    if completable.settings_class is not None:
        _complete_files(parser.add_argument("--config", metavar="FILE.toml", help="Read options from this TOML file."))
    if completable.subcommands is not None:
        group = parser.add_subparsers()
        for name, subcommand in completable.subcommands.items():
            summary = subcommand.summary
            _describe(group.add_parser(name, description=summary, help=summary), subcommand)


def _describe_setting(parser: argparse.ArgumentParser, setting: CommandSetting) -> None:
    described = setting.description.help.replace("%", "%%")
    if setting.is_switch:
        for flags in setting.flags, ("--no-" + setting.key,):
            parser.add_argument(*flags, help=described, action="store_true")
        return
    if setting.description.positional:
        action = parser.add_argument(setting.name, help=described, nargs="?")
    else:
        choices = setting.description.choices or None
        action = parser.add_argument(*setting.flags, help=described, choices=choices)
    if setting.metavar in _FILE_METAVARS:
        _complete_files(action)


def _complete_files(action: argparse.Action) -> None:
    import shtab

    action.complete = shtab.FILE  # type: ignore[attr-defined]
