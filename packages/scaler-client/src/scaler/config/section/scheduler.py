"""Settings of the scheduler."""

from __future__ import annotations

from scaler.config.effectless import EffectlessSettings


class SchedulerConfig(EffectlessSettings):
    """Has no effect: pass them as parameters of ``Scheduler`` or options of ``scaler_scheduler``."""
