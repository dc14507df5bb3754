"""Settings of logs."""

from __future__ import annotations

from scaler.config.effectless import EffectlessSettings


class LoggingConfig(EffectlessSettings):
    """Has no effect: pass ``logging_paths``, ``logging_level`` and ``logging_config_file`` as parameters."""
