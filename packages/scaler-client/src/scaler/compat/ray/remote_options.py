"""The options of remote functions, in the terms of ``Client.submit_verbose``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from scaler.client.options import RETRIES_LIMIT
from scaler.compat.ray.warning import warn_of_ignored

_DEFAULT_RETRIES = 3
_SLOT = "a task occupies one worker"
_SETTING = "this interface has no such setting"
_IGNORED = {
    "accelerator_type": "name the accelerator in resources",
    "concurrency_group": _SETTING,
    "enable_task_events": _SETTING,
    "fallback_strategy": _SETTING,
    "label_selector": "name the property of the worker in resources",
    "max_calls": "worker processes are renewed by the options of scaler_cluster",
    "memory": "memory is not reserved",
    "num_cpus": _SLOT,
    "object_store_memory": "it is an option of scaler_cluster",
    "runtime_env": "the environment of the workers is that of scaler_cluster",
    "scheduling_strategy": "tasks are placed by load and by where their data are",
    "_generator_backpressure_num_objects": _SETTING,
    "_labels": _SETTING,
    "_metadata": _SETTING,
}
_MEANINGFUL = ("max_retries", "name", "num_gpus", "num_returns", "resources", "retry_exceptions")


@dataclass(frozen=True, slots=True)
class RemoteOptions:
    """``retried``: exceptions after which the task is repeated in the same process, up to ``repetitions`` times.
    ``submit_options``: those of ``submit_verbose``."""

    name: str = ""
    num_returns: int = 1
    retried: tuple[type[BaseException], ...] = ()
    repetitions: int = 0
    submit_options: dict[str, Any] = field(default_factory=dict)


def remote_options(options: dict[str, Any]) -> RemoteOptions:
    """Raises ValueError for an option that Ray does not have. Warns of those without a meaning here."""
    for name in options:
        if name not in _IGNORED and name not in _MEANINGFUL:
            known = ", ".join(_MEANINGFUL)
            raise ValueError(f"Cannot use the option {name!r}: remote functions do not have it. Options are: {known}.")
    warned = {name: _IGNORED[name] for name, value in options.items() if name in _IGNORED and value is not None}
    if options.get("num_cpus") == 1:
        del warned["num_cpus"]
    warn_of_ignored("remote functions", warned)
    retries = _max_retries(options.get("max_retries"))
    retried = options.get("retry_exceptions") or False
    submit_options: dict[str, Any] = {}
    if capabilities := capabilities_in(options):
        submit_options["capabilities"] = capabilities
    if retries == 0:
        submit_options["rerun"] = False
    elif retried is True:
        submit_options["retries"] = retries
    classes = _classes(retried)
    return RemoteOptions(
        options.get("name") or "", _num_returns(options), classes, retries if classes else 0, submit_options
    )


def _max_retries(value: int | None) -> int:
    if value is None:
        return _DEFAULT_RETRIES
    if isinstance(value, bool) or not isinstance(value, int) or value < -1:
        raise ValueError(f"Cannot retry {value!r} times: max_retries must be -1 (unlimited), 0 or a positive number.")
    return RETRIES_LIMIT if value == -1 else min(value, RETRIES_LIMIT)


def _num_returns(options: dict[str, Any]) -> int:
    value = options.get("num_returns")
    if value is None:
        return 1
    if value in ("dynamic", "streaming"):
        raise ValueError(f"Cannot use num_returns={value!r}: tasks return when they end. Return a list instead.")
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"Cannot return {value!r} values: num_returns must be 0 or a positive number.")
    return value


def capabilities_in(options: dict[str, Any]) -> dict[str, float]:
    """Return the capabilities that the options ``num_gpus`` and ``resources`` require of a worker."""
    wanted = dict(options.get("resources") or {})
    if any(name in wanted for name in ("CPU", "GPU")):
        raise ValueError("Cannot use CPU or GPU in resources: pass num_cpus or num_gpus.")
    if options.get("num_gpus"):
        wanted["gpu"] = options["num_gpus"]
    return {name: amount for name, amount in wanted.items() if amount}


def _classes(retried: Any) -> tuple[type[BaseException], ...]:
    if isinstance(retried, bool):
        return ()
    if not isinstance(retried, (list, tuple)) or not all(isinstance(each, type) for each in retried):
        raise TypeError(f"Cannot use retry_exceptions={retried!r}: pass True, False or a list of exception classes.")
    return tuple(retried)
