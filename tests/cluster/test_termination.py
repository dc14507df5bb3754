"""An agent on a machine that its provider takes back. The provider is a web server at the address of Amazon's."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from scaler_worker.termination_notice import STOPPED_CODE
from tests.support.commands import Command, command_line
from tests.support.namespaces import on, run, two_hosts
from tests.support.ports import free_port
from tests.support.waiting import wait_until

ADDRESSES = ("10.231.13.1", "10.231.13.2")
PROVIDER = """
import http.server, pathlib, sys

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        found = self.path == "/latest/api/token" or pathlib.Path(sys.argv[1]).exists()
        self.send_response(200 if found else 404)
        self.end_headers()
        self.wfile.write(b"{}")

    do_PUT = do_GET

print("serving", flush=True)
http.server.HTTPServer(("169.254.169.254", 80), Handler).serve_forever()
"""
TASKS = """
import pathlib, sys, time
from scaler import Client

def wait_for(path):
    while not pathlib.Path(path).exists():
        time.sleep(0.01)
    return True

with Client(sys.argv[1]) as client:
    future = client.submit(wait_for, sys.argv[2])
    while not client.cluster_info().unfinished.running:
        time.sleep(0.01)
    print("it runs", flush=True)
    assert future.result(timeout=60)
    assert client.submit(abs, -1).result(timeout=60) == 1, "another agent is there by now"
"""

ONE_TASK = """
import sys
from scaler import Client

with Client(sys.argv[1]) as client:
    assert client.submit(abs, -1).result(timeout=60) == 1
"""


def test_the_agent_leaves_when_its_running_task_has_ended(tmp_path: Path) -> None:
    notice, release = tmp_path / "notice", tmp_path / "release"
    with two_hosts(ADDRESSES) as (name, _):
        run("ip", "-n", name, "address", "add", "169.254.169.254/32", "dev", "lo")
        address = f"tcp://127.0.0.1:{free_port()}"
        cluster = command_line("scaler_cluster", "-n", "1", address)
        with (
            Command([*on(name), sys.executable, "-c", PROVIDER, str(notice)]) as provider,
            Command([*on(name), *command_line("scaler_scheduler", address)]),
            Command([*on(name), *cluster, "--termination-notices", "aws"]) as agent,
        ):
            provider.wait_for_output("serving")
            agent.wait_for_output("started")
            with Command([*on(name), sys.executable, "-c", TASKS, address, str(release)]) as client:
                client.wait_for_output("it runs")
                notice.touch()
                agent.wait_for_output("the machine will be taken back")
                with Command([*on(name), *cluster]) as successor:
                    successor.wait_for_output("started")
                    release.touch()
                    wait_until(lambda: agent.wait(60) == STOPPED_CODE)
                    assert client.wait(60) == 0, client.output


@pytest.mark.parametrize("number", ["--num-of-workers=1", "--maximum-workers=1"])
def test_a_manager_on_that_machine_ends(tmp_path: Path, number: str) -> None:
    """Systemd does not start it again after this exit code."""
    notice = tmp_path / "notice"
    with two_hosts(ADDRESSES) as (name, _):
        run("ip", "-n", name, "address", "add", "169.254.169.254/32", "dev", "lo")
        address = f"tcp://127.0.0.1:{free_port()}"
        flags = [number, "--termination-notices=aws"]
        with (
            Command([*on(name), sys.executable, "-c", PROVIDER, str(notice)]) as provider,
            Command([*on(name), *command_line("scaler_scheduler", address)]),
            Command([*on(name), *command_line("scaler_worker_manager", "local", address, *flags)]) as manager,
        ):
            provider.wait_for_output("serving")
            with Command([*on(name), sys.executable, "-c", ONE_TASK, address]) as client:
                assert client.wait(60) == 0, client.output
                notice.touch()
                assert manager.wait(60) == STOPPED_CODE
            assert manager.output.count("this agent leaves when") == 1
