"""``scaler progress``: how far the tasks are, and when they will be done."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple, cast

from scaler import Client
from scaler.command.settings import ProgressSettings
from scaler_protocol.monitor.format import (
    clip,
    display_width,
    format_count,
    format_share,
    left,
    printable,
    right,
)
from scaler_protocol.monitor.function_names import FunctionNames
from scaler_protocol.monitor.messages import ClientStatus, Snapshot
from scaler_protocol.monitor.progress import ALL, CLIENT, Progress, ProgressWatch, left_text

INTERVAL_SECONDS = 1.0
_BAR_WIDTH = 30
_COUNTS_WIDTH = 60
_NAME_WIDTH, _LEAST_NAME_WIDTH = 60, 24
_WIDTH_ELSEWHERE = 200
"""The width of what is not printed to a terminal."""

_ROWS = 20


def run(settings: ProgressSettings) -> int:
    """Show the progress until all tasks have ended; once, with ``--once`` or ``--json``, or without a terminal."""
    repeats = not settings.once and not settings.json and sys.stdout.isatty()
    with Client(settings.address, timeout_seconds=settings.timeout) as client:
        look = _watch(client, repeats)
    if settings.json:
        print(json.dumps(document_of(look), indent=1))
    elif not repeats:
        print("\n".join(lines_of(look.rows, time.time(), _WIDTH_ELSEWHERE)))
    return 0


def _watch(client: Client, repeats: bool) -> ProgressLook:
    """Return the last look."""
    shown = 0
    for number, look in enumerate(looks(client)):
        if repeats:
            shown = _show(look.rows, shown)
        if not _is_unfinished(look.rows) or (number and not repeats):
            break
    return look


def lines_of(rows: Sequence[Progress], now: float, width: int) -> list[str]:
    """All tasks first, then the others, those with most to do first. ``now``: unix seconds."""
    others = sorted((row for row in rows if row.kind != ALL), key=lambda row: -row.unfinished)
    ordered = [*(row for row in rows if row.kind == ALL), *others]
    shown = ordered[:_ROWS]
    room = min(max(width - _BAR_WIDTH - _COUNTS_WIDTH, _LEAST_NAME_WIDTH), _NAME_WIDTH)
    names = [clip(_name(row), room) for row in shown]
    wide = max(map(display_width, names), default=0)
    lines = [clip(_line(row, left(name, wide), now), width) for row, name in zip(shown, names, strict=True)]
    return [*lines, f"... and {len(ordered) - _ROWS} more"] if len(ordered) > _ROWS else lines


def _name(row: Progress) -> str:
    kind = row.kind if row.kind in ("function", "group", "client") else ""
    return printable(f"{kind} {row.name}".strip())


def _line(row: Progress, name: str, now: float) -> str:
    full = int(_BAR_WIDTH * row.share)
    counts = f"{format_count(row.ended)} of {format_count(row.ended + row.unfinished)}"
    failed = f", {format_count(row.failed)} failed" if row.failed else ""
    canceled = f", {format_count(row.canceled)} cancelled" if row.canceled else ""
    remaining = left_text(row, now)
    rest = f", {remaining}" if remaining else ""
    return (
        f"{name} [{'=' * full}{' ' * (_BAR_WIDTH - full)}] {right(format_share(row.share), 4)}  {counts}"
        f"{failed}{canceled}{rest}"
    )


class ProgressLook(NamedTuple):
    """A snapshot, and its rows."""

    snapshot: Snapshot
    rows: Sequence[Progress]


def looks(client: Client) -> Iterator[ProgressLook]:
    """A look now, and again after each interval."""
    watch, names = ProgressWatch(), FunctionNames()
    while True:
        snapshot = names.with_shown_names(client.cluster_info().snapshot)
        watch.add(replace(snapshot, time=time.monotonic()))
        yield ProgressLook(snapshot, watch.rows)
        time.sleep(INTERVAL_SECONDS)


def _show(rows: Sequence[Progress], shown: int) -> int:
    """Over the ``shown`` lines of the last time. Returns how many there are now."""
    lines = lines_of(rows, time.time(), shutil.get_terminal_size().columns - 1)
    up = f"\x1b[{shown}A\x1b[J" if shown else ""
    print(up + "\n".join(lines), flush=True)
    return len(lines)


def _is_unfinished(rows: Sequence[Progress]) -> bool:
    return any(row.unfinished for row in rows)


def document_of(look: ProgressLook) -> list[dict[str, object]]:
    """Return the rows as plain JSON values; a client is described by further ones."""
    clients = {each.session: each for each in look.snapshot.clients}
    return [_row_document(row, clients.get(cast(bytes, row.key)) if row.kind == CLIENT else None) for row in look.rows]


def _row_document(row: Progress, client: ClientStatus | None) -> dict[str, object]:
    document = {
        "kind": row.kind, "name": row.name, "done": row.done, "failed": row.failed, "canceled": row.canceled,
        "on_hosts": row.on_hosts, "unfinished": row.unfinished, "share": row.share, "seconds_left": row.seconds_left,
        "cannot_run": row.cannot_run, "obstacle": row.obstacle,
    }  # fmt: skip
    if client is None:
        return document
    return document | {
        "session": client.session.hex(), "host": client.host, "pid": client.pid, "user": client.user,
        "key_name": client.key_name, "program": client.program, "group": client.group,
    }  # fmt: skip
