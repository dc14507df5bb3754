"""Settings of commands: any command line, environment and TOML file give settings, or BadInput with one sentence."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from functools import cache
from typing import Any

from fuzz.scratch import scratch
from scaler_protocol.command import reader
from scaler_protocol.command.errors import BadInput
from scaler_protocol.command.reader import read_settings, settings_arguments
from scaler_protocol.command.settings import settings_of
from scaler_scheduler.config import SchedulerSettings
from scaler_worker.config import ClusterSettings

COMMANDS = (("scheduler", SchedulerSettings), ("cluster", ClusterSettings))
LONGEST_INPUT_BYTES = 1024


PARSERS: dict[str, Any] = {}
SETTINGS = cache(settings_of)


@contextlib.contextmanager
def made_once() -> Iterator[None]:
    """Make once for all inputs what each command makes at its start: it costs ten times as much as to read one."""
    make, find = reader._parser, reader.settings_of

    def parser(settings: Any, program: str, section: str, description: str) -> Any:
        if section not in PARSERS:
            PARSERS[section] = make(settings, program, section, description)
        return PARSERS[section]

    reader._parser, reader.settings_of = parser, SETTINGS
    try:
        yield
    finally:
        reader._parser, reader.settings_of = make, find


def one_input(data: bytes) -> None:
    with made_once():
        read_lines(data)


def read_lines(data: bytes) -> None:
    """Lines: the command, the words of its command line (TAB between them), the environment, then the file."""
    first, _, rest = data.partition(b"\n")
    words, _, rest = rest.partition(b"\n")
    variables, _, document = rest.partition(b"\n")
    section, settings_class = COMMANDS[first == b"1"]
    arguments = [text(word) for word in words.split(b"\t") if word]
    if document:
        path = scratch() / "settings.toml"
        path.write_bytes(document)
        arguments.append(f"--config={path}")
    environment = dict(text(pair).split("=", 1) for pair in variables.split(b"\t") if b"=" in pair)
    found = read(settings_class, arguments, section, environment)
    if found is not None:
        check_said_again(settings_class, found, section)


def text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape").replace("\0", "")


def read(settings_class: type, arguments: list[str], section: str, environment: dict[str, str]) -> object:
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            return read_settings(settings_class, arguments, program=section, section=section, environment=environment)
    except BadInput as error:
        assert str(error)
    except SystemExit as end:
        assert end.code == 0, "only -h ends a command"
    return None


def check_said_again(settings_class: type, found: object, section: str) -> None:
    """The same settings on a command line of their own."""
    values = {each.name: getattr(found, each.name) for each in SETTINGS(settings_class)}
    if any(bad in str(value) for value in values.values() for bad in (",", "\t", "-", " ")):
        return  # a value that is a list or a flag itself
    assert read(settings_class, settings_arguments(settings_class, values), section, {}) == found


def seeds() -> Iterator[bytes]:
    yield b"0\ntcp://127.0.0.1:2345\t-p\tFalse\t--io-threads=2\n\n"
    yield b"1\ntcp://127.0.0.1:2345\t-n\t4\t-wn\ta,b\t--preload\tm:f\nSCALER_CLUSTER_EVENT_LOOP=uvloop\n"
    yield b"0\n\nSCALER_SCHEDULER_PROTECTED=no\n[scheduler]\naddress = 'tcp://[::1]:5'\nio_threads = 7\n[top]\n"
    yield b"1\ntcp://a:1\t-ds\t5min\t-tm\t4GiB\nSCALER_CLUSTER_GRACE_SECONDS=1h\n[cluster]\nio-threads = '2'\n"
    yield b"1\n-h\n\n"
    yield b"0\n--lod-balance-seconds=3\n\n"
