"""Write what is derived from the settings dataclasses: parameters of Python classes and tables of the documentation.

scripts/options            # after an option was added or changed
scripts/options --check    # exit code 1 and the names of files that are not up to date
"""

from __future__ import annotations

import dataclasses
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scaler.cluster.combo import SCHEDULER_PARAMETERS
from scaler.command.cli import SUBCOMMANDS
from scaler_gui.config import GuiSettings
from scaler_protocol.command.settings import CommandSetting, settings_of
from scaler_protocol.keygen import KeygenSettings
from scaler_scheduler.config import SchedulerSettings
from scaler_scheduler.top.cli import TopSettings
from scaler_scheduler.web.cli import UiSettings
from scaler_worker.cluster import CLUSTER_PARAMETERS
from scaler_worker.config import ClusterSettings
from scaler_worker.manager.config import ManagerSettings
from scaler_worker.manager.kinds import KINDS
from scaler_worker.symphony.config import SymphonySettings

ROOT = Path(__file__).resolve().parent.parent
WRAPPER = textwrap.TextWrapper(120, initial_indent=" " * 8, subsequent_indent=" " * 12, break_on_hyphens=False)


# ---- parameters of classes -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ParameterSource:
    """Settings whose fields become parameters. ``names``: the options of parameters that are named otherwise."""

    settings_class: type
    names: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def parameters(self) -> Iterator[tuple[str, CommandSetting]]:
        by_option = {option: parameter for parameter, option in self.names.items()}
        for setting in settings_of(self.settings_class):
            yield by_option.get(setting.name, setting.name), setting


@dataclass(frozen=True)
class PythonClass:
    """A class that takes settings as parameters. ``positional``: those that programs may give by position, whose order
    must stay. ``defaults``: where they differ from the command's; ``default_texts``: said instead of None. ``others``:
    parameters that are no options, with their type, and with what they mean."""

    path: str
    name: str
    sources: tuple[ParameterSource, ...]
    positional: tuple[str, ...]
    required: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    default_texts: Mapping[str, str] = dataclasses.field(default_factory=dict)
    others: Mapping[str, tuple[str, str]] = dataclasses.field(default_factory=dict)

    def parameters(self) -> dict[str, CommandSetting]:
        found: dict[str, CommandSetting] = {}
        for source in self.sources:
            for name, setting in source.parameters():
                if name not in self.left_out:
                    found.setdefault(name, setting)
        return {name: found[name] for name in (*self.positional, *found)}

    def default(self, name: str, setting: CommandSetting) -> Any:
        value = self.defaults.get(name, setting.default)
        return None if value == () else value


TYPES = {"per_worker_capabilities": "Mapping[str, float] | Sequence[str]"}
"""Parameters that accept more than text for their option."""

FREE_PORT = {"address": "a free port of the loopback interface"}

OTHER_NAMES = {
    "per_worker_task_queue_size": ("int | None", "Another name of per_worker_queue_size."),
    "object_storage_address": (
        "str | None",
        "Without effect, as are the following ones: programs written for opengris-scaler pass them.",
    ),
    "scaler_policy": ("object", "Without effect."),
    "security_config": ("object", "Without effect: keys are found through SCALER_KEYS."),
    "worker_manager_id": ("object", "Without effect."),
}

