"""Keys are replaced while an agent leaves: its values still move."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.cluster.test_hosts import ADDRESSES, FETCH_LATER, SCRIPT
from tests.cluster.test_keys import copy_keys, make_keys, replace_key, run_keygen
from tests.support.commands import Command, child_environment, command_line, free_port
from tests.support.namespaces import Pair, on, received_bytes, two_hosts

DIRECT = """
assert "ObjectChunk" not in [message.name for message in client.cluster_info().snapshot.sent], "not by the scheduler"
"""


class Site:
    """Two hosts, and a directory of keys for each role."""

    def __init__(self, names: Pair, folder: Path) -> None:
        self._names = names
        self._operator = make_keys(folder / "operator")
        self._folders = {
            role: copy_keys(self._operator, folder / role, role) for role in ("scheduler", "work", "submit")
        }

    def start(self, host: int, role: str, *line: str) -> Command:
        environment = child_environment(SCALER_KEYS=str(self._folders[role]))
        return Command([*on(self._names[host]), *line], environment)

    def rotate(self) -> None:
        """All public keys go everywhere, then each secret key to its hosts."""
        run_keygen(self._operator, "--rotate")
        for role, folder in self._folders.items():
            for path in (*sorted(self._operator.glob("*.pub")), self._operator / f"{role}.key"):
                replace_key(path, folder)


def test_values_move_from_an_agent_with_old_keys_to_its_replacement(tmp_path: Path) -> None:
    """The store of the agent that leaves has its keys as long as it runs; the other one has the new ones."""
    address = f"tcp://{ADDRESSES[0]}:{free_port()}"
    script = SCRIPT + FETCH_LATER.replace('"b"', '"a"') + DIRECT
    with two_hosts(ADDRESSES) as names:
        site, capable = Site(names, tmp_path), ("-n", "1", "--per-worker-capabilities", "a")
        with (
            site.start(0, "scheduler", *command_line("scaler_scheduler", address)) as scheduler,
            site.start(1, "work", *command_line("scaler_cluster", *capable, address)) as old,
            site.start(0, "submit", sys.executable, "-c", script, address, str(tmp_path / "left")) as client,
        ):
            client.wait_for_output("made", 40)
            site.rotate()
            with site.start(0, "work", *command_line("scaler_cluster", "-n", "1", address)) as new:
                scheduler.wait_for_output(r"joined with[\s\S]*joined with")
                before = received_bytes(names[0])
                assert old.terminate() == 0
                assert received_bytes(names[0]) - before >= 32_000_000, old.output
                (tmp_path / "left").touch()
                assert client.wait(50) == 0, client.output
                for each in (new, scheduler):
                    each.remember_family()
