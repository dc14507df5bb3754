"""Settings: the fields of a settings dataclass, and how the text for one of them becomes a value."""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scaler_protocol.command.errors import BadInput, unusable_text
from scaler_protocol.options import METADATA_KEY, Description, argument, option

__all__ = ["CommandSetting", "argument", "option", "settings_of"]

_WORDS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
_KINDS = {bool: "True or False", int: "a whole number", float: "a number", str: "a text"}
_METAVARS = {int: "NUMBER", float: "NUMBER", str: "TEXT"}


@dataclass(frozen=True)
class CommandSetting:
    """One field of a settings class, ready to be read from a command line, the environment or a file."""

    name: str
    kind: type  # bool, int, float or str; of the items when many
    many: bool
    default: Any  # dataclasses.MISSING when it must be given
    description: Description

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
    def is_required(self) -> bool:
        return self.default is dataclasses.MISSING

    @property
    def shown_name(self) -> str:
        return self.name.upper() if self.description.positional else self.flag

    @property
    def shown_default(self) -> str:
        """The default as people read it; empty if there is no default, or if it is obvious."""
        if self.description.default_text is not None:
            return self.description.default_text
        if self.is_required or self.default is None or self.default in ((), ""):
            return ""
        if self.description.unit is not None:
            return self.description.unit.show(self.default)
        return ",".join(map(str, self.default)) if self.many else str(self.default)

    @property
    def metavar(self) -> str:
        """The placeholder for the value in the help, such as BYTES."""
        description = self.description
        if description.unit is not None:
            return description.unit.name
        return description.metavar or "|".join(description.choices) or _METAVARS.get(self.kind, "VALUE")

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
                raise _unusable(source, "it takes one value, not a list. Give one value")
            return self.from_texts([str(item) for item in value], source)
        if isinstance(value, bool) is not self.is_switch and not isinstance(value, str):
            raise _unusable(source, f"{value!r} is not {_KINDS[self.kind]}. Give {_KINDS[self.kind]}")
        return self.from_text(str(value), source)

    def to_text(self, value: Any) -> str:
        """The text that means ``value``: a mapping is written as ``name=amount,...``."""
        if isinstance(value, Mapping):
            value = [f"{name}={amount}" for name, amount in sorted(value.items())]
        return ",".join(map(str, value)) if self.many and not isinstance(value, str) else str(value)

    def _one(self, text: str, source: str) -> Any:
        try:
            value = self._parsed(text)
        except ValueError as error:
            raise _unusable(source, str(error)) from None
        self._check(value, source)
        return value

    def _parsed(self, text: str) -> Any:
        if self.description.parse is not None:
            return self.description.parse(text)
        if self.description.unit is not None:
            return self.description.unit.parse(text)
        return _convert(text, self.kind)

    def _check(self, value: Any, source: str) -> None:
        choices, minimum, maximum = self.description.choices, self.description.minimum, self.description.maximum
        if choices and value not in choices:
            raise _unusable(source, f"{value!r} is not one of {', '.join(choices)}. Give one of these")
        if minimum is not None and value < minimum:
            raise _unusable(source, f"{value} is less than {minimum:g}. Give {minimum:g} or more")
        if maximum is not None and value > maximum:
            raise _unusable(source, f"{value} is more than {maximum:g}. Give {maximum:g} or less")


def _unusable(source: str, reason: str) -> BadInput:
    return BadInput(f"{unusable_text(source, reason).rstrip('.')}.")


def _convert(text: str, kind: type) -> Any:
    try:
        value = _WORDS[text.lower()] if kind is bool else kind(text)
        if kind is float and not math.isfinite(value):
            raise ValueError
        return value
    except (KeyError, ValueError):
        raise ValueError(f"{text!r} is not {_KINDS[kind]}. Give {_KINDS[kind]}") from None


def settings_of(settings_class: type) -> list[CommandSetting]:
    """Every described field: those of the class itself first, then those of its bases."""
    hints = typing.get_type_hints(settings_class)
    found = []
    for each in sorted(dataclasses.fields(settings_class), key=lambda field: _distance(settings_class, field.name)):
        description = each.metadata.get(METADATA_KEY)
        if description is not None:
            kind, many = _kind(hints[each.name])
            found.append(CommandSetting(each.name, kind, many, each.default, description))
    return found


def _distance(settings_class: type, name: str) -> int:
    """Return how far up in the order of the bases the field is declared."""
    bases = settings_class.__mro__
    return next(place for place, base in enumerate(bases) if name in base.__dict__.get("__annotations__", {}))


def _kind(hint: Any) -> tuple[type, bool]:
    """The type of one item, and whether there are many: ``int | None`` is int, ``tuple[str, ...]`` is many str."""
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        hint = next(part for part in typing.get_args(hint) if part is not type(None))
    if typing.get_origin(hint) is tuple:
        item = typing.get_args(hint)[0]
        return (item if item in _KINDS else str), True
    return (hint if hint in _KINDS else str), False