CLASSES = (
    PythonClass(
        "packages/scaler-scheduler/src/scaler_scheduler/scheduler.py",
        "Scheduler",
        (ParameterSource(SchedulerSettings),),
        positional=("address",),
        defaults={"address": None},
        default_texts=FREE_PORT,
    ),
    PythonClass(
        "packages/scaler-worker/src/scaler_worker/cluster.py",
        "Cluster",
        (ParameterSource(ClusterSettings, CLUSTER_PARAMETERS),),
        positional=(
            "address", "n_workers", "worker_names", "heartbeat_interval_seconds", "task_timeout_seconds",
            "death_timeout_seconds", "grace_seconds", "garbage_collect_interval_seconds",
            "trim_memory_threshold_bytes", "hard_processor_suspend", "event_loop", "worker_io_threads", "preload",
            "object_store_memory", "spill_directory", "echo_streamed_output", "per_worker_capabilities",
            "logging_paths", "logging_level", "logging_config_file", "log_format",
        ),
        required=("address", "n_workers"),
    ),
    PythonClass(
        "packages/scaler-client/src/scaler/cluster/combo.py",
        "SchedulerClusterCombo",
        (
            ParameterSource(SchedulerSettings, SCHEDULER_PARAMETERS),
            ParameterSource(ClusterSettings, CLUSTER_PARAMETERS),
        ),
        positional=(
            "n_workers", "address", "monitor_address", "worker_io_threads", "scheduler_io_threads",
            "max_number_of_tasks_waiting", "heartbeat_interval_seconds", "client_timeout_seconds",
            "worker_timeout_seconds", "object_retention_seconds", "task_timeout_seconds", "death_timeout_seconds",
            "load_balance_seconds", "load_balance_trigger_times", "garbage_collect_interval_seconds",
            "trim_memory_threshold_bytes", "per_worker_queue_size", "hard_processor_suspend", "protected",
            "event_loop", "logging_paths", "logging_level", "logging_config_file", "per_worker_capabilities",
            "preload",
        ),
        required=("n_workers",),
        left_out=("echo_streamed_output",),
        defaults={"address": None, "logging_paths": ("/dev/stderr",), "logging_level": "WARNING"},
        default_texts=FREE_PORT,
        others=OTHER_NAMES,
    ),
)  # fmt: skip


def with_parameters(text: str, python_class: PythonClass) -> str:
    """The module with the signature and the docstring of the class written again."""
    docstring = rf'(\nclass {python_class.name}:\n    """.*?\n    Args:\n)(.*?)(    """\n\n)'
    pattern = docstring + r"    def __init__\(\n.*?\n    \) -> None:  # fmt: skip\n"
    found = re.search(pattern, text, re.DOTALL)
    if found is None:
        raise SystemExit(f"scripts/options: {python_class.path} has no class {python_class.name} with Args")
    start, _, end = found.groups()
    parts = (text[: found.start()], start, documentation(python_class), end, signature(python_class))
    return "".join(parts) + text[found.end() :]


def signature(python_class: PythonClass) -> str:
    """With as many parameters in a line as it takes: with one in each, every option would make the function longer."""
    found = ["self"]
    for name, setting in python_class.parameters().items():
        if name not in python_class.positional and "*" not in found:
            found.append("*")
        found.append(parameter(python_class, name, setting))
    found += [f"{name}: {kind} = None" for name, (kind, _) in python_class.others.items()]
    return "    def __init__(\n" + "".join(f"{line}\n" for line in filled(found)) + "    ) -> None:  # fmt: skip\n"


def filled(parameters: list[str]) -> Iterator[str]:
    """Lines of at most 120 characters, each with whole parameters."""
    line = ""
    for each in parameters:
        if line and len(line) + len(each) + 2 > 120:
            yield line
            line = ""
        line += f" {each}," if line else f"        {each},"
    yield line


def parameter(python_class: PythonClass, name: str, setting: CommandSetting) -> str:
    if name in python_class.required:
        return f"{name}: {type_text(name, setting)}"
    default = python_class.default(name, setting)
    optional = " | None" if default is None else ""
    shown = repr(default).replace("'", '"').replace('",)', '",)')
    return f"{name}: {type_text(name, setting)}{optional} = {shown}"


def type_text(name: str, setting: CommandSetting) -> str:
    if name in TYPES:
        return TYPES[name]
    if setting.many:
        return "Sequence[str]"
    return f"{setting.kind.__name__} | str" if setting.description.unit is not None else setting.kind.__name__


