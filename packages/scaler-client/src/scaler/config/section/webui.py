"""Settings of the monitor in a browser."""

from __future__ import annotations

from scaler.config.effectless import EffectlessSettings


class WebUIConfig(EffectlessSettings):
    """Has no effect: pass them as options of ``scaler_ui``."""
