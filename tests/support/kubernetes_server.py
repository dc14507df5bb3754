"""A real API server of Kubernetes with its etcd, and a kubelet whose pods are processes of this machine.

The environment variables SCALER_TEST_KUBE_APISERVER and SCALER_TEST_ETCD name the programs; tests/README.md says
where to get them. A test that needs them is skipped otherwise."""

from __future__ import annotations

import json
import os
import signal
import ssl
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.kubernetes_site import RUNNING, ended_status, image_status, missing_secret, secret_of, start_pod
from tests.support.ports import free_port
from tests.support.waiting import wait_until

NAMESPACE = "scaler"
_ADMIN, _READY_SECONDS = "token-of-admin", 120.0
_POLICY = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n"


class KubernetesServer:
    """Has one namespace. Its accounts have the rights that tests give them, except the administrator."""

    def __init__(self, folder: Path, etcd: str, api_server: str) -> None:
        self.folder = folder
        self._etcd_port, self._port = free_port(), free_port()
        self._programs: dict[str, subprocess.Popen[bytes]] = {}
        self._api_server = api_server
        self._start_etcd(etcd)
        self._write_files()
        self.start()
        self.request("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        self.kubelet = Kubelet(self)

    def restart(self) -> None:
        """Watches are cut, and the server forgets events. It would wait for the end of watches if it were asked to
        end."""
        process = self._programs.pop("kube-apiserver")
        process.kill()
        process.wait()
        self.start()

    def start(self) -> None:
        self._run("kube-apiserver", [
            self._api_server, f"--etcd-servers=http://127.0.0.1:{self._etcd_port}", "--bind-address=127.0.0.1",
            f"--secure-port={self._port}", f"--cert-dir={self.folder}", f"--token-auth-file={self.folder}/tokens.csv",
            "--authorization-mode=RBAC", f"--service-account-key-file={self.folder}/account.key",
            f"--service-account-signing-key-file={self.folder}/account.key",
            "--service-account-issuer=https://kubernetes.example", "--service-cluster-ip-range=10.9.0.0/24",
            "--disable-admission-plugins=ServiceAccount", f"--audit-policy-file={self.folder}/policy",
            f"--audit-log-path={self.folder}/audit",
        ])  # fmt: skip
        wait_until(self._is_ready, _READY_SECONDS)

    def request(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> dict[str, Any]:
        """As the administrator. Raises urllib.error.HTTPError."""
        headers = {"Authorization": f"Bearer {_ADMIN}", "Content-Type": kind}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"https://127.0.0.1:{self._port}{path}", data, headers, method=method)
        trusting = ssl._create_unverified_context()
        with urllib.request.urlopen(request, context=trusting, timeout=30) as answer:
            found = json.loads(answer.read() or b"{}")
            assert isinstance(found, dict)
            return found

    def kube_config(self, token: str = _ADMIN) -> Path:
        path = self.folder / f"config-{token[-8:]}"
        cluster = {
            "server": f"https://127.0.0.1:{self._port}",
            "certificate-authority": f"{self.folder}/apiserver.crt",
        }
        context = {"cluster": "k", "user": "u", "namespace": NAMESPACE}
        path.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "k", "cluster": cluster}], "users": [{"name": "u", "user": {"token": token}}],
            "contexts": [{"name": "c", "context": context}],
        }))  # fmt: skip
        return path

    def put_secret(self, name: str, folder: Path) -> None:
        """With the files of the folder."""
        files = {each.name: each.read_text() for each in folder.iterdir()}
        path = f"/api/v1/namespaces/{NAMESPACE}/secrets"
        self.request("POST", path, {"metadata": {"name": name}, "stringData": files})

    def forget(self, version: str) -> None:
        """No watch can begin before this version."""
        url = f"http://127.0.0.1:{self._etcd_port}/v3/kv/compaction"
        urllib.request.urlopen(url, json.dumps({"revision": version}).encode(), timeout=30).close()
        self.restart()

    def requests_of(self, user: str) -> set[tuple[str, str]]:
        """The verbs and resources of the requests that this account has made."""
        events = [json.loads(line) for line in (self.folder / "audit").read_text().splitlines()]
        found = [each["objectRef"] | {"verb": each["verb"]} for each in events if each["user"]["username"] == user]
        return {(each["verb"], "/".join(filter(None, [each["resource"], each.get("subresource")]))) for each in found}

    def close(self) -> None:
        self.kubelet.close()
        for process in self._programs.values():
            process.kill()
            process.wait()

    # ---- the programs ------------------------------------------------------------------------------------------------

    def _start_etcd(self, program: str) -> None:
        clients, peers = f"http://127.0.0.1:{self._etcd_port}", f"http://127.0.0.1:{free_port()}"
        self._run("etcd", [
            program, f"--data-dir={self.folder}/etcd", f"--listen-client-urls={clients}",
            f"--advertise-client-urls={clients}", f"--listen-peer-urls={peers}",
            f"--initial-advertise-peer-urls={peers}", f"--initial-cluster=default={peers}",
        ])  # fmt: skip

    def _write_files(self) -> None:
        from cryptography.hazmat.primitives.asymmetric import rsa
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

        key = rsa.generate_private_key(65537, 2048)
        text = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
        (self.folder / "account.key").write_bytes(text)
        (self.folder / "tokens.csv").write_text(f"{_ADMIN},admin,1,system:masters\n")
        (self.folder / "policy").write_text(_POLICY)

    def _run(self, name: str, command: list[str]) -> None:
        with open(self.folder / f"{name}.log", "ab") as log:
            self._programs[name] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def _is_ready(self) -> bool:
        log = self.folder / "kube-apiserver.log"
        assert self._programs["kube-apiserver"].poll() is None, log.read_text()[-2000:]
        try:
            self.request("GET", "/api/v1/namespaces/default")
        except OSError:
            return False
        return True


