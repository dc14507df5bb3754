"""The scheduler's figures for Prometheus: a real scrape of a real cluster."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import psutil
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from scaler import Client
from tests.support import functions
from tests.support.commands import (
    Command,
    alive,
    free_address,
    free_port,
    run_command,
    start_cluster,
    start_scheduler,
)
from tests.support.waiting import wait_until

ANY_PORT = ("--prometheus-address", "127.0.0.1:0")
URL = re.compile(r"figures for Prometheus are at (http://\S+)")


def url_of(scheduler: Command) -> str:
    scheduler.wait_for_output(URL.pattern)
    found = URL.search(scheduler.output)
    assert found is not None
    return found[1]


def scrape(url: str) -> dict[tuple[str, ...], float]:
    """Values by sample name and label values."""
    request = urllib.request.Request(url, headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    with urllib.request.urlopen(request, timeout=10) as response:
        text = response.read().decode()
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return {(sample.name, *sample.labels.values()): sample.value for sample in samples}


def test_counts_equal_what_was_run() -> None:
    address = free_address()
    with start_scheduler(address, *ANY_PORT) as scheduler, start_cluster(address, "-n", 2, "-hi", 0.2):
        url = url_of(scheduler)
        with Client(address) as client:
            client.map(functions.square, range(500))
            failing = [client.submit(functions.raise_value_error, "on purpose") for _ in range(3)]
            for future in failing:
                assert future.exception() is not None
            wait_until(lambda: scrape(url).get(("scaler_tasks_ended_total", "failed")) == 3, 10)
            figures = scrape(url)
        assert figures["scaler_up",] == 1
        assert figures["scaler_tasks_ended_total", "success"] == 500
        assert figures["scaler_function_tasks_ended_total", "square"] == 500
        assert figures["scaler_tasks", "running"] == 0
        wait_until(lambda: len([key for key in scrape(url) if key[0] == "scaler_worker_busy"]) == 2, 10)


def has_ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")
def test_the_url_of_an_ipv6_address_can_be_opened() -> None:
    with start_scheduler(free_address(), "--prometheus-address", "[::1]:0") as scheduler:
        assert ("scaler_up",) in scrape(url_of(scheduler))


def test_every_figure_of_the_dashboard_exists() -> None:
    dashboard = json.loads((Path(__file__).parents[2] / "docs/grafana/scaler.json").read_text())
    wanted = set(re.findall(r"scaler_\w+", json.dumps(dashboard["panels"])))
    address = free_address()
    with start_scheduler(address, *ANY_PORT) as scheduler, start_cluster(address, "-n", 1, "-hi", 0.2):
        url = url_of(scheduler)
        with Client(address) as client:
            client.map(functions.square, range(5))
            assert client.submit(len, bytes(100_000)).result() == 100_000  # the host has a store now
            wait_until(lambda: wanted <= {key[0] for key in scrape(url)}, 10)


def test_a_killed_scheduler_takes_the_server_with_it() -> None:
    with start_scheduler(free_address(), *ANY_PORT) as scheduler:
        url = url_of(scheduler)
        children = psutil.Process(scheduler.pid).children()
        assert any("metrics" in " ".join(child.cmdline()) for child in children)
        scheduler.kill()
        wait_until(lambda: not any(alive(child.pid) for child in children), 10)
        with pytest.raises(OSError):
            scrape(url)


def test_bad_input() -> None:
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        taken = f"127.0.0.1:{busy.getsockname()[1]}"
        done = run_command("scaler_scheduler", free_address(), "--prometheus-address", taken)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert f"cannot listen on the Prometheus address {taken}" in done.stderr
    done = run_command("scaler_scheduler", free_address(), "--prometheus-address", "ipc:///tmp/x")
    assert done.returncode == 2
    assert "is not of the form host:port" in done.stderr


def test_without_the_library_it_says_what_to_install(tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['prometheus_client'] = None\n"
        "import importlib.util as u; find = u.find_spec\n"
        "u.find_spec = lambda name, *rest: None if name == 'prometheus_client' else find(name, *rest)\n"
        "from scaler_scheduler.cli import main; main(sys.argv[1:])\n"
    )
    arguments = [sys.executable, "-c", program, f"tcp://127.0.0.1:{free_port()}", *ANY_PORT]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=30)
    assert done.returncode == 2
    assert "pip install 'scaler-scheduler[prometheus]'" in done.stderr
