"""One source for each option: what is derived from a settings dataclass agrees with it."""

from __future__ import annotations

import dataclasses
import inspect
import typing

import pytest

from scaler import SchedulerClusterCombo
from scaler_protocol.command import EVENT_LOOPS, read_settings
from scaler_protocol.command.settings import settings_of
from scaler_protocol.keygen import KeygenSettings
from scaler_scheduler import Scheduler
from scaler_scheduler.config import SchedulerSettings
from scaler_scheduler.core.settings import SchedulerOptions, Settings
from scaler_scheduler.top.cli import TopSettings
from scaler_scheduler.web.cli import UiSettings
from scaler_worker import Cluster
from scaler_worker.config import ClusterSettings
from scaler_worker.manager.config import ManagerSettings
from scaler_worker.symphony.config import SymphonySettings
from scripts import option_texts

ALL = (SchedulerSettings, ClusterSettings, ManagerSettings, SymphonySettings, TopSettings, UiSettings, KeygenSettings)


@pytest.mark.parametrize(("path", "text"), list(option_texts.written()), ids=lambda value: getattr(value, "name", ""))
def test_parameters_and_tables_are_up_to_date(path: typing.Any, text: str) -> None:
    advice = (
        "Run scripts/options, or python -m scripts.option_texts in an environment with all distributions, which writes"
    )
    assert path.read_text() == text, f"{advice} {path}"


@pytest.mark.parametrize("settings_class", ALL)
def test_each_option_is_described(settings_class: type) -> None:
    for each in settings_of(settings_class):
        text = each.description.help
        assert text[0].isupper() and text.endswith("."), f"{each.name}: {text}"
        assert "Default" not in text, f"{each.name}: the default is added"
        seconds_or_bytes = each.name.endswith(("_seconds", "_bytes", "_days"))
        assert not seconds_or_bytes or each.description.unit is not None, f"{each.name} has no unit"


@pytest.mark.parametrize("settings_class", ALL)
def test_options_of_a_command_differ(settings_class: type) -> None:
    flags = [flag for each in settings_of(settings_class) for flag in each.flags]
    assert len(set(flags)) == len(flags)


@pytest.mark.parametrize("command_class", [Scheduler, Cluster, SchedulerClusterCombo])
def test_each_parameter_is_named_typed_and_documented(command_class: type) -> None:
    documentation = inspect.getdoc(command_class) or ""
    for name, parameter in inspect.signature(command_class).parameters.items():
        assert parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        assert parameter.annotation is not parameter.empty
        assert f"\n    {name}" in documentation, name


def test_the_combo_has_every_option_of_both_commands() -> None:
    renamed = {"io_threads", "num_of_workers", "heartbeat_interval", "echo_streamed_output"}
    options = {each.name for each in (*settings_of(SchedulerSettings), *settings_of(ClusterSettings))} - renamed
    added = {"n_workers", "heartbeat_interval_seconds", "scheduler_io_threads", "worker_io_threads"}
    others = {"per_worker_task_queue_size", "object_storage_address", "scaler_policy", "security_config"}
    parameters = set(inspect.signature(SchedulerClusterCombo).parameters)
    found = parameters - others - {"worker_manager_id"}
    advice = "Run scripts/options; an option that the combo must not have is named here"
    assert found == options | added, f"{advice}: {sorted(found ^ (options | added))}"


def test_the_core_has_the_options_of_the_command() -> None:
    command = {field.name: field.default for field in dataclasses.fields(SchedulerSettings)}
    core = {field.name: field.default for field in dataclasses.fields(Settings)}
    names = [field.name for field in dataclasses.fields(SchedulerOptions)]
    assert {name: command[name] for name in names} == {name: core[name] for name in names}


def test_parameters_share_lines() -> None:
    """Otherwise each new option makes a constructor longer, until it is too long."""
    parameters = ["self", *(f"option_{number}: int = {number}" for number in range(100))]
    lines = list(option_texts.filled(parameters))
    assert [each.strip() for line in lines for each in line.split(",") if each] == parameters
    assert len(lines) < 25 and all(len(line) <= 120 and line.endswith(",") for line in lines)


def test_an_option_is_one_line() -> None:
    """A class derived from the options of the core has its new option everywhere."""
    from scaler_protocol.options import option

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class More(SchedulerSettings):
        pace: str = option("builtin", choices=EVENT_LOOPS, help="Set the pace.")

    address = "tcp://127.0.0.1:1"
    variables = {"SCALER_SCHEDULER_PACE": "uvloop"}
    read = read_settings(More, [address], program="x", section="scheduler", environment=variables)
    assert read.pace == "uvloop"
    assert "| `--pace` | `builtin`, `uvloop` | builtin | Set the pace. |" in option_texts.table(More)
    source = option_texts.ParameterSource(More)
    described = dataclasses.replace(option_texts.CLASSES[0], sources=(source,))
    assert 'pace: str = "builtin",' in option_texts.signature(described)
    assert "        pace: Set the pace. Default: builtin.\n" in option_texts.documentation(described)
