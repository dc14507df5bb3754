"""Settings of the workers of a host."""

from __future__ import annotations

from scaler.config.effectless import EffectlessSettings


class ClusterConfig(EffectlessSettings):
    """Has no effect: pass them as parameters of ``Cluster`` or options of ``scaler_cluster``."""
