"""The command line of ``scripts/fuzz``. Needs only the standard library; what fuzzes runs in the sanitizer build."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from fuzz import drive, minimize, sanitizers, target
from fuzz.mode import Mode

NOTHING_FOUND, FOUND, WRONG_ARGUMENTS, UNAVAILABLE = 0, 1, 2, 3
"""Exit codes."""


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/fuzz",
        description="Fuzz the parsers and cores under the address and undefined-behaviour sanitizers. "
        "Exit code 1: something was found. 3: there is no sanitizer build here.",
    )
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="which targets to run (default: all)")
    bound = parser.add_mutually_exclusive_group()
    bound.add_argument("--inputs", type=int, help="try so many inputs with each target")
    bound.add_argument("--minutes", type=float, help="share so many minutes between the targets (default: 10)")
    parser.add_argument("--volume", action="store_true", help="try many more inputs, with less guidance by coverage")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="run so many targets at a time")
    parser.add_argument("--list", action="store_true", help="list the targets and how much has been tried")
    parser.add_argument("--reproduce", nargs="+", type=Path, metavar="FILE", help="run these inputs of TARGET once")
    parser.add_argument("--minimize", action="store_true", help="choose the repository's corpus from what was found")
    chosen = parser.parse_args(arguments)
    unknown = set(chosen.targets) - set(target.names())
    if unknown:
        parser.error(f"no such target: {', '.join(sorted(unknown))}. See --list.")
    if chosen.reproduce and len(chosen.targets) != 1:
        parser.error("--reproduce needs exactly one TARGET.")
    return chosen


def main(arguments: list[str]) -> int:
    chosen = parse(arguments)
    names = chosen.targets or target.names()
    if chosen.list:
        print_list(names)
        return NOTHING_FOUND
    try:
        sanitizers.prepare()
    except sanitizers.Unavailable as reason:
        print(f"Cannot fuzz here: {reason}", file=sys.stderr)
        return UNAVAILABLE
    if chosen.reproduce:
        return FOUND if drive.reproduce(target.FuzzTarget(names[0]), chosen.reproduce) else NOTHING_FOUND
    if chosen.minimize:
        for name in names:
            print(minimize.minimize(target.FuzzTarget(name)), flush=True)
        return NOTHING_FOUND
    drive.write_seeds(names)
    seconds = max(1, int(60 * (chosen.minutes or 10) * chosen.jobs / len(names)))
    bound = drive.Bound(inputs=chosen.inputs) if chosen.inputs else drive.Bound(seconds=seconds)
    mode = Mode.VOLUME if chosen.volume else Mode.GUIDED
    return NOTHING_FOUND if drive.fuzz(names, bound, chosen.jobs, mode) else FOUND


def print_list(names: list[str]) -> None:
    totals = drive.read_totals()
    for name in names:
        inputs, messages = totals.get(name, (0, 0))
        tried = f"{inputs:,} inputs" + (f", {messages:,} messages" if messages else "")
        print(f"{name:24} {target.FuzzTarget(name).summary}\n{'':24} tried here: {tried}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
