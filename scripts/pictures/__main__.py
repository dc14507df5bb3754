"""All pictures, or those of the monitors that are named."""

from __future__ import annotations

import sys
from pathlib import Path

from PIL import Image

from scripts.pictures import gui, top, ui
from scripts.pictures.workload import busy_cluster

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "images"
TAKERS = {"ui": ui.take, "top": top.take, "gui": gui.take}


def make_small(path: Path) -> None:
    """Screens have few colours: a palette of them makes the file a third as large."""
    with Image.open(path) as picture:
        if picture.mode == "P":
            return
        small = picture.convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    small.save(path, optimize=True)


def main() -> None:
    wanted = sys.argv[1:] or list(TAKERS)
    unknown = [name for name in wanted if name not in TAKERS]
    if unknown:
        sys.exit(f"screenshots: there is no monitor {unknown[0]!r}, only {', '.join(TAKERS)}")
    FOLDER.mkdir(exist_ok=True)
    with busy_cluster() as monitor_address:
        for name in wanted:
            TAKERS[name](monitor_address, FOLDER)
    for path in FOLDER.glob("*.png"):
        make_small(path)
    print("\n".join(f"{path} {path.stat().st_size:,} bytes" for path in sorted(FOLDER.glob("*.png"))))


if __name__ == "__main__":
    main()
