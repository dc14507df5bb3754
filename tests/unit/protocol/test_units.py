"""Units: what a text with a unit means, and how a number is shown with one."""

from __future__ import annotations

import pytest

from scaler_protocol.units import BYTES, DAYS, SECONDS, Unit


@pytest.mark.parametrize(
    ("unit", "text", "value"),
    [
        (SECONDS, "30", 30.0),
        (SECONDS, "30s", 30.0),
        (SECONDS, "500ms", 0.5),
        (SECONDS, "100us", 0.0001),
        (SECONDS, "1.5m", 90.0),
        (SECONDS, "5min", 300.0),
        (SECONDS, " 2 h ", 7200.0),
        (SECONDS, "1d", 86_400.0),
        (SECONDS, "1e3ms", 1.0),
        (SECONDS, "-1", -1.0),
        (DAYS, "7", 7.0),
        (DAYS, "36h", 1.5),
        (BYTES, "1073741824", 1 << 30),
        (BYTES, "4GiB", 4 << 30),
        (BYTES, "4gib", 4 << 30),
        (BYTES, "500MB", 500_000_000),
        (BYTES, "1.5KiB", 1536),
        (BYTES, "0.1GB", 100_000_000),
        (BYTES, "9007199254740993", 9_007_199_254_740_993),
        (BYTES, "9007199254740993kB", 9_007_199_254_740_993_000),
        (BYTES, "2TiB", 2 << 40),
    ],
)
def test_a_text_means_a_number(unit: Unit, text: str, value: float) -> None:
    parsed = unit.parse(text)
    assert parsed == value and type(parsed) is type(value)


@pytest.mark.parametrize("text", ["", "s", "nan", "inf", "1e999s", "five", "5 parsecs", "5GiB", "--1s", "1,5s"])
def test_what_is_not_a_duration(text: str) -> None:
    reason = r"is not a duration\. Give seconds, or a number with a unit \(ms, s, min, h\)\.$"
    with pytest.raises(ValueError, match=reason):
        SECONDS.parse(text)


@pytest.mark.parametrize("text", ["", "GiB", "1.5", "0.1B", "4Gi", "4G", "1s", "inf", "nanB"])
def test_what_is_not_a_size(text: str) -> None:
    with pytest.raises(ValueError, match="is not a size. Give bytes, or a number with a unit"):
        BYTES.parse(text)


@pytest.mark.parametrize(
    ("unit", "value", "text"),
    [
        (BYTES, 0, "0"),
        (BYTES, 1 << 30, "1GiB"),
        (BYTES, 1000, "1000B"),
        (BYTES, 500_000_000, "500MB"),
        (BYTES, 3 << 20, "3MiB"),
        (SECONDS, 0.0, "0"),
        (SECONDS, 60.0, "60s"),
        (SECONDS, 0.5, "0.5s"),
        (DAYS, 7.0, "7d"),
    ],
)
def test_a_number_is_shown_with_its_unit(unit: Unit, value: float, text: str) -> None:
    assert unit.show(value) == text
    assert unit.parse(text) == value