def documentation(python_class: PythonClass) -> str:
    lines: list[str] = []
    for name, setting in python_class.parameters().items():
        unit = setting.description.unit
        label = f"{name} ({unit.name.lower()})" if unit is not None else name
        words = f"{label}: {setting.description.help}"
        default = python_class.default_texts.get(name) or shown_default(python_class, name, setting)
        if default and name not in python_class.required:
            words += f" Default: {default}."
        lines += WRAPPER.wrap(words)
    for name, (_, meaning) in python_class.others.items():
        lines += WRAPPER.wrap(f"{name}: {meaning}")
    return "".join(f"{line}\n" for line in lines)


def shown_default(python_class: PythonClass, name: str, setting: CommandSetting) -> str:
    if name in python_class.defaults:
        setting = dataclasses.replace(setting, default=python_class.defaults[name])
    return setting.shown_default


# ---- tables of the documentation -------------------------------------------------------------------------------------


KINDS_WITH_OPTIONS = {
    f"scaler_worker_manager {name}": kind.load_settings_class()
    for name, kind in KINDS.items()
    if kind.load_settings_class() is not ManagerSettings
}

TABLES = {
    "docs/running.md": {
        "scaler_scheduler": SchedulerSettings,
        "scaler_cluster": ClusterSettings,
        "scaler_keygen": KeygenSettings,
    },
    "docs/managers.md": {"scaler_worker_manager": ManagerSettings, **KINDS_WITH_OPTIONS},
    "docs/symphony.md": {"scaler_symphony_cluster": SymphonySettings},
    "docs/monitor.md": {"scaler_top": TopSettings},
    "docs/ui.md": {"scaler_ui": UiSettings},
    "docs/gui.md": {"scaler_gui": GuiSettings},
    "docs/command.md": {
        f"scaler {name}": SUBCOMMANDS[name].settings_class
        for name in ("status", "progress", "profile", "output", "drain", "cancel", "set", "up")
    },
}


def with_tables(text: str, commands: Mapping[str, type]) -> str:
    """The page with each table between its two comments written again."""
    for command, settings_class in commands.items():
        begin = f"<!-- Options of {command}: written by scripts/options -->\n"
        before, found, rest = text.partition(begin)
        if not found:
            raise SystemExit(f"scripts/options: a page has no line {begin.strip()}")
        _, end, rest = rest.partition("<!-- End of options -->\n")
        text = before + begin + table(settings_class) + end + rest
    return text


def table(settings_class: type) -> str:
    """A kind of manager has a table of the options that it adds, or means otherwise."""
    added = settings_class in KINDS_WITH_OPTIONS.values()
    known = settings_of(ManagerSettings) if added else []
    shown = [each for each in settings_of(settings_class) if not each.description.positional]
    rows = [row(each) for each in shown if each not in known]
    return "| option | value | default | meaning |\n|---|---|---|---|\n" + "".join(rows)


def row(setting: CommandSetting) -> str:
    flags = " ".join(f"`{flag}`" for flag in setting.flags)
    value = ", ".join(f"`{each}`" for each in setting.description.choices) or f"`{setting.metavar}`"
    page = setting.description.see
    more = f" See [{page}]({page})." if page else ""
    meaning = setting.description.help.replace("|", "\\|") + more
    return f"| {flags} | {'on or off' if setting.is_switch else value} | {setting.shown_default} | {meaning} |\n"


# ---- the files -----------------------------------------------------------------------------------------------------


def written() -> Iterator[tuple[Path, str]]:
    """Each file, and what it should contain."""
    for python_class in CLASSES:
        path = ROOT / python_class.path
        yield path, with_parameters(path.read_text(), python_class)
    for name, commands in TABLES.items():
        path = ROOT / name
        yield path, with_tables(path.read_text(), commands)


def main() -> int:
    stale = [(path, text) for path, text in written() if path.read_text() != text]
    for path, text in stale:
        print(path.relative_to(ROOT))
        if "--check" not in sys.argv:
            path.write_text(text)
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
