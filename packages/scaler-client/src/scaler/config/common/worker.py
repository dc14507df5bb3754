"""Settings of workers."""

from __future__ import annotations

from scaler.config.effectless import EffectlessSettings


class WorkerConfig(EffectlessSettings):
    """Has no effect: pass them as parameters of ``SchedulerClusterCombo`` or options of ``scaler_cluster``."""
