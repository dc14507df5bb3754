"""docs/protocol.md names each message."""

from __future__ import annotations

import re

from scaler_protocol import layout
from tests.support.commands import REPOSITORY

PAGE = (REPOSITORY / "docs" / "protocol.md").read_text(encoding="utf-8")


def test_the_page_names_each_message() -> None:
    assert len(layout.bodies()) > 70
    missing = [name for name in layout.bodies() if not re.search(rf"`{name}\b", PAGE)]
    assert not missing, f"Describe in docs/protocol.md who sends each, when, and what it means: {', '.join(missing)}"
