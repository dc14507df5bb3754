"""The reader: settings from a command line, environment variables, a file and defaults, in this precedence."""

from __future__ import annotations

import argparse
import os
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn, TypeVar

from scaler_protocol.command.errors import BadInput
from scaler_protocol.command.settings import CommandSetting, settings_of

SECTIONS = ("scheduler", "cluster", "manager", "symphony", "top", "ui", "gui", "keygen")
"""The sections one file may hold: it can serve all commands."""

REPEATABLE = ("manager",)
"""The sections of which a file may have several. Their names tell them apart."""

_T = TypeVar("_T")
_SWITCH_WORDS = ("true", "false", "yes", "no", "on", "off", "1", "0")


def read_settings(
    settings_class: type[_T],
    arguments: Sequence[str],
    *,
    program: str,
    section: str,
    description: str = "",
    version: str = "",
    environment: Mapping[str, str] = os.environ,
) -> _T:
    """The settings, or BadInput that says what is wrong. ``-h`` and ``--version`` print and raise SystemExit(0)."""
    settings = settings_of(settings_class)
    parser = _parser(settings, program, section, description)
    if version:
        parser.add_argument("--version", action="version", version=f"{program} {version}", help="Print the version.")
    given = _given(parser, settings, arguments)
    values = _from_file(settings, section, given.pop("config", None), given)
    values.update(_from_environment(settings, section, environment))
    values.update(
        {each.name: each.from_texts(given[each.name], each.shown_name) for each in settings if each.name in given}
    )
    _require(settings, values)
    return settings_class(**values)


def settings_arguments(settings_class: type, values: Mapping[str, Any]) -> list[str]:
    """The command line that gives these values, by field name. None, () and {} are left out, so their defaults hold.
    Raises BadInput for a value that the command would refuse."""
    positional, flagged = [], []
    for each in settings_of(settings_class):
        value = values.get(each.name)
        text = "" if value is None else each.to_text(value)
        if value is None or (each.many and not text):
            continue
        each.from_text(text, each.shown_name)
        if each.description.positional:
            positional.append(text)
        else:
            flagged.append(f"{each.flag}={text}")
    unknown = set(values) - {each.name for each in settings_of(settings_class)}
    if unknown:
        raise TypeError(f"{settings_class.__name__} has no setting {', '.join(sorted(unknown))}")
    return positional + flagged


# ---- the command line ------------------------------------------------------------------------------------------


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise BadInput(f"Cannot read the command line: {message}. {_ADVICE}")


_ADVICE = "Run with -h for usage."


def _parser(settings: Iterable[CommandSetting], program: str, section: str, description: str) -> _Parser:
    epilog = (
        "Durations and sizes accept a unit, such as 500ms, 30s, 2h, 500MB or 4GiB; plain numbers have the unit shown. "
        f"Every option can also be set in the section [{section}] of a TOML file (--config) or in the environment as "
        f"SCALER_{section.upper()}_OPTION. The command line overrides the environment, which overrides the file."
    )
    words = [_shown_argument(each) for each in settings if each.description.positional]
    usage = " ".join([program, "[options]", *words])
    parser = _Parser(
        prog=program, usage=usage, description=description, epilog=epilog, allow_abbrev=False, add_help=False
    )
    parser.add_argument("-h", "--help", action="help", help="Print this help.")
    parser.add_argument(
        "--config", metavar="FILE.toml", default=argparse.SUPPRESS, help="Read options from this TOML file."
    )
    for each in settings:
        _add(parser, each)
    return parser


def _shown_argument(setting: CommandSetting) -> str:
    """argparse takes every argument for optional, because it may come from the environment or from a file."""
    return setting.shown_name if setting.is_required else f"[{setting.shown_name}]"


