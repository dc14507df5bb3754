"""The scheduler's figures for Prometheus: a real scrape of a real cluster."""

from __future__ import annotations

import contextlib
import gzip
import json
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from scaler import Client
from scaler_scheduler.metrics.http import CONNECTIONS_LIMIT
from tests.support import functions
from tests.support.commands import Command, alive, run_command, start_cluster, start_scheduler
from tests.support.ports import free_address, free_port
from tests.support.waiting import wait_until

ANY_PORT = ("--prometheus-address", "127.0.0.1:0")
URL = re.compile(r"metrics for Prometheus are at (http://\S+)")


def url_of(scheduler: Command) -> str:
    scheduler.wait_for_output(URL.pattern)
    found = URL.search(scheduler.output)
    assert found is not None
    return found[1]


def scrape(url: str, **headers: str) -> dict[tuple[str, ...], float]:
    """Values by sample name and label values."""
    accept = {"Accept": "application/openmetrics-text; version=1.0.0"}
    request = urllib.request.Request(url, headers={**accept, **headers})
    with urllib.request.urlopen(request, timeout=60) as response:
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
            wait_until(lambda: scrape(url).get(("scaler_tasks_ended_total", "failed")) == 3)
            figures = scrape(url)
        assert figures["scaler_up",] == 1
        assert figures["scaler_tasks_ended_total", "success"] == 500
        assert figures["scaler_function_tasks_ended_total", "square", "tests.support.functions"] == 500
        assert figures["scaler_tasks", "running"] == 0
        wait_until(lambda: len([key for key in scrape(url) if key[0] == "scaler_worker_busy"]) == 2)


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
            wait_until(lambda: wanted <= {key[0] for key in scrape(url)})


def test_every_figure_of_the_alerts_exists_and_the_reason_is_that_of_the_scheduler() -> None:
    rules = (Path(__file__).parents[2] / "docs/grafana/alerts.yml").read_text()
    wanted = set(re.findall(r"scaler_[a-z_]+", rules))
    [reason] = re.findall(r'reason=~"(.*?)"', rules)
    address = free_address()
    with start_scheduler(address, *ANY_PORT) as scheduler, start_cluster(address, "-n", 1, "-hi", 0.2):
        url = url_of(scheduler)
        with Client(address) as client:
            assert client.submit(len, bytes(100_000)).result() == 100_000  # the host has a store now
            client.submit_verbose(len, ("",), capabilities={"gpu": 1})
            wait_until(lambda: wanted <= {key[0] for key in scrape(url)})
            reasons = [key[1] for key in scrape(url) if key[0] == "scaler_waiting_tasks"]
            assert [each for each in reasons if re.fullmatch(reason, each)], reasons


