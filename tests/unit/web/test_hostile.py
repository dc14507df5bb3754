"""What an open page is told of a hostile stream can be read by any browser."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest

from scaler_protocol.monitor.model import Model
from scaler_protocol.monitor.tables import TABLES
from scaler_scheduler.web.page import Page
from scaler_scheduler.web.status import live_status
from tests.support.hostile import Hostile

STREAM = {"what": "stream", "end": None, "span": 5.0, "width": 1000, "first": 0, "rows": 100}
OTHERS = ("overview", "scheduler", "processes", "graphs")


def refuse_constant(name: str) -> Any:
    raise AssertionError(f"{name} is no JSON")


def questions() -> list[dict[str, Any]]:
    tables = [
        {"what": "table", "table": name, "filter": "", "sort": table.default_sort, "descending": True, "offset": 0,
         "limit": 20}
        for name, table in TABLES.items()
    ]  # fmt: skip
    failures = [{"what": "failure", "group": group} for group in (0, 1)]
    tasks = [{"what": "task", "serial": serial} for serial in (0, 10)]
    return [*tables, *({"what": name} for name in OTHERS), *failures, *tasks, STREAM]


@pytest.mark.parametrize("seed", range(40))
def test_every_answer_is_json_and_every_share_is_one(seed: int) -> None:
    hostile, model = Hostile(seed), Model(0.0)
    asked = questions()
    pages = [Page(), Page()]
    pages[0].watch({str(number): query for number, query in enumerate(asked[:15])})
    pages[1].watch({str(number): query for number, query in enumerate(asked[15:])})
    for now in range(20):
        model.apply(hostile.message(), float(now))
        for page in pages:
            for message in page.push(model, live_status(model, float(now), "ipc:///x"), False):
                if isinstance(message, bytes):
                    size = struct.unpack_from("<I", message)[0]
                    json.loads(message[4 : 4 + size], parse_constant=refuse_constant)
                    continue
                parsed = json.loads(message, parse_constant=refuse_constant)
                for cell in cells(parsed):
                    assert isinstance(cell, str) or isinstance(cell[1], str) or 0 <= cell[1] <= 1


def cells(parsed: dict[str, Any]) -> list[Any]:
    results = [result for result in parsed.get("results", {}).values() if isinstance(result, dict)]
    return [cell for result in results for row in result.get("rows", []) for cell in row]
