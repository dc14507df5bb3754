"""The Mandelbrot set, one tile a task, as a PNG to look at."""

from __future__ import annotations

import argparse
import struct
import time
import zlib
from pathlib import Path

from scaler import Client, SchedulerClusterCombo

TILE = 40
LIMIT = 120


def escape_time(point: complex) -> int:
    """Steps until the orbit of ``point`` leaves the circle of radius 2; LIMIT when it does not."""
    value = 0j
    for step in range(LIMIT):
        value = value * value + point
        if value.real * value.real + value.imag * value.imag > 4:
            return step
    return LIMIT


def render_tile(left: int, top: int, width: int, height: int) -> list[bytes]:
    """Rows of grey pixels of the tile whose corner is (left, top), in an image of width x height."""
    rows = []
    for y in range(top, min(top + TILE, height)):
        imaginary = (y / height - 0.5) * 2.4
        points = (complex((x / width) * 3.2 - 2.3, imaginary) for x in range(left, min(left + TILE, width)))
        rows.append(bytes(255 - min(255, escape_time(point) * 255 // LIMIT * 3) for point in points))
    return rows


def write_png(path: Path, rows: list[bytes]) -> None:
    """An 8-bit grey PNG (https://www.w3.org/TR/png)."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 0, 0, 0, 0)
    pixels = zlib.compress(b"".join(b"\0" + row for row in rows))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b""))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--width", type=int, default=800)
    parser.add_argument("--output", type=Path, default=Path("mandelbrot.png"))
    arguments = parser.parse_args()
    width, height = arguments.width, arguments.width * 3 // 4
    corners = [(left, top, width, height) for top in range(0, height, TILE) for left in range(0, width, TILE)]
    started = time.monotonic()
    with SchedulerClusterCombo(n_workers=2) as cluster, Client(cluster.get_address()) as client:
        tiles = client.starmap(render_tile, corners)
    rows = [b""] * height
    for (_, top, _, _), tile in zip(corners, tiles, strict=True):
        for offset, pixels in enumerate(tile):
            rows[top + offset] += pixels
    write_png(arguments.output, rows)
    print(f"{len(corners)} tiles in {time.monotonic() - started:.1f} s: {arguments.output}")


if __name__ == "__main__":
    main()
