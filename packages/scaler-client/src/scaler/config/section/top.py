"""Settings of the monitor in a terminal."""

from __future__ import annotations

from scaler.config.effectless import EffectlessSettings


class TopConfig(EffectlessSettings):
    """Has no effect: pass them as options of ``scaler_top``."""
