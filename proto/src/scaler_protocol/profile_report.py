"""Profiles as people and other programs read them: a text, a page with a flame graph, and the format of speedscope."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

from scaler_protocol.monitor.format import format_percent, format_span
from scaler_protocol.profile import ProfileTree, regrouped

GROUPS = ("function", "worker", "client")
"""Choices for the first level of a profile."""

_TEXT_SHARE = 0.005
"""Calls with a smaller part of the whole time are left out of texts."""


class ProfileRow(NamedTuple):
    """One line of a profile as a text. ``total_us`` includes the calls below."""

    depth: int
    name: str
    total_us: int
    self_us: int
    share: float


def nested(tree: ProfileTree, by: str = "function") -> dict[str, Any]:
    """Return the calls as a flame graph takes them: ``name``, ``us`` with all below, ``children``, most time first."""
    root: dict[str, Any] = {"name": "all", "us": 0, "children": {}}
    for path, microseconds in regrouped(tree, by).rows():
        call = root
        call["us"] += microseconds
        for frame in path:
            call = call["children"].setdefault(frame, {"name": frame, "us": 0, "children": {}})
            call["us"] += microseconds
    return _sorted(root)


def rows_of(tree: ProfileTree, by: str = "function", least_share: float = _TEXT_SHARE) -> Iterator[ProfileRow]:
    """Yield the calls from the outside in, without those that took hardly any time."""
    root = nested(tree, by)
    total = max(1, root["us"])
    ahead = [(0, root)]
    while ahead:
        depth, call = ahead.pop()
        share = call["us"] / total
        if share < least_share:
            continue
        own = call["us"] - sum(child["us"] for child in call["children"])
        yield ProfileRow(depth, call["name"], call["us"], own, share)
        ahead.extend((depth + 1, child) for child in reversed(call["children"]))


def text_of(tree: ProfileTree, by: str = "function") -> str:
    """Return a table of time with all calls below, time of its own, and the call, indented."""
    if not tree.total_us:
        return "No task ran while the profile was taken."
    lines = [f"{'total':>8} {'':>6} {'self':>8}  call"]
    for row in rows_of(tree, by):
        total, own = format_span(row.total_us / 1e6), format_span(row.self_us / 1e6) if row.self_us else ""
        lines.append(f"{total:>8} {format_percent(100 * row.share):>6} {own:>8}  {'  ' * row.depth}{row.name}")
    return "\n".join(lines)


def page_of(tree: ProfileTree, title: str = "Profile", by: str = "function") -> str:
    """Return a page with a flame graph, which needs no other file."""
    time = format_span(tree.total_us / 1e6)
    folder = Path(__file__).parent
    return Template((folder / "profile_page.html").read_text(encoding="utf-8")).substitute(
        title=_escaped(title),
        about=f"{time} of running tasks. Click a call to zoom in; Escape, or a bar above, to zoom out.",
        script=(folder / "flame.js").read_text(encoding="utf-8").replace("export class", "class"),
        data=json.dumps(nested(tree, by)).replace("<", "\\u003c"),
    )


def speedscope_of(tree: ProfileTree, title: str = "Profile") -> dict[str, Any]:
    """Return the profile in the file format of https://www.speedscope.app, one profile for each worker."""
    frames: dict[str, int] = {}
    profiles: dict[str, dict[str, Any]] = {}
    for (worker, _, *path), microseconds in tree.rows():
        profile = profiles.setdefault(worker, _speedscope_profile(worker))
        profile["samples"].append([frames.setdefault(frame, len(frames)) for frame in path])
        profile["weights"].append(microseconds)
        profile["endValue"] += microseconds
    return {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "name": title,
        "exporter": "scaler",
        "shared": {"frames": [{"name": frame} for frame in frames]},
        "profiles": list(profiles.values()) or [_speedscope_profile("no task ran")],
    }


def _speedscope_profile(worker: str) -> dict[str, Any]:
    return {
        "type": "sampled", "name": worker, "unit": "microseconds", "startValue": 0, "endValue": 0, "samples": [],
        "weights": [],
    }  # fmt: skip


def _sorted(call: dict[str, Any]) -> dict[str, Any]:
    children = sorted(call["children"].values(), key=lambda each: (-each["us"], each["name"]))
    return {"name": call["name"], "us": call["us"], "children": [_sorted(child) for child in children]}


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")
