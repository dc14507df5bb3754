"""``scaler_worker_manager kubernetes`` and deploy/kubernetes with a real API server, where there is one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from scaler import Client
from scaler_worker.manager.core.pods import PodTerms, new_pod
from scaler_worker.manager.shell.kubernetes_api import ApiRefusal, KubernetesApi
from tests.support.commands import REPOSITORY, Command, child_environment, command_line, start_scheduler
from tests.support.kubernetes_server import NAMESPACE, KubernetesServer, kubernetes_server
from tests.support.kubernetes_site import GOOD_IMAGE
from tests.support.ports import free_port
from tests.support.slurm_site import network_address
from tests.support.waiting import wait_until

MANIFESTS = REPOSITORY / "deploy" / "kubernetes"
ACCOUNT = f"system:serviceaccount:{NAMESPACE}:scaler-manager"
PLACES = {
    "Namespace": "/api/v1/namespaces",
    "Service": f"/api/v1/namespaces/{NAMESPACE}/services",
    "ServiceAccount": f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts",
    "Deployment": f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments",
    "NetworkPolicy": f"/apis/networking.k8s.io/v1/namespaces/{NAMESPACE}/networkpolicies",
    "Role": f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/roles",
    "RoleBinding": f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/rolebindings",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesServer]:
    """With the manifests of deploy/kubernetes."""
    with kubernetes_server(tmp_path_factory.mktemp("kubernetes") / "server") as found:
        for body in manifests():
            if body["kind"] == "RoleBinding":  # kustomize adds it
                body["subjects"][0]["namespace"] = NAMESPACE
            if body["kind"] != "Namespace":
                found.request("POST", PLACES[body["kind"]], body)
        yield found


@pytest.fixture(scope="module")
def limited_namespace(server: KubernetesServer) -> str:
    limits = {"type": "Container", "max": {"cpu": "2"}, "min": {"memory": "4Mi"}}
    server.request("POST", PLACES["Namespace"], {"metadata": {"name": "limited"}})
    path = "/api/v1/namespaces/limited/limitranges"
    server.request("POST", path, {"metadata": {"name": "limits"}, "spec": {"limits": [limits]}})
    return "limited"


def manifests() -> list[dict[str, Any]]:
    return [body for path in sorted(MANIFESTS.glob("[!k]*.yaml")) for body in yaml.safe_load_all(path.read_text())]


def api_of(server: KubernetesServer) -> KubernetesApi:
    return KubernetesApi(str(server.kube_config()), None, None)


def terms(**changed: Any) -> PodTerms:
    return PodTerms(
        **{"name": "night", "address": "tcp://10.0.0.1:1", "image": GOOD_IMAGE, "grace_seconds": 1} | changed
    )


def test_a_manager_works_with_exactly_the_rights_of_its_manifest(server: KubernetesServer, keys: Path) -> None:
    """Its Secret is missing, its pods crash and are evicted, and the server restarts."""
    path = f"{PLACES['ServiceAccount']}/scaler-manager/token"
    token = server.request("POST", path, {"spec": {}})["status"]["token"]
    address, kubelet = f"tcp://{network_address()}:{free_port()}", server.kubelet
    words = ("kubernetes", address, f"--image={GOOD_IMAGE}", "-n=1", f"--kube-config={server.kube_config(token)}")
    line = command_line("scaler_worker_manager", *words, "--keys-secret=scaler-worker-keys")
    with (
        start_scheduler(address, "--protected=False"),
        Command(line, child_environment()) as command,
        Client(address) as client,
    ):
        command.wait_for_output(r"FailedMount .*the Secret is missing")
        server.put_secret("scaler-worker-keys", keys)
        assert client.submit(abs, -1).result() == 1
        (pod,) = kubelet.pods()
        kubelet.kill(pod)
        command.wait_for_output(rf"Job {pod} exited with code 137")
        assert client.submit(abs, -2).result() == 2
        (pod,) = kubelet.pods()
        kubelet.evict(pod)
        command.wait_for_output(rf"Job {pod} was deleted, or its node")
        assert client.submit(abs, -3).result() == 3
        server.restart()
        (pod,) = kubelet.pods()
        kubelet.kill(pod)
        command.wait_for_output(rf"Job {pod} exited with code 137")
        assert client.submit(abs, -4).result() == 4
        assert command.terminate() == 0
    (rules,) = [each["rules"] for each in manifests() if each["kind"] == "Role"]
    given = {(verb, resource) for rule in rules for resource in rule["resources"] for verb in rule["verbs"]}
    assert server.requests_of(ACCOUNT) == given
    wait_until(lambda: not kubelet.pods())


@pytest.mark.parametrize(
    ("changed", "advice"),
    [
        ({"image": " image"}, "must not have leading or trailing whitespace.*Correct --image"),
        ({"template": {"spec": {"tolerations": "x"}}}, "tolerations.*Correct --image, --keys-secret or --pod-template"),
        ({"template": {"spec": {"priorityClassName": "x"}}}, "no PriorityClass.*Correct --image or --pod-template"),
        ({"cpus_per_worker": 4}, "less than or equal to cpu limit.*kubectl describe limitrange -n limited"),
        ({"memory_per_worker": 1}, "minimum memory usage per Container.*kubectl describe limitrange -n limited"),
    ],
)
def test_what_the_server_refuses_is_explained(
    server: KubernetesServer, limited_namespace: str, changed: dict[str, Any], advice: str
) -> None:
    """The server notices the limits of a namespace after a moment."""
    api = KubernetesApi(str(server.kube_config()), None, limited_namespace)
    with pytest.raises(ApiRefusal, match=advice) as refused:
        wait_until(lambda: not api.create_pod(new_pod(terms(**changed), 1, ["true"])))
    assert refused.value.refusal.is_final


def test_a_watch_from_a_version_that_is_forgotten_ends_with_410(server: KubernetesServer) -> None:
    version = api_of(server).list_pods("")["metadata"]["resourceVersion"]
    path = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
    later = server.request("POST", path, {"metadata": {"name": "changed"}})["metadata"]["resourceVersion"]
    server.forget(later)
    events = list(api_of(server).watch_pods("", version))
    assert [(each["type"], each["object"]["code"]) for each in events] == [("ERROR", 410)]
