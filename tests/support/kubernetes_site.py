"""Stands in for the API server of Kubernetes, its scheduler and a kubelet: pods are processes of this machine.

No API server can be had from package registries. This one does what the real one does with pods and Secrets: versions
of resources, lists and watches that begin at a version, bookmarks, 410 Gone for versions that are too old, 409 for
conflicts, 403 for quotas and missing rights, validation against the schemas of the real one, and deletion with a grace
time. Its pods run their command without their image, with their variables and keys."""

from __future__ import annotations

import base64
import copy
import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.support.commands import REPOSITORY

VERSION = "1.34"
GOOD_IMAGE = "registry.example/scaler-worker:1"
BROKEN_IMAGE = "registry.example/broken:1"
MISSING_IMAGE = "registry.example/missing:1"


class ApiServer:
    """``kept``: how many events it remembers for watches. ``quota``: the most pods; None: no limit. ``forbidden``:
    verbs that the account may not use. ``may_create``: creations of pods wait for it. ``conflicts``: how many next
    creations meet a conflict. ``nodes``: how many there are; without one, pods wait. ``token``: the only one that is
    accepted. ``busy``: how many next requests are too many; ``retry_after_seconds``: the pause that it asks for then.
    ``requests``: how many there were. Pods whose image is missing or broken wait or fail."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kept = 1000
        self.quota: int | None = None
        self.forbidden: set[str] = set()
        self.may_create = threading.Event()
        self.may_create.set()
        self.held = 0  # creations that wait, or have waited
        self.conflicts = 0
        self.nodes = 1
        self.token = "token-of-ann"
        self.busy = 0
        self.retry_after_seconds = 1
        self.requests = 0
        self.lists = 0
        self.asked_for_events = 0
        self._condition = threading.Condition()
        self._objects: dict[tuple[str, str], dict[str, Any]] = {}
        self._events: list[tuple[int, str, str, dict[str, Any]]] = []
        self._version = 100
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._warnings: dict[str, dict[str, Any]] = {}  # an event of a pod
        self._epoch = 0  # watches of an earlier one are cut
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self._kubelet = threading.Thread(target=self._run_pods, daemon=True)
        self._stopped = threading.Event()
        self._kubelet.start()

    # ---- what tests see and do ---------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def kube_config(self, namespace: str = "science") -> Path:
        path = self.folder / "config"
        path.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "k", "cluster": {"server": self.url}}],
            "users": [{"name": "ann", "user": {"token": self.token}}],
            "contexts": [{"name": "c", "context": {"cluster": "k", "user": "ann", "namespace": namespace}}],
        }))  # fmt: skip
        return path

    def pods(self) -> dict[str, str]:
        """The phase of each pod that exists."""
        with self._condition:
            return {name: pod["status"]["phase"] for (kind, name), pod in self._objects.items() if kind == "pods"}

    def pod(self, name: str) -> dict[str, Any]:
        with self._condition:
            return copy.deepcopy(self._objects["pods", name])

    def secrets(self) -> list[str]:
        with self._condition:
            return [name for kind, name in self._objects if kind == "secrets"]

    def cut_watches(self, forget: bool = False) -> None:
        """End all watches. ``forget``: and all events, so that no watch can begin where it ended."""
        with self._condition:
            self._epoch += 1
            if forget:
                self._version += 10
                self._events.clear()
            self._condition.notify_all()

    def evict(self, name: str) -> None:
        """As when a node is drained."""
        self.delete("pods", name, None)

    def kill(self, name: str) -> None:
        self._processes[name].kill()

    def close(self) -> None:
        self._stopped.set()
        self.may_create.set()
        self._kubelet.join()
        self._server.shutdown()
        self._server.server_close()
        for process in self._processes.values():
            if process.poll() is None:
                process.kill()
                process.wait()

    # ---- objects -----------------------------------------------------------------------------------------------------

    def create(self, kind: str, body: dict[str, Any], dry_run: bool = False) -> tuple[int, dict[str, Any]]:
        """``dry_run``: only tell whether it would be created."""
        refusal = self._refusal(kind, "create") or _invalid(kind, body)
        if refusal is not None:
            return refusal
        if kind == "pods" and not self.may_create.is_set():
            self.held += 1
            self.may_create.wait()
        with self._condition:
            if kind == "pods" and self.conflicts > 0:
                self.conflicts -= 1
                return _status(409, "Conflict", 'Operation cannot be fulfilled on resourcequotas "q": the object has '
                               "been modified; please apply your changes to the latest version")  # fmt: skip
            count = sum(each == "pods" for each, _ in self._objects)
            if kind == "pods" and self.quota is not None and count >= self.quota:
                return _status(403, "Forbidden", f'pods "x" is forbidden: exceeded quota: q, requested: pods=1, used: '
                               f"pods={count}, limited: pods={self.quota}")  # fmt: skip
            metadata = body["metadata"]
            name = metadata.setdefault("name", metadata.get("generateName", "") + secrets.token_hex(3)[:5])
            if (kind, name) in self._objects:
                return _status(409, "AlreadyExists", f'{kind} "{name}" already exists')
            if dry_run:
                return 201, body
            metadata["uid"] = secrets.token_hex(8)
            if kind == "pods":
                body["status"] = {"phase": "Pending"}
            if kind == "secrets":
                body["data"] = {n: base64.b64encode(t.encode()).decode() for n, t in body.pop("stringData", {}).items()}
            self._store(kind, name, body, "ADDED")
            return 201, copy.deepcopy(body)

    def replace(self, kind: str, name: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        with self._condition:
            body["data"] = {n: base64.b64encode(t.encode()).decode() for n, t in body.pop("stringData", {}).items()}
            self._store(kind, name, body, "MODIFIED")
            return 200, body

    def delete(self, kind: str, name: str, grace_seconds: int | None) -> tuple[int, dict[str, Any]]:
        refusal = self._refusal(kind, "delete")
        if refusal is not None:
            return refusal
        with self._condition:
            found = self._objects.get((kind, name))
            if found is None:
                return _status(404, "NotFound", f'{kind} "{name}" not found')
            process = self._processes.get(name)
            if kind != "pods" or process is None or grace_seconds == 0 or found["status"]["phase"] not in _ALIVE:
                self._remove(kind, name)
            elif "deletionTimestamp" not in found["metadata"]:
                grace = found["spec"]["terminationGracePeriodSeconds"] if grace_seconds is None else grace_seconds
                found["metadata"] |= {"deletionTimestamp": _now(), "deletionGracePeriodSeconds": grace}
                self._store(kind, name, found, "MODIFIED")
                process.send_signal(signal.SIGTERM)
                threading.Timer(grace, process.kill).start() if grace < 5 else None
            return 200, copy.deepcopy(found)

    def list(self, kind: str, selector: str) -> tuple[int, dict[str, Any]]:
        refusal = self._refusal(kind, "list")
        if refusal is not None:
            return refusal
        with self._condition:
            self.lists += 1
            items = [
                copy.deepcopy(each) for (k, _), each in self._objects.items() if k == kind and _selected(each, selector)
            ]
            return 200, {
                "kind": "PodList",
                "apiVersion": "v1",
                "metadata": {"resourceVersion": str(self._version)},
                "items": items,
            }

    def events(self, selector: str) -> tuple[int, dict[str, Any]]:
        """Those of the pod that the selector names."""
        self.asked_for_events += 1
        name = selector.removeprefix("involvedObject.kind=Pod,involvedObject.name=")
        found = [self._warnings[name]] if name in self._warnings else []
        return self._refusal("events", "list") or (200, {"kind": "EventList", "apiVersion": "v1", "items": found})

    def watch(self, kind: str, selector: str, version: int, seconds: float) -> Iterator[dict[str, Any]]:
        """Events after the version. An ERROR with 410 if they are not remembered any more."""
        deadline, epoch = time.monotonic() + seconds, self._epoch
        while time.monotonic() < deadline:
            with self._condition:
                if epoch != self._epoch:
                    return
                oldest = self._events[0][0] if self._events else self._version + 1
                if version + 1 < oldest:
                    _, status = _status(410, "Expired", f"too old resource version: {version} ({self._version})")
                    yield {"type": "ERROR", "object": status}
                    return
                news = [each for each in self._events if each[0] > version]
                if not news:
                    self._condition.wait(0.5)
                    continue
            for number, each_kind, event, item in news:
                version = number
                if each_kind == kind and _selected(item, selector):
                    yield {"type": event, "object": item}
            metadata = {"resourceVersion": str(version)}
            yield {"type": "BOOKMARK", "object": {"kind": "Pod", "apiVersion": "v1", "metadata": metadata}}

    def log(self, name: str) -> bytes:
        path = self.folder / f"{name}.log"
        return path.read_bytes().splitlines()[-1] + b"\n" if path.exists() and path.read_bytes() else b""

    def _refusal(self, kind: str, verb: str) -> tuple[int, dict[str, Any]] | None:
        if f"{verb} {kind}" in self.forbidden:
            return _status(403, "Forbidden", f'{kind} is forbidden: User "ann" cannot {verb} resource "{kind}" in API '
                           'group "" in the namespace "science"')  # fmt: skip
        return None

    def _store(self, kind: str, name: str, item: dict[str, Any], event: str) -> None:
        self._version += 1
        item["metadata"]["resourceVersion"] = str(self._version)
        self._objects[kind, name] = item
        self._events.append((self._version, kind, event, copy.deepcopy(item)))
        del self._events[: -self.kept]
        self._condition.notify_all()

    def _remove(self, kind: str, name: str) -> None:
        item = self._objects[kind, name]
        self._store(kind, name, item, "DELETED")
        del self._objects[kind, name]
        process = self._processes.get(name)
        if process is not None and process.poll() is None:
            process.kill()

    # ---- the kubelet -------------------------------------------------------------------------------------------------

    def _run_pods(self) -> None:
        while not self._stopped.wait(0.05):
            with self._condition:
                for (kind, name), item in tuple(self._objects.items()):
                    if kind == "pods":
                        self._look_at(name, item)

    def _look_at(self, name: str, pod: dict[str, Any]) -> None:
        process, phase = self._processes.get(name), pod["status"]["phase"]
        if process is None and phase == "Pending":
            self._begin(name, pod)
        elif process is not None and phase == "Running" and process.poll() is not None:
            self._finish(name, pod, process.returncode)

    def _begin(self, name: str, pod: dict[str, Any]) -> None:
        status = self._waiting(pod)
        if status is not None:
            if pod["status"] != status:
                pod["status"] = status
                self._store("pods", name, pod, "MODIFIED")
            return
        name_of_secret = secret_of(pod)
        secret = {} if name_of_secret is None else self._objects.get(("secrets", name_of_secret))
        if secret is None:
            self._warnings[name] = missing_secret(name, str(name_of_secret))
            if pod["status"] != SCHEDULED:
                pod["status"] = copy.deepcopy(SCHEDULED)
                self._store("pods", name, pod, "MODIFIED")
            return  # as a kubelet does, which tries again
        self._processes[name] = start_pod(self.folder, pod, secret.get("data", {}))
        pod["status"] = copy.deepcopy(RUNNING)
        self._store("pods", name, pod, "MODIFIED")

    def _waiting(self, pod: dict[str, Any]) -> dict[str, Any] | None:
        """The status of a pod that cannot begin."""
        return image_status(pod) if self.nodes else {"phase": "Pending", "conditions": [UNSCHEDULABLE]}

    def _finish(self, name: str, pod: dict[str, Any], code: int) -> None:
        pod["status"] = ended_status(code)
        self._store("pods", name, pod, "MODIFIED")
        if "deletionTimestamp" in pod["metadata"]:
            self._remove("pods", name)


# ---- what a kubelet does ---------------------------------------------------------------------------------------------

RUNNING: dict[str, Any] = {
    "phase": "Running",
    "containerStatuses": [{"name": "worker", "state": {"running": {}}}],
}
SCHEDULED: dict[str, Any] = {
    "phase": "Pending",
    "conditions": [{"type": "PodScheduled", "status": "True"}],
    "containerStatuses": [{"name": "worker", "state": {"waiting": {"reason": "ContainerCreating"}}}],
}
UNSCHEDULABLE = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "0/3 nodes are available: 3 Insufficient cpu.",
}


def secret_of(pod: dict[str, Any]) -> str | None:
    """The Secret whose keys the pod needs."""
    found = [each for each in pod["spec"]["volumes"] if each["name"] == "offered-keys"]
    return str(found[0]["secret"]["secretName"]) if found else None


def missing_secret(pod: str, secret: str) -> dict[str, Any]:
    """The event of a pod whose keys are missing."""
    return {
        "metadata": {"name": f"{pod}.mount"},
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "namespace": "scaler", "name": pod},
        "type": "Warning",
        "reason": "FailedMount",
        "message": f'MountVolume.SetUp failed for volume "offered-keys" : secret "{secret}" not found',
        "lastTimestamp": _now(),
    }


def start_pod(folder: Path, pod: dict[str, Any], keys: dict[str, str]) -> subprocess.Popen[bytes]:
    """The pod's command as a process. ``keys``: the data of its Secret."""
    container, name = pod["spec"]["containers"][0], pod["metadata"]["name"]
    variables = {each["name"]: each["value"] for each in container["env"]}
    home = folder / name
    home.mkdir()
    variables |= {"HOME": str(home), "SCALER_HOME": str(home), "PYTHONPATH": str(REPOSITORY)}
    if "SCALER_KEYS" in variables:
        variables["SCALER_KEYS"] = str(_mount_keys(pod, home, keys))
    command = list(container["command"])
    program = shutil.which(command[0], path=str(Path(sys.executable).parent)) or command[0]
    with open(folder / f"{name}.log", "wb") as log:
        return subprocess.Popen(
            [program, *command[1:]], env={**variables, "PATH": os.environ["PATH"]}, stdout=log, stderr=log,
            stdin=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip


def _mount_keys(pod: dict[str, Any], home: Path, keys: dict[str, str]) -> Path:
    """What the init container of the pod does with the Secret."""
    assert pod["spec"]["initContainers"][0]["command"][:2] == ["sh", "-c"]
    folder = home / "keys"
    folder.mkdir(mode=0o700)
    for name, data in keys.items():
        (folder / name).write_bytes(base64.b64decode(data))
        (folder / name).chmod(0o600)
    return folder


def image_status(pod: dict[str, Any]) -> dict[str, Any] | None:
    """The status of a pod whose image is missing or broken."""
    image = pod["spec"]["containers"][0]["image"]
    waiting = None
    if image == MISSING_IMAGE:
        waiting = {"reason": "ImagePullBackOff", "message": f'Back-off pulling image "{image}"'}
    elif " " in image:
        waiting = {"reason": "InvalidImageName", "message": f'couldn\'t parse image reference "{image}"'}
    if waiting is not None:
        return {"phase": "Pending", "containerStatuses": [{"name": "worker", "state": {"waiting": waiting}}]}
    if image == BROKEN_IMAGE:
        ended = {"exitCode": 128, "reason": "StartError", "message": 'exec: "scaler_cluster": not found in $PATH'}
        return {"phase": "Failed", "containerStatuses": [{"name": "worker", "state": {"terminated": ended}}]}
    return None


def ended_status(code: int) -> dict[str, Any]:
    code = code if code >= 0 else 128 - code
    ended = {"exitCode": code, "reason": "Completed" if code == 0 else "Error"}
    return {
        "phase": "Failed" if code else "Succeeded",
        "containerStatuses": [{"name": "worker", "state": {"terminated": ended}}],
    }


# ---- the protocol ----------------------------------------------------------------------------------------------------

_ALIVE = ("Pending", "Running")


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _status(code: int, reason: str, message: str) -> tuple[int, dict[str, Any]]:
    return code, {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message, "reason": reason,
        "code": code,
    }  # fmt: skip


def _invalid(kind: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]] | None:
    import kubernetes_validate

    try:
        kubernetes_validate.validate(body, VERSION, strict=True)
    except kubernetes_validate.ValidationError as error:
        return _status(422, "Invalid", f"{kind} is invalid: {error.message}")
    if kind == "pods" and (image := body["spec"]["containers"][0]["image"]) != image.strip():
        return _status(422, "Invalid", f'Pod "x" is invalid: spec.containers[0].image: Invalid value: "{image}": must '
                       "not have leading or trailing whitespace")  # fmt: skip
    return None


