"""Parameters that programs written for opengris-scaler pass, and that have no meaning here."""

from __future__ import annotations

from scaler.utility.warning import warn_program

_REASONS = {
    "object_storage_address": "the object store of each host starts by itself",
    "scaler_policy": "tasks are placed by measured durations and by where their data are",
    "security_config": "clients and servers find keys through SCALER_KEYS",
    "worker_manager_id": "workers need no manager",
}


def warn_of_effectless(callable_name: str, **values: object) -> None:
    """Warn of each value that is not None."""
    for name, value in values.items():
        if value is not None:
            warn_program(f"{callable_name}({name}=...) has no effect: {_REASONS[name]}. Leave it out.")


def warn_of_settings(class_name: str) -> None:
    """Warn of an object of settings that the program has made."""
    warn_program(f"{class_name}(...) has no effect. Pass settings as parameters, options of commands, or in a file.")