def status(url: str, path: str, method: str = "GET", **headers: str) -> tuple[int, str]:
    request = urllib.request.Request(url.removesuffix("/metrics") + path, headers=headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.status, response.read().decode(errors="replace")
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode(errors="replace")


def test_a_token_is_asked_for_and_may_be_replaced(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("sesame-1\n")
    token.chmod(0o600)
    with start_scheduler(free_address(), *ANY_PORT, "--prometheus-token-file", token) as scheduler:
        url = url_of(scheduler)
        wait_until(lambda: status(url, "/healthz")[0] == 200)  # it needs none
        for wrong in (
            {},
            {"Authorization": "Bearer sesame-2"},
            {"Authorization": "Bearer "},
            {"Authorization": "sesame-1"},
        ):
            assert status(url, "/metrics", **wrong) == (401, "Show the bearer token.\n")
        assert scrape(url, Authorization="Bearer sesame-1")["scaler_up",] == 1
        token.write_text("sesame-2\n")
        assert scrape(url, Authorization="Bearer sesame-2")["scaler_up",] == 1
        assert status(url, "/metrics", Authorization="Bearer sesame-1")[0] == 401
        token.chmod(0o644)
        assert status(url, "/metrics", Authorization="Bearer sesame-2")[0] == 401
        scheduler.wait_for_output("nothing for Prometheus: .*can be read by other users")
        token.unlink()
        assert status(url, "/metrics", Authorization="Bearer ")[0] == 401


@pytest.mark.parametrize(
    ("mode", "text", "said"),
    [(0o644, "x", "Run chmod 600"), (0o600, "", "missing or empty"), (None, "", "missing or empty")],
)
def test_a_token_file_that_cannot_serve_is_one_sentence(tmp_path: Path, mode: int | None, text: str, said: str) -> None:
    token = tmp_path / "token"
    if mode is not None:
        token.write_text(text)
        token.chmod(mode)
    done = run_command("scaler_scheduler", free_address(), *ANY_PORT, "--prometheus-token-file", token)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1) and said in done.stderr


def test_paths(tmp_path: Path) -> None:
    with start_scheduler(free_address(), *ANY_PORT) as scheduler:
        url = url_of(scheduler)
        for path in ("/", "/metricsx", "/metrics/", "/favicon.ico", "/../metrics", "/%6detrics"):
            assert status(url, path)[0] == 404, path
        assert status(url, "/metrics?x=1")[0] == 200
        assert status(url, "/metrics", "HEAD") == (200, "")
        assert status(url, "/metrics", "POST")[0] == 405
        wait_until(lambda: status(url, "/healthz") == (200, "ok\n"))
        scheduler.signal(signal.SIGSTOP)
        try:
            wait_until(lambda: status(url, "/healthz")[0] == 503)
            assert list(scrape(url)) == [("scaler_up",)]
        finally:
            scheduler.signal(signal.SIGCONT)
        wait_until(lambda: status(url, "/healthz")[0] == 200)


def test_a_compressed_answer_is_the_same() -> None:
    with start_scheduler(free_address(), *ANY_PORT) as scheduler:
        url = url_of(scheduler)
        request = urllib.request.Request(url, headers={"Accept-Encoding": "gzip"})
        with urllib.request.urlopen(request, timeout=60) as response:
            assert response.headers["Content-Encoding"] == "gzip"
            assert b"scaler_up" in gzip.decompress(response.read())


def test_connections_that_say_nothing_shut_nobody_out() -> None:
    with start_scheduler(free_address(), *ANY_PORT) as scheduler, contextlib.ExitStack() as stack:
        url = url_of(scheduler)
        address = (urlsplit(url).hostname, urlsplit(url).port)
        children = psutil.Process(scheduler.pid).children()
        (server,) = (child for child in children if "metrics" in " ".join(child.cmdline()))
        memory = server.memory_info().rss
        for number in range(20 * CONNECTIONS_LIMIT):
            connection = stack.enter_context(socket.create_connection(address, timeout=60))
            if number % 2:
                connection.sendall(b"GET /metrics HTTP/1.1\r\nX: ")
            if number % 100 == 0:
                assert scrape(url)
        assert scrape(url)
        assert server.num_fds() < CONNECTIONS_LIMIT + 40
        assert server.memory_info().rss - memory < 16 * 1024 * 1024
        wait_until(lambda: server.num_fds() < 40)  # they have had their time


@pytest.mark.parametrize(
    ("sent", "answered"),
    [
        (b"junk\r\n\r\n", b"HTTP/1.1 400 "),
        (b"GET metrics HTTP/1.1\r\n\r\n", b"HTTP/1.1 400 "),
        (b"\x16\x03\x01\x02\x00\xff\xff\r\n\r\n", b"HTTP/1.1 400 "),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * 20_000 + b"\r\n\r\n", b"HTTP/1.1 431 "),
        (b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 100_000, b"HTTP/1.1 431 "),
        (b"GET / HTTP/1.1\r\n", b""),
    ],
)
def test_what_is_no_request_is_refused(server: int, sent: bytes, answered: bytes) -> None:
    with socket.create_connection(("127.0.0.1", server), timeout=60) as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(sent)
        with contextlib.suppress(ConnectionError):
            assert connection.recv(13) == answered


@pytest.fixture(scope="module")
def server() -> Iterator[int]:
    with start_scheduler(free_address(), *ANY_PORT) as scheduler:
        port = urlsplit(url_of(scheduler)).port
        assert port is not None
        yield port


def test_a_killed_scheduler_takes_the_server_with_it() -> None:
    with start_scheduler(free_address(), *ANY_PORT) as scheduler:
        url = url_of(scheduler)
        children = psutil.Process(scheduler.pid).children()
        assert any("metrics" in " ".join(child.cmdline()) for child in children)
        scheduler.kill()
        wait_until(lambda: not any(alive(child.pid) for child in children))
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
