from __future__ import annotations

import re
from pathlib import Path

from scaler_protocol.messages import Status
from scaler_scheduler.core import states


def test_compiled_code_has_the_same_numbers() -> None:
    text = Path(states.__file__).with_name("states.pxd").read_text()
    compiled = {name: int(number) for name, number in re.findall(r"^    ([A-Z_]+) = (\d+)$", text, re.MULTILINE)}
    assert compiled.pop("STATES") == len(states.TaskState)
    assert compiled.pop("STATUSES") > max(Status)
    known = {**{each.name: int(each) for each in Status}, **{each.name: int(each) for each in states.TaskState}}
    assert compiled == {name: known[name] for name in compiled}
