"""The flags of the command, their defaults, and the class that runs it."""

from __future__ import annotations

import dataclasses
import inspect

import pytest

from scaler_protocol.command import BadInput, read_settings
from scaler_scheduler import Scheduler
from scaler_scheduler.config import SchedulerSettings, shown_settings
from scaler_scheduler.core.snapshot import snapshot_of
from tests.unit.scheduler.playbook import Playbook

ADDRESS = "tcp://127.0.0.1:2345"
DEFAULTS = {
    "protected": True,
    "io_threads": 1,
    "event_loop": "builtin",
    "max_number_of_tasks_waiting": -1,
    "monitor_address": None,
    "audit_log": None,
    "event_log": None,
    "event_log_limit_bytes": 0,
    "prometheus_address": None,
    "prometheus_token_file": None,
    "client_timeout_seconds": 60,
    "worker_timeout_seconds": 60,
    "object_retention_seconds": 3600,
    "load_balance_seconds": 1,
    "load_balance_trigger_times": 2,
    "per_worker_queue_size": 1000,
    "aging_seconds": 0,
    "monitor_output": True,
    "group_weights": "",
    "group_limits": "",
    "client_memory": 0,
    "grace_seconds": 10,
    "insecure": False,
    "logging_paths": ("/dev/stdout",),
    "logging_level": "INFO",
    "logging_config_file": None,
    "log_format": "text",
}


def read(*arguments: str) -> SchedulerSettings:
    return read_settings(SchedulerSettings, arguments, program="scaler_scheduler", section="scheduler", environment={})


def test_defaults():
    settings = read(ADDRESS)
    assert settings.address == ADDRESS
    assert {name: getattr(settings, name) for name in DEFAULTS} == DEFAULTS


@pytest.mark.parametrize(
    ("flags", "name", "value"),
    [
        (("-p", "False"), "protected", False),
        (("--no-protected",), "protected", False),
        (("-it", "3"), "io_threads", 3),
        (("-e", "uvloop"), "event_loop", "uvloop"),
        (("-mt", "7"), "max_number_of_tasks_waiting", 7),
        (("-ma", "ipc:///tmp/m"), "monitor_address", "ipc:///tmp/m"),
        (("--audit-log", "/tmp/audit"), "audit_log", "/tmp/audit"),
        (("--event-log", "/tmp/log"), "event_log", "/tmp/log"),
        (("--event-log-limit-bytes", "1000000"), "event_log_limit_bytes", 1_000_000),
        (("-ct", "1.5"), "client_timeout_seconds", 1.5),
        (("-wt", "5"), "worker_timeout_seconds", 5),
        (("-ot", "9"), "object_retention_seconds", 9),
        (("-ls", "0.5"), "load_balance_seconds", 0.5),
        (("-lbt", "4"), "load_balance_trigger_times", 4),
        (("-qs", "10"), "per_worker_queue_size", 10),
        (("--aging-seconds", "1m"), "aging_seconds", 60),
        (("--group-weights", "a=2"), "group_weights", "a=2"),
        (("--group-limits", "a=2"), "group_limits", "a=2"),
        (("-ll", "debug"), "logging_level", "DEBUG"),
        (("--grace-seconds", "2"), "grace_seconds", 2),
        (("--insecure",), "insecure", True),
    ],
)
def test_flags(flags: tuple[str, ...], name: str, value: object):
    assert getattr(read(ADDRESS, *flags), name) == value


def test_bad_values_are_refused():
    for flags in (("-qs", "0"), ("-mt", "-2"), ("-e", "none"), ("-lbt", "0")):
        with pytest.raises(BadInput):
            read(ADDRESS, *flags)


def test_the_class_takes_what_the_command_takes():
    parameters = inspect.signature(Scheduler).parameters
    settings = read(ADDRESS)
    for name, parameter in parameters.items():
        assert name == "address" or parameter.default == getattr(settings, name), name


def test_monitors_show_every_option() -> None:
    settings = SchedulerSettings(address=ADDRESS, event_log="/logs", client_memory=2**30, event_loop="uvloop")
    shown = shown_settings(settings)
    assert {name for name, _ in shown} == {field.name for field in dataclasses.fields(SchedulerSettings)}
    values = dict(shown)
    assert (values["address"], values["event_log"], values["audit_log"]) == (ADDRESS, "/logs", "")
    assert (values["event_loop"], values["grace_seconds"]) == ("uvloop", "10.0")
    book = Playbook(shown=shown)
    assert tuple((each.name, each.value) for each in snapshot_of(book.core.state, book.now).settings) == shown
