"""Options: the metadata of a field of a settings dataclass, for every place that reads or shows it.

A field is one line. From it come the command-line option, the environment variable, the key in a TOML file, the
parameter of a Python class, the row in the documentation and, for a field of a core's options, the core's setting and
its row among the settings that monitors show. ``scripts/options`` writes the parameters and the rows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from scaler_protocol.units import Unit

METADATA_KEY = "scaler.setting"


@dataclass(frozen=True, kw_only=True)
class Description:
    """The description of one field by the author of a settings class."""

    help: str
    short: str | None = None
    unit: Unit | None = None
    metavar: str | None = None
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    parse: Callable[[str], Any] | None = None
    default_text: str | None = None
    see: str | None = None
    positional: bool = False


def option(
    default: Any,
    short: str | None = None,
    *,
    help: str,
    unit: Unit | None = None,
    metavar: str | None = None,
    choices: Sequence[str] = (),
    minimum: float | None = None,
    maximum: float | None = None,
    parse: Callable[[str], Any] | None = None,
    default_text: str | None = None,
    see: str | None = None,
) -> Any:
    """A field with a long flag made of its name, an optional short flag and a default.

    ``help`` is one imperative sentence or more, without the default. A ``unit`` lets the value be given as ``4GiB`` or
    ``30s``. ``metavar`` stands for the value in the help. ``parse`` turns text into the value and raises ValueError
    with a sentence; without it the unit or the field's annotation decides. ``default_text`` describes a default that
    is computed. ``see`` is the page of the documentation that explains more.
    """
    description = Description(
        help=help, short=short, unit=unit, metavar=metavar, choices=tuple(choices), minimum=minimum, maximum=maximum,
        parse=parse, default_text=default_text, see=see,
    )  # fmt: skip
    return dataclasses.field(default=default, metadata={METADATA_KEY: description})


def values_of(options_class: type, settings: Any) -> dict[str, Any]:
    """The values that ``settings`` has for the options of ``options_class``, from which it is derived."""
    return {field.name: getattr(settings, field.name) for field in dataclasses.fields(options_class)}


def argument(*, help: str, default: Any = dataclasses.MISSING, parse: Callable[[str], Any] | None = None) -> Any:
    """A field that stands on the command line without a flag, and must be given when it has no default."""
    description = Description(help=help, parse=parse, positional=True)
    return dataclasses.field(default=default, metadata={METADATA_KEY: description})
