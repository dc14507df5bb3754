"""Settings: what one field of a settings dataclass says about its flag, and how its text becomes a value."""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from scaler_protocol.command.errors import BadInput

_METADATA_KEY = "scaler.setting"
_WORDS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


@dataclass(frozen=True)
class _Description:
    """What the writer of a settings class says about one field."""

    short: str | None
    help: str
    choices: tuple[str, ...]
    minimum: float | None
    maximum: float | None
    parse: Callable[[str], Any] | None
    positional: bool


def option(
    default: Any,
    short: str | None = None,
    *,
    help: str,
    choices: Sequence[str] = (),
    minimum: float | None = None,
    maximum: float | None = None,
    parse: Callable[[str], Any] | None = None,
) -> Any:
    """A field with a long flag made of its name, an optional short flag and a default. ``parse`` turns text into the
    value and raises ValueError with a sentence; without it the field's annotation decides."""
    description = _Description(short, help, tuple(choices), minimum, maximum, parse, positional=False)
    return dataclasses.field(default=default, metadata={_METADATA_KEY: description})


def argument(*, help: str, default: Any = dataclasses.MISSING, parse: Callable[[str], Any] | None = None) -> Any:
    """A field that stands on the command line without a flag, and must be given when it has no default."""
    description = _Description(None, help, (), None, None, parse, positional=True)
    return dataclasses.field(default=default, metadata={_METADATA_KEY: description})


@dataclass(frozen=True)
class Setting:
    """One field of a settings class, ready to be read from a command line, the environment or a file."""

    name: str
    kind: type  # bool, int, float or str; of the items when many
    many: bool
    default: Any  # dataclasses.MISSING when it must be given
    description: _Description

    @property
    def key(self) -> str:
        """The key in files, and the long flag without its dashes."""
        return self.name.replace("_", "-")

    @property
    def flag(self) -> str:
        return "--" + self.key

    @property
    def flags(self) -> tuple[str, ...]:
        return (self.flag, self.description.short) if self.description.short else (self.flag,)

    @property
    def is_switch(self) -> bool:
        return self.kind is bool and self.description.parse is None

    @property
    def shown_name(self) -> str:
        return self.name.upper() if self.description.positional else self.flag

    def variable(self, section: str) -> str:
        """The name of its environment variable."""
        return f"SCALER_{section}_{self.name}".upper()

    def from_text(self, text: str, source: str) -> Any:
        """The value that ``text`` means; BadInput names ``source``."""
        if self.many:
            return tuple(self._one(part.strip(), source) for part in text.split(",") if part.strip())
        return self._one(text, source)

    def from_texts(self, texts: Sequence[str], source: str) -> Any:
        return self.from_text(",".join(texts), source)

    def from_toml(self, value: Any, source: str) -> Any:
        """The value that a TOML value means: of the right type, or a string as on the command line."""
        if isinstance(value, list):
            if not self.many:
                raise BadInput(f"{source}: takes one value, not a list")
            return self.from_texts([str(item) for item in value], source)
        if isinstance(value, bool) is not self.is_switch and not isinstance(value, str):
            raise BadInput(f"{source}: {value!r} is not {_KINDS[self.kind]}")
        return self.from_text(str(value), source)

    def _one(self, text: str, source: str) -> Any:
        try:
            value = self.description.parse(text) if self.description.parse else _convert(text, self.kind)
        except ValueError as error:
            raise BadInput(f"{source}: {error}") from None
        self._check(value, source)
        return value

    def _check(self, value: Any, source: str) -> None:
        choices, minimum, maximum = self.description.choices, self.description.minimum, self.description.maximum
        if choices and value not in choices:
            raise BadInput(f"{source}: {value!r} is not one of {', '.join(choices)}")
        if minimum is not None and value < minimum:
            raise BadInput(f"{source}: {value} is less than {minimum}")
        if maximum is not None and value > maximum:
            raise BadInput(f"{source}: {value} is more than {maximum}")


_KINDS = {bool: "True or False", int: "a whole number", float: "a number", str: "a text"}


def _convert(text: str, kind: type) -> Any:
    try:
        value = _WORDS[text.lower()] if kind is bool else kind(text)
        if kind is float and not math.isfinite(value):
            raise ValueError
        return value
    except (KeyError, ValueError):
        raise ValueError(f"{text!r} is not {_KINDS[kind]}") from None


def settings_of(settings_class: type) -> list[Setting]:
    """Every described field: the class's own first, then those it shares with other commands."""
    hints = typing.get_type_hints(settings_class)
    own = settings_class.__dict__.get("__annotations__", {})
    found = []
    for each in sorted(dataclasses.fields(settings_class), key=lambda field: field.name not in own):
        description = each.metadata.get(_METADATA_KEY)
        if description is not None:
            kind, many = _kind(hints[each.name])
            found.append(Setting(each.name, kind, many, each.default, description))
    return found


def _kind(hint: Any) -> tuple[type, bool]:
    """The type of one item, and whether there are many: ``int | None`` is int, ``tuple[str, ...]`` is many str."""
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        hint = next(part for part in typing.get_args(hint) if part is not type(None))
    if typing.get_origin(hint) is tuple:
        item = typing.get_args(hint)[0]
        return (item if item in _KINDS else str), True
    return (hint if hint in _KINDS else str), False
