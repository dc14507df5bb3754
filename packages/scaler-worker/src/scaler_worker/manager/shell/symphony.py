"""The kind ``symphony``: jobs are ``scaler_symphony_cluster`` commands on this host, whose tasks run in Symphony."""

from __future__ import annotations

import dataclasses
import importlib.util
from collections.abc import Sequence

from scaler_protocol.command import BadInput, settings_arguments
from scaler_worker.config import AgentOptions
from scaler_worker.manager.config import ManagerSettings
from scaler_worker.manager.shell.local import LocalBackend, LocalCommand
from scaler_worker.manager.symphony_config import SymphonyManagerSettings
from scaler_worker.symphony.config import SymphonySettings


def symphony_backend(settings: SymphonyManagerSettings) -> LocalBackend:
    """Raises BadInput."""
    settings.check()
    if importlib.util.find_spec("soamapi") is None:
        raise BadInput(
            "Cannot use Symphony: its Python API soamapi cannot be imported. Source its profile.platform, and add the "
            "directory of soamapi.py to PYTHONPATH."
        )
    return LocalBackend(settings, symphony_command)


def symphony_command(settings: ManagerSettings, workers: int, capabilities: Sequence[str]) -> LocalCommand:
    assert isinstance(settings, SymphonyManagerSettings)
    names = [field.name for field in dataclasses.fields(AgentOptions)]
    values = {name: getattr(settings, name) for name in (*names, "address", "service", "manager")}
    arguments = settings_arguments(SymphonySettings, {**values, "base_concurrency": workers})
    return LocalCommand("scaler_worker.symphony.cli", arguments, "scaler_symphony_cluster")
