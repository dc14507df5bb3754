"""Logs of commands: where they go and the form of their lines."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TextIO

from scaler_protocol.command.errors import BadInput
from scaler_protocol.command.log_stream import LogStream
from scaler_protocol.command.settings import option

LINE_FORMAT = "[%(levelname)s]%(asctime)s: %(message)s"
TIME_FORMAT = "%Y-%m-%d %H:%M:%S%z"
LEVELS = ("CRITICAL", "ERROR", "WARNING", "INFO", "DEBUG")
FORMATS = ("text", "json")


@dataclass(frozen=True, kw_only=True)
class LoggingSettings:
    """The settings that every command with a log has: derive a command's settings from it."""

    logging_paths: tuple[str, ...] = option(
        ("/dev/stdout",), "-lp", metavar="PATH", help="Write log lines to these files."
    )
    logging_level: str = option(
        "INFO", "-ll", choices=LEVELS, parse=str.upper, help="Log messages of this level and above."
    )
    logging_config_file: str | None = option(
        None, "-lc", metavar="FILE", help="Configure logging with this file of Python's logging.config format instead."
    )
    log_format: str = option("text", choices=FORMATS, help="Write log lines as plain text or as one JSON object each.")


class PlainRecord(logging.LogRecord):
    """A record that is safe to show on a terminal and whose message is one line, whatever is in it.

    Names and texts of other processes get into messages. Characters that are not printable are shown as escapes, so
    they can neither control a terminal nor look like another line of the log. A traceback keeps its lines.
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        if self.exc_info and self.exc_info[0] is not None:
            self.exc_text = plain_lines(logging.Formatter().formatException(self.exc_info))

    def getMessage(self) -> str:
        return plain_text(super().getMessage())


def plain_text(text: str) -> str:
    """``text`` with an escape in place of each character that is not printable."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else _escape(each) for each in text)


def plain_lines(text: str) -> str:
    """The same for each line of a traceback. No line begins as a line of the log does."""
    lines = [plain_text(line.replace("\t", "    ")) for line in text.split("\n")]
    return "\n".join(f" {line}" if line.startswith("[") else line for line in lines)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def _json_escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


class JsonFormatter(logging.Formatter):
    """One JSON object per line: ``time`` (UTC, ISO 8601), ``level``, ``message``, ``logger``, ``pid``, and
    ``exception``, a traceback, when there is one."""

    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "message": logging.LogRecord.getMessage(record),  # JSON has escapes of its own
            "logger": record.name,
            "pid": os.getpid(),
        }
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        line = json.dumps(entry, ensure_ascii=False)
        if line.isprintable():
            return line
        return "".join(each if each.isprintable() else _json_escape(each) for each in line)


def setup_logging(settings: LoggingSettings) -> None:
    """Set up the root logger and log where it logs to. Raises BadInput when a path cannot be written."""
    logging.setLogRecordFactory(PlainRecord)
    logging.raiseExceptions = False  # a closed terminal must not fill stderr with tracebacks
    if settings.logging_config_file is not None:
        _load_configuration(settings.logging_config_file)
        logging.info(f"logging as configured in {settings.logging_config_file}")
        return
    handlers = _handlers(settings.logging_paths, settings.log_format)
    logging.basicConfig(level=settings.logging_level, handlers=handlers, force=True)
    logging.info(f"logging to {tuple(settings.logging_paths)}")


def _handlers(paths: Sequence[str], log_format: str) -> list[logging.Handler]:
    formatter = JsonFormatter() if log_format == "json" else logging.Formatter(LINE_FORMAT, TIME_FORMAT)
    handlers = [_handler(path) for path in paths]
    for handler in handlers:
        handler.setFormatter(formatter)
    return handlers


def _handler(path: str) -> logging.Handler:
    if path == "/dev/stdout":
        return _stream_handler(sys.stdout)
    if path == "/dev/stderr":
        return _stream_handler(sys.stderr)
    try:
        return logging.FileHandler(path)
    except OSError as error:
        raise BadInput(f"Cannot write the log {path}: {error.strerror}. Give --logging-paths another path.") from None


def _stream_handler(stream: TextIO | None) -> logging.Handler:
    """``stream``: None if its descriptor was closed when this process started."""
    if stream is None:
        return logging.NullHandler()
    try:
        return logging.StreamHandler(LogStream(stream))
    except OSError:  # it has no descriptor
        return logging.StreamHandler(stream)


def _load_configuration(path: str) -> None:
    import logging.config

    try:
        with open(path, encoding="utf-8") as file:
            logging.config.fileConfig(file, disable_existing_loggers=False)
    except OSError as error:
        raise BadInput(
            f"Cannot read the logging configuration {path}: {error.strerror}. Give --logging-config-file another path."
        ) from None
    except Exception as error:  # fileConfig raises any kind of exception for a wrong file
        raise BadInput(
            f"Cannot use the logging configuration {path}: {error}. Use the format of logging.config.fileConfig."
        ) from None
