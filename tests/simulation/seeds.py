"""Which seeds of each scenario a test tries. ``SCALER_SEED`` chooses one, ``SCALER_SEEDS`` a number of them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

SEEDS_PER_SCENARIO = int(os.environ.get("SCALER_SEEDS", "8"))


def tried_seeds(
    scenarios: Iterable[str], regressions: Sequence[tuple[str, int]], share: int = 1
) -> list[tuple[str, int]]:
    """Return (scenario, seed) of the failures that were found, and of the first seeds of each scenario: a ``share``th
    of SEEDS_PER_SCENARIO, at least one."""
    if "SCALER_SEED" in os.environ:
        return [(name, int(os.environ["SCALER_SEED"])) for name in scenarios]
    tried = range(1, max(1, SEEDS_PER_SCENARIO // share) + 1)
    return [*(each for each in regressions if each[1] not in tried), *((n, s) for n in scenarios for s in tried)]