def _selected(item: dict[str, Any], selector: str) -> bool:
    given = item["metadata"].get("labels") or {}
    return all(
        given.get(name) == value for name, _, value in (each.partition("=") for each in selector.split(",")) if name
    )


def _handler(server: ApiServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *arguments: object) -> None:
            pass

        def do_GET(self) -> None:
            self._serve(self._get)

        def do_POST(self) -> None:
            self._serve(lambda kind, name: server.create(kind, self._body(), self._query.get("dryRun") == "All"))

        def do_PUT(self) -> None:
            self._serve(lambda kind, name: server.replace(kind, name, self._body()))

        def do_DELETE(self) -> None:
            grace = self._query.get("gracePeriodSeconds") or self._body().get("gracePeriodSeconds")
            self._serve(lambda kind, name: server.delete(kind, name, None if grace is None else int(grace)))

        @property
        def _query(self) -> dict[str, str]:
            return {name: values[-1] for name, values in parse_qs(urlsplit(self.path).query).items()}

        def _body(self) -> dict[str, Any]:
            data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            return json.loads(data) if data else {}

        def _serve(self, answer: Callable[[str, str], tuple[int, dict[str, Any]] | None]) -> None:
            found = re.fullmatch(
                r"/api/v1/namespaces/([^/]+)/(pods|secrets|events)(?:/([^/]+))?(/log)?", urlsplit(self.path).path
            )
            server.requests += 1
            if server.busy > 0:
                server.busy -= 1
                self._answer(*_status(429, "TooManyRequests", "Too many requests, please try again later."))
            elif self.headers.get("Authorization") != f"Bearer {server.token}":
                self._answer(*_status(401, "Unauthorized", "Unauthorized"))
            elif found is None or found[1] != "science":
                self._answer(*_status(404, "NotFound", f'namespaces "{found[1] if found else ""}" not found'))
            elif found[4]:
                self._send(200, server.log(found[3]), "text/plain")
            elif (result := answer(found[2], found[3] or "")) is not None:
                self._answer(*result)

        def _get(self, kind: str, name: str) -> tuple[int, dict[str, Any]] | None:
            if kind == "events":
                return server.events(self._query["fieldSelector"])
            if self._query.get("watch") not in ("true", "True"):
                return server.list(kind, self._query.get("labelSelector", ""))
            if (refusal := server._refusal(kind, "watch")) is not None:
                return refusal
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            version, seconds = int(self._query["resourceVersion"]), float(self._query.get("timeoutSeconds", "60"))
            try:
                for event in server.watch(kind, self._query.get("labelSelector", ""), version, seconds):
                    data = json.dumps(event).encode() + b"\n"
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
                self.wfile.write(b"0\r\n\r\n")
            except OSError:
                pass
            return None

        def _answer(self, code: int, body: dict[str, Any]) -> None:
            self._send(code, json.dumps(body).encode(), "application/json")

        def _send(self, code: int, data: bytes, kind: str) -> None:
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            if code == 429:
                self.send_header("Retry-After", str(server.retry_after_seconds))
            self.end_headers()
            self.wfile.write(data)

    return Handler


@contextmanager
def api_server(folder: Path) -> Iterator[ApiServer]:
    """Skips the test where there is no client of Kubernetes."""
    pytest.importorskip("kubernetes")
    pytest.importorskip("kubernetes_validate")
    folder.mkdir()
    server = ApiServer(folder)
    try:
        yield server
    finally:
        server.close()