class Kubelet:
    """Binds pods to a node, runs their commands, and tells their states, as the scheduler and the kubelet do."""

    def __init__(self, server: KubernetesServer) -> None:
        self._server = server
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._told: set[str] = set()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def pods(self) -> dict[str, str]:
        """The phase of each pod that workers run in."""
        return {each["metadata"]["name"]: each["status"]["phase"] for each in self._pods()}

    def kill(self, name: str) -> None:
        self._processes[name].kill()

    def evict(self, name: str) -> None:
        """As when its node is drained: a deletion with the pod's grace time."""
        self._server.request("DELETE", f"/api/v1/namespaces/{NAMESPACE}/pods/{name}")

    def close(self) -> None:
        self._stopped.set()
        self._thread.join()
        for process in self._processes.values():
            process.kill()
            process.wait()

    def _pods(self) -> list[dict[str, Any]]:
        path = f"/api/v1/namespaces/{NAMESPACE}/pods?labelSelector=app.kubernetes.io/component%3Dworker"
        found = self._server.request("GET", path)["items"]
        assert isinstance(found, list)
        return found

    def _run(self) -> None:
        while not self._stopped.wait(0.1):
            try:
                for pod in self._pods():
                    self._look_at(pod)
            except OSError:
                pass  # the server restarts, or has changed the pod meanwhile

    def _look_at(self, pod: dict[str, Any]) -> None:
        process = self._processes.get(pod["metadata"]["name"])
        if pod["metadata"].get("deletionTimestamp"):
            self._end(pod, process)
        elif process is None and pod["status"]["phase"] == "Pending":
            self._begin(pod)
        elif process is not None and process.poll() is not None and pod["status"]["phase"] == "Running":
            self._tell(pod, ended_status(process.returncode))

    def _begin(self, pod: dict[str, Any]) -> None:
        name = pod["metadata"]["name"]
        if "nodeName" not in pod["spec"]:
            body = {"metadata": {"name": name}, "target": {"kind": "Node", "name": "node"}}
            self._server.request("POST", f"{_path(pod)}/binding", body)
        elif (status := image_status(pod)) is not None:
            self._tell(pod, status)
        else:
            self._processes[name] = start_pod(self._server.folder, pod, self._keys(name, secret_of(pod)))
            self._tell(pod, RUNNING)

    def _keys(self, pod: str, secret: str | None) -> dict[str, str]:
        """The data of the Secret. Raises OSError, after an event of the pod, if there is none."""
        if secret is None:
            return {}
        try:
            found = self._server.request("GET", f"/api/v1/namespaces/{NAMESPACE}/secrets/{secret}")["data"]
        except urllib.error.HTTPError:
            self._server.request("POST", f"/api/v1/namespaces/{NAMESPACE}/events", missing_secret(pod, secret))
            raise
        assert isinstance(found, dict)
        return found

    def _end(self, pod: dict[str, Any], process: subprocess.Popen[bytes] | None) -> None:
        """It is told once to end, and has as long as its manager has said."""
        name = pod["metadata"]["name"]
        if process is None or process.poll() is not None:
            self._server.request("DELETE", f"{_path(pod)}?gracePeriodSeconds=0")
        elif name not in self._told:
            self._told.add(name)
            process.send_signal(signal.SIGTERM)

    def _tell(self, pod: dict[str, Any], status: dict[str, Any]) -> None:
        if pod["status"].get("containerStatuses") and pod["status"]["phase"] == status["phase"]:
            return
        facts = {"image": "i", "imageID": "", "ready": False, "restartCount": 0}
        body = {"status": status | {"containerStatuses": [each | facts for each in status["containerStatuses"]]}}
        self._server.request("PATCH", f"{_path(pod)}/status", body, "application/strategic-merge-patch+json")


def _path(pod: dict[str, Any]) -> str:
    return f"/api/v1/namespaces/{NAMESPACE}/pods/{pod['metadata']['name']}"


@contextmanager
def kubernetes_server(folder: Path) -> Iterator[KubernetesServer]:
    """Skips the test where the programs are not named."""
    pytest.importorskip("kubernetes")
    etcd, api_server = (os.environ.get(f"SCALER_TEST_{name}") for name in ("ETCD", "KUBE_APISERVER"))
    if not etcd or not api_server:
        pytest.skip("SCALER_TEST_ETCD and SCALER_TEST_KUBE_APISERVER name no programs")
    folder.mkdir()
    server = KubernetesServer(folder, etcd, api_server)
    try:
        yield server
    finally:
        server.close()
