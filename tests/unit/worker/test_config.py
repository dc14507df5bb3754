"""What the wire cannot carry is refused where it is given."""

from __future__ import annotations

import pytest

from scaler_protocol.command import BadInput
from scaler_worker.config import ClusterSettings, _capability, _name


@pytest.mark.parametrize("parse", [_name, _capability])
def test_a_name_has_an_end(parse: object) -> None:
    with pytest.raises(ValueError, match="at most 1024 bytes"):
        parse("n" * 1025)  # type: ignore[operator]


def test_an_agent_has_few_capabilities() -> None:
    settings = ClusterSettings(
        address="tcp://127.0.0.1:1", per_worker_capabilities=tuple(f"c{index}" for index in range(65))
    )
    with pytest.raises(BadInput, match="more than 64 capabilities"):
        settings.capabilities  # noqa: B018
