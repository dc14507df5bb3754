"""The sizes of joblib's batches."""

from __future__ import annotations

import pytest

pytest.importorskip("joblib")

from scaler.integrations.joblib import grown_batch_size  # noqa: E402  # needs joblib

IDEAL_SECONDS = 0.2


@pytest.mark.parametrize(
    ("size", "seconds", "next_size"),
    [
        (1, 0.0, 1),  # no batch of this size has ended
        (1, 0.001, 8),
        (8, 0.008, 64),
        (8, 0.05, 32),
        (64, 0.099, 129),
        (64, 0.1, 64),
        (64, 0.3, 64),
    ],
)
def test_short_batches_grow_to_the_ideal_time(size: int, seconds: float, next_size: int) -> None:
    assert grown_batch_size(size, seconds, IDEAL_SECONDS) == next_size
