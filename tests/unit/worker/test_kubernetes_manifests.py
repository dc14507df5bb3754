"""The manifests of ``deploy/kubernetes``: valid by the schemas of Kubernetes, confined, with options that exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from scaler_protocol.command import read_settings
from scaler_scheduler.config import SchedulerSettings
from scaler_worker.config import ClusterSettings
from scaler_worker.manager.kubernetes_config import KubernetesSettings

kubernetes_validate = pytest.importorskip("kubernetes_validate")
yaml = pytest.importorskip("yaml")

FOLDER = Path(__file__).resolve().parents[3] / "deploy" / "kubernetes"
FILES = sorted(path.name for path in FOLDER.glob("*.yaml") if path.name != "kustomization.yaml")
VERSIONS = ("1.30", "1.34", "1.37")


def manifests(*names: str) -> list[dict[str, Any]]:
    return [each for name in names for each in yaml.safe_load_all((FOLDER / name).read_text())]


def pod_specs() -> list[dict[str, Any]]:
    return [each["spec"]["template"]["spec"] for each in manifests(*FILES) if each["kind"] == "Deployment"]


def containers() -> dict[str, dict[str, Any]]:
    return {each["name"]: each for spec in pod_specs() for each in spec["containers"]}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", FILES)
def test_manifests_are_valid(name: str, version: str) -> None:
    for each in manifests(name):
        kubernetes_validate.validate(each, version, strict=True)


def test_every_manifest_is_applied_except_the_fixed_workers() -> None:
    (all_of_it,) = manifests("kustomization.yaml")
    assert sorted([*all_of_it["resources"], "workers.yaml"]) == FILES


def test_pods_satisfy_the_standard_restricted() -> None:
    for spec in pod_specs():
        assert spec["securityContext"]["runAsNonRoot"]
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for each in (*spec["initContainers"], *spec["containers"]):
            context = each["securityContext"]
            assert context["readOnlyRootFilesystem"] and not context["allowPrivilegeEscalation"]
            assert context["capabilities"] == {"drop": ["ALL"]}
            assert each["resources"]["limits"]["memory"] and each["resources"]["requests"]["cpu"]


def test_only_the_manager_has_an_account() -> None:
    (with_account,) = [spec for spec in pod_specs() if spec.get("automountServiceAccountToken") is not False]
    assert with_account["serviceAccountName"] == "scaler-manager"


def test_what_is_mounted_is_a_volume() -> None:
    for spec in pod_specs():
        volumes = {each["name"] for each in spec["volumes"]}
        mounted = {
            mount["name"] for each in (*spec["initContainers"], *spec["containers"]) for mount in each["volumeMounts"]
        }
        assert mounted == volumes


def test_the_options_exist() -> None:
    found = containers()
    manager = found["manager"]["args"]
    settings = read_settings(KubernetesSettings, manager, program="scaler_worker_manager", section="manager")
    settings.check()
    assert settings.scales and settings.own_name == "cluster" and settings.keys_secret == "scaler-worker-keys"
    for name, program, kind in (
        ("scheduler", "scaler_scheduler", SchedulerSettings),
        ("worker", "scaler_cluster", ClusterSettings),
    ):
        section = program.removeprefix("scaler_")
        read_settings(kind, found[name]["args"], program=program, section=section)


def test_policies_select_every_pod() -> None:
    policies = [each["spec"]["podSelector"]["matchLabels"] for each in manifests("network-policy.yaml")]
    for each in manifests(*FILES):
        if each["kind"] == "Deployment":
            assert each["spec"]["template"]["metadata"]["labels"] in policies


def test_every_image_is_a_target_of_the_container_file() -> None:
    text = (FOLDER.parent / "containers" / "Containerfile").read_text()
    targets = set(re.findall(r"^FROM role AS (\w+)$", text, re.MULTILINE))
    used = {re.sub(r"^.*scaler-|:.*$", "", each["image"]) for each in containers().values()}
    assert used == targets
