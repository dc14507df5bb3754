"""Clients in the processes that multiprocessing spawns, which call the program ``__mp_main__``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from scaler import Client
from tests.support.commands import child_environment

PROGRAM = """
import multiprocessing
import sys

from scaler import Client, Executor

class Point:
    def __init__(self, x):
        self.x = x

def move(point, by=1):
    return Point(point.x + by)

def use(client, queue):
    with Executor(client.address) as executor:
        moved = executor.submit(move, Point(1)).result(timeout=60)
    futures = [client.submit(move, Point(2)), client.submit(lambda: move(Point(5)))]
    queue.put([type(moved) is Point, moved.x, *(each.x for each in client.gather(futures))])

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[2])
    queue = context.Queue()
    with Client(sys.argv[1]) as client:
        child = context.Process(target=use, args=(client, queue))
        child.start()
        print(queue.get(timeout=100))
        child.join()
"""


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_functions_and_classes_of_the_program_travel(client: Client, tmp_path: Path, method: str) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, str(program), client.address, method],
        env=child_environment(),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout == "[True, 2, 3, 6]\n", done.stderr