def _add(parser: _Parser, setting: CommandSetting) -> None:
    """All values arrive as lists of texts; ``CommandSetting`` gives them their meaning, wherever they come from."""
    common: dict[str, Any] = {"default": argparse.SUPPRESS, "dest": setting.name, "help": _help(setting)}
    if setting.description.positional:
        del common["dest"]
        parser.add_argument(setting.name, nargs="?", metavar=setting.name.upper(), **common)
    elif setting.is_switch:
        parser.add_argument(*setting.flags, nargs="?", metavar="True|False", **common)
        common["help"] = argparse.SUPPRESS
        parser.add_argument("--no-" + setting.key, action="store_const", const="False", **common)
    else:
        parser.add_argument(*setting.flags, nargs="+" if setting.many else None, metavar=setting.metavar, **common)


def _help(setting: CommandSetting) -> str:
    text = setting.description.help
    if setting.is_switch:
        text += f" --no-{setting.key} turns it off."
    if setting.shown_default and not setting.description.positional:
        text += f" Default: {setting.shown_default}."
    return text.replace("%", "%%")


def _given(parser: _Parser, settings: Sequence[CommandSetting], arguments: Sequence[str]) -> dict[str, Any]:
    """The values on the command line: lists of texts by field name, and the path of ``config``."""
    namespace, extra = parser.parse_known_args(_with_words_together(settings, _with_switch_values(settings, arguments)))
    if extra:
        raise BadInput(_unknown_argument(next((word for word in extra if word.startswith("-")), extra[0]), settings))
    _refuse_dashes(settings, namespace)
    given = {
        name: value if isinstance(value, list) or name == "config" else [value]
        for name, value in vars(namespace).items()
    }
    _move_trailing_words(settings, given)
    return given


def _refuse_dashes(settings: Iterable[CommandSetting], namespace: argparse.Namespace) -> None:
    """Releases of argparse remove ``--`` even where it is a value, as in ``--config=--``, so that there is none."""
    names = {each.name: each.shown_name for each in settings}
    for name, value in vars(namespace).items():
        if value is None or value == []:
            raise BadInput(f"Cannot use {names.get(name, f'--{name}')}: '--' is not a value. {_ADVICE}")


def _with_switch_values(settings: Iterable[CommandSetting], arguments: Sequence[str]) -> list[str]:
    """``--protected`` and ``-p False`` become ``--protected=True`` and ``--protected=False``: otherwise a switch
    would swallow an address that follows it."""
    switches = {flag: each.flag for each in settings if each.is_switch for flag in each.flags}
    result: list[str] = []
    waiting = iter([*arguments, None])
    word = next(waiting)
    while word is not None:
        following = next(waiting)
        if word not in switches:
            result.append(word)
        elif following is not None and following.lower() in _SWITCH_WORDS:
            result.append(f"{switches[word]}={following}")
            following = next(waiting)
        else:
            result.append(f"{switches[word]}=True")
        word = following
    return result


def _with_words_together(settings: Iterable[CommandSetting], arguments: Sequence[str]) -> list[str]:
    """``ADDRESS --yes NAME`` becomes ``ADDRESS NAME --yes``: argparse takes positional arguments together, and would
    refuse the second one."""
    valued = {flag: each.many for each in settings if not each.is_switch for flag in each.flags} | {"--config": False}
    words: list[str] = []
    options: list[str] = []
    waiting = deque(arguments)
    while waiting:
        word = waiting.popleft()
        if word == "--":
            return [*options, "--", *words, *waiting]
        (options if word.startswith("-") else words).append(word)
        if word in valued and waiting and waiting[0] != "--":
            options.append(waiting.popleft())
            while valued[word] and waiting and not waiting[0].startswith("-"):
                options.append(waiting.popleft())
    return [*words, *options]


def _move_trailing_words(settings: Sequence[CommandSetting], given: dict[str, Any]) -> None:
    """Give back a trailing address: in ``--logging-paths a b tcp://host:port``, argparse takes it for a third path."""
    missing = [each for each in settings if each.description.positional and each.name not in given]
    for each in reversed(missing):
        for many in settings:
            if many.many and len(given.get(many.name, ())) > 1:
                given[each.name] = [given[many.name].pop()]
                break


