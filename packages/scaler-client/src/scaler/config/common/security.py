"""Settings of security."""

from __future__ import annotations

from scaler.config.effectless import EffectlessSettings


class SecurityConfig(EffectlessSettings):
    """Has no effect: clients and servers find keys through SCALER_KEYS."""
