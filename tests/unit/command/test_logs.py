"""Log lines: their form is read by people's scripts."""

import contextlib
import json
import logging
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from scaler_protocol.command import BadInput, LoggingSettings, setup_logging

LINE = re.compile(r"\[INFO\]\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[+-]\d{4}: (.*)")
COMMAND = Path(__file__).with_name("command_under_test.py")


def serve_briefly(*arguments: str) -> str:
    process = subprocess.Popen(
        [sys.executable, "-u", str(COMMAND), "serve", *arguments], stdout=subprocess.PIPE, text=True, env=os.environ
    )
    with process:
        assert process.stdout is not None
        lines = []
        while process.poll() is None and (line := process.stdout.readline()):
            lines.append(line)
            if "serving" in line:
                process.terminate()
        return "".join(lines)


def texts(log: str) -> list[str]:
    matches = [LINE.fullmatch(line) for line in log.splitlines()]
    assert all(matches), log
    return [match[1] for match in matches if match]


@pytest.mark.parametrize("loop", ["builtin", "uvloop"])
def test_lines_on_start(loop: str) -> None:
    if loop == "uvloop":
        pytest.importorskip("uvloop")
    assert texts(serve_briefly("-e", loop)) == ["logging to ('/dev/stdout',)", f"use event loop: {loop}", "serving"]


def test_paths(tmp_path: Path) -> None:
    path = tmp_path / "log"
    lines = texts(serve_briefly("-lp", "/dev/stdout", str(path)))
    assert lines[0] == f"logging to ('/dev/stdout', {str(path)!r})"
    assert texts(path.read_text()) == lines


def test_level() -> None:
    assert subprocess.run(
        [sys.executable, str(COMMAND), "serve", "-ll", "loud"], capture_output=True, text=True, timeout=20
    ).stderr.startswith("under_test: Cannot use --logging-level: 'LOUD' is not one of")


def test_json_lines() -> None:
    entries = [json.loads(line) for line in serve_briefly("--log-format", "json").splitlines()]
    assert [entry["message"] for entry in entries][1:] == ["use event loop: builtin", "serving"]
    assert {entry["level"] for entry in entries} == {"INFO"}
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", entry["time"]) for entry in entries)


def test_json_keeps_a_traceback_on_one_line(tmp_path: Path) -> None:
    log = tmp_path / "log"
    root = logging.getLogger()
    before = root.handlers[:], root.level
    try:
        setup_logging(LoggingSettings(logging_paths=(str(log),), log_format="json"))
        try:
            raise ValueError("line one\nline two")
        except ValueError:
            logging.exception("it failed")
        last = json.loads(log.read_text().splitlines()[-1])
    finally:
        for handler in root.handlers:
            handler.close()
        root.handlers, root.level = before
    assert (last["level"], last["message"], last["pid"]) == ("ERROR", "it failed", os.getpid())
    assert "ValueError: line one" in last["exception"]


HOSTILE = "host\x1b[2J\r\n[INFO]2023-03-19 12:16:10-0400: forged\x9b31m\u2028\u202e\x00\x7f\U000e0001"


@contextlib.contextmanager
def logging_to(path: Path, **settings: str) -> Iterator[None]:
    root, factory = logging.getLogger(), logging.getLogRecordFactory()
    before = root.handlers[:], root.level
    try:
        setup_logging(LoggingSettings(logging_paths=(str(path),), **settings))  # type: ignore[arg-type]
        yield
    finally:
        for handler in root.handlers:
            handler.close()
        root.handlers, root.level = before
        logging.setLogRecordFactory(factory)


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_a_name_can_neither_control_a_terminal_nor_forge_a_line(tmp_path: Path, log_format: str) -> None:
    log = tmp_path / "log"
    with logging_to(log, log_format=log_format):
        logging.warning(f"Agent {HOSTILE} joined")
    *_, last = lines = log.read_text().split("\n")[:-1]
    assert len(lines) == 2 and "joined" in last
    assert all(line.isprintable() for line in lines)
    if log_format == "json":
        assert json.loads(last)["message"] == f"Agent {HOSTILE} joined"


def test_a_traceback_keeps_its_lines_and_forges_none(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with logging_to(log):
        try:
            raise ValueError(HOSTILE)
        except ValueError:
            logging.exception("it failed")
    lines = log.read_text().split("\n")[:-1]
    assert all(line.isprintable() for line in lines)
    assert "Traceback (most recent call last):" in lines
    assert len([line for line in lines if line.startswith("[")]) == 2  # "logging to ..." and "it failed"


def test_configuration_file(tmp_path: Path) -> None:
    path, log = tmp_path / "logging.ini", tmp_path / "log"
    path.write_text(
        "[loggers]\nkeys=root\n[handlers]\nkeys=file\n[formatters]\nkeys=bare\n"
        "[logger_root]\nlevel=INFO\nhandlers=file\n"
        f"[handler_file]\nclass=FileHandler\nargs=({str(log)!r},)\nformatter=bare\n"
        "[formatter_bare]\nformat=bare %(message)s\n"
    )
    process = subprocess.Popen([sys.executable, str(COMMAND), "serve", "-lc", str(path)])
    try:
        while process.poll() is None and not (log.exists() and "serving" in log.read_text()):
            pass
    finally:
        process.terminate()
        process.wait(10)
    assert "bare use event loop: builtin" in log.read_text().splitlines()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (LoggingSettings(logging_paths=("/nowhere/log",)), "Cannot write the log /nowhere/log"),
        (LoggingSettings(logging_config_file="/nowhere.ini"), "Cannot read the logging configuration /nowhere.ini"),
        (LoggingSettings(logging_config_file="/proc/version"), "Cannot use the logging configuration /proc/version"),
    ],
)
def test_bad_input(settings: LoggingSettings, words: str) -> None:
    with pytest.raises(BadInput, match=re.escape(words)):
        setup_logging(settings)