def _unknown_argument(word: str, settings: Iterable[CommandSetting]) -> str:
    if not word.startswith("-"):
        return f"Unexpected argument {word!r}. {_ADVICE}"
    flags = [flag for each in settings for flag in each.flags] + ["--config", "--help", "--version"]
    return f"Unknown option {word.split('=')[0]}. {_nearest(word.split('=')[0], flags)}"


def _nearest(word: str, known: Iterable[str]) -> str:
    """Advice about an unknown word."""
    import difflib  # only after a mistake

    by_letters = {each.strip("-"): each for each in known}
    found = difflib.get_close_matches(word.strip("-"), list(by_letters), n=1)
    return f"Did you mean {by_letters[found[0]]}?" if found else _ADVICE


def _require(settings: Iterable[CommandSetting], values: Mapping[str, Any]) -> None:
    for each in settings:
        if each.is_required and each.name not in values:
            raise BadInput(f"Missing argument {each.shown_name}. {_ADVICE}")


# ---- environment and file --------------------------------------------------------------------------------------


def _from_environment(
    settings: Iterable[CommandSetting], section: str, environment: Mapping[str, str]
) -> dict[str, Any]:
    values = {}
    for each in settings:
        variable = each.variable(section)
        if variable in environment:
            values[each.name] = each.from_text(environment[variable], variable)
    return values


def _from_file(
    settings: Iterable[CommandSetting], section: str, path: str | None, given: Mapping[str, Any]
) -> dict[str, Any]:
    """``given``: on the command line, where a name chooses one of several sections."""
    if path is None:
        return {}
    document = _load(path)
    for name in document:
        if name not in SECTIONS:
            raise BadInput(f"Unknown section [{name}] in {path}. {_nearest(name, SECTIONS)}")
        tables_of(document, name, path)
    tables = tables_of(document, section, path)
    table = _chosen(tables, section, path, given) if len(tables) > 1 else next(iter(tables), {})
    return _from_table(settings, table, f"{path} [{section}]")


def tables_of(document: Mapping[str, Any], name: str, path: str) -> list[Mapping[str, Any]]:
    """The sections [name] of a file, of which there are several only if each has a name of its own. Raises BadInput."""
    value = document.get(name, [])
    tables = value if isinstance(value, list) else [value]
    if not all(isinstance(each, dict) for each in tables):
        raise BadInput(f"Cannot use {name} in {path}: it is not a section. Write [{name}] above its keys.")
    if len(tables) > 1 and name not in REPEATABLE:
        raise BadInput(
            f"Cannot use [[{name}]] in {path}: a file has one section [{name}]. Write the second one into another "
            "file, and give that to its own command with --config FILE."
        )
    names = [each.get("name") for each in tables]
    if len(tables) > 1 and (None in names or len({*map(str, names)}) < len(names)):
        raise BadInput(f'Cannot use [[{name}]] in {path}: give each of them a name of its own, such as: name = "a"')
    return tables


def _chosen(
    tables: Sequence[Mapping[str, Any]], section: str, path: str, given: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return the table with the name and the kind that are given."""
    wanted = {key: given[key][0] for key in ("name", "kind") if key in given}
    found = [each for each in tables if all(each.get(key) == value for key, value in wanted.items())]
    if len(found) != 1:
        names = ", ".join(str(each["name"]) for each in tables)
        raise BadInput(f"Cannot tell which of the sections [[{section}]] of {path} to use. Give --name one of {names}.")
    return found[0]


def _load(path: str) -> dict[str, Any]:
    import tomllib

    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except OSError as error:
        raise BadInput(
            f"Cannot read {path}: {error.strerror}. Give --config a file that exists and is readable."
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"Cannot read {path}: it is not a TOML file ({error}). Correct it there.") from None


def _from_table(settings: Iterable[CommandSetting], table: Mapping[str, Any], source: str) -> dict[str, Any]:
    by_key = {each.key: each for each in settings}
    values = {}
    for key, value in table.items():
        setting = by_key.get(key.replace("_", "-"))
        if setting is None:
            raise BadInput(f"Unknown key {key} in {source}. {_nearest(key, by_key)}")
        values[setting.name] = setting.from_toml(value, f"{key} in {source}")
    return values
