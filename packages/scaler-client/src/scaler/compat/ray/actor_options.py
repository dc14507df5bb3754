"""The options of remote classes, in the terms of Scaler."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from scaler.client.actors import concurrency_of
from scaler.compat.ray.remote_options import capabilities_in
from scaler.compat.ray.warning import warn_of_ignored

_SETTING = "this interface has no such setting"
_IGNORED = {
    "accelerator_type": "name the accelerator in resources",
    "enable_task_events": _SETTING,
    "label_selector": "name the property of the worker in resources",
    "max_pending_calls": "any number of calls may wait",
    "memory": "memory is not reserved",
    "namespace": "names belong to the whole cluster",
    "num_cpus": "an actor occupies one worker",
    "object_store_memory": "it is an option of scaler_cluster",
    "runtime_env": "the environment of the workers is that of scaler_cluster",
    "scheduling_strategy": "actors are placed like tasks",
}
_MISSING: dict[str, tuple[tuple[Any, ...], str]] = {
    "concurrency_groups": ((None, {}), "all methods share the threads of max_concurrency, so use that instead"),
    "lifetime": ((None, "non_detached"), "an actor ends with the program that has made it"),
    "max_task_retries": ((None, 0), "a call that was made for a lost state is not repeated"),
}
"""The values that are accepted, and what there is instead of the others."""

_MEANINGFUL = ("num_gpus", "resources", "name", "get_if_exists", "max_restarts", "max_concurrency")


@dataclass(frozen=True, slots=True)
class ActorOptions:
    """``capabilities``: those that the worker must have. ``may_exist``: an actor of this name is used if there is
    one."""

    capabilities: dict[str, float] = field(default_factory=dict)
    name: str | None = None
    may_exist: bool = False
    max_restarts: int = 0
    max_concurrency: int = 1


def actor_options(options: dict[str, Any]) -> ActorOptions:
    """Raises ValueError for an option that Ray does not have, and NotImplementedError for one that is not here. Warns
    of those without a meaning."""
    for name, value in options.items():
        if name in _MISSING:
            accepted, reason = _MISSING[name]
            if value not in accepted:
                raise NotImplementedError(f"Cannot use {name}={value!r} for an actor: {reason}.")
        elif name not in _IGNORED and name not in _MEANINGFUL:
            known = ", ".join(_MEANINGFUL)
            raise ValueError(f"Cannot use the option {name!r}: remote classes do not have it. Options are: {known}.")
    warned = {name: _IGNORED[name] for name, value in options.items() if name in _IGNORED and value is not None}
    if options.get("num_cpus") in (0, 1):
        del warned["num_cpus"]
    warn_of_ignored("remote classes", warned)
    may_exist = bool(options.get("get_if_exists"))
    if may_exist and options.get("name") is None:
        raise ValueError("Cannot use get_if_exists=True without a name. Pass name=... too.")
    concurrency = options.get("max_concurrency")
    return ActorOptions(
        capabilities_in(options),
        options.get("name"),
        may_exist,
        options.get("max_restarts") or 0,
        1 if concurrency is None else concurrency_of(concurrency),
    )
