"""Jobs as pods, without an API server: what is created, what a state means, and what a watch tells."""

from __future__ import annotations

import dataclasses
import re
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from scaler_protocol.command import BadInput, read_settings
from scaler_worker.manager.core.jobs import JobState
from scaler_worker.manager.core.pod_cache import PodCache
from scaler_worker.manager.core.pod_events import SilentPods
from scaler_worker.manager.core.pod_reasons import explain_refusal_of_api, explain_waiting_pods, pause_seconds
from scaler_worker.manager.core.pods import (
    PodJob,
    PodTerms,
    check_template,
    merge,
    new_pod,
    new_secret,
    read_pod,
    secret_name,
    selector,
)
from scaler_worker.manager.kubernetes_config import KubernetesSettings
from scaler_worker.manager.shell.kubernetes_api import KubernetesApi

SCHEDULER = "tcp://10.0.0.1:2345"
TERMS = PodTerms("night", SCHEDULER, "image:1", 10, 2, 1 << 30, "keys")
COMMAND = ["scaler_cluster", SCHEDULER, "--num-of-workers=4"]


def read(*words: str) -> KubernetesSettings:
    return read_settings(KubernetesSettings, ["kubernetes", *words], program="scaler_worker_manager", section="manager")


# ---- what is created -------------------------------------------------------------------------------------------------


def test_a_pod_reserves_its_share_and_may_do_nothing_else() -> None:
    pod = new_pod(TERMS, 4, COMMAND)
    (worker,) = pod["spec"]["containers"]
    assert worker["command"] == COMMAND and worker["image"] == "image:1"
    assert worker["resources"] == {"requests": {"cpu": "8", "memory": str(4 << 30)}, "limits": {"memory": str(4 << 30)}}
    assert pod["spec"]["terminationGracePeriodSeconds"] == 40 and pod["spec"]["restartPolicy"] == "Never"
    assert pod["spec"]["securityContext"]["runAsNonRoot"] and not pod["spec"]["automountServiceAccountToken"]
    for each in (worker, *pod["spec"]["initContainers"]):
        assert each["resources"] == worker["resources"]  # a quota refuses a container that reserves nothing
        assert each["securityContext"]["readOnlyRootFilesystem"]
        assert each["securityContext"]["capabilities"] == {"drop": ["ALL"]}


@pytest.mark.parametrize("version", ["1.30", "1.34", "1.37"])
def test_pods_and_secrets_are_valid_by_the_schemas_of_kubernetes(version: str) -> None:
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    template = {"spec": {"tolerations": [{"key": "gpu", "operator": "Exists"}]}}
    for terms in (TERMS, PodTerms("a", SCHEDULER, "i", 10), PodTerms("a", SCHEDULER, "i", 10, template=template)):
        kubernetes_validate.validate(new_pod(terms, 1, COMMAND), version, strict=True)
    kubernetes_validate.validate(new_secret(TERMS, "keys", {"work.key": "x"}), version, strict=True)


def test_a_template_adds_to_the_pods() -> None:
    template = {
        "metadata": {"annotations": {"team": "blue"}},
        "spec": {
            "containers": [{"name": "worker", "resources": {"limits": {"gpu": 1}}}, {"name": "other", "image": "o"}],
            "volumes": [{"name": "data", "emptyDir": {}}],
            "securityContext": {"runAsUser": 7},
        },
    }
    pod = new_pod(PodTerms("a", SCHEDULER, "i", 10, template=template), 1, COMMAND)
    worker, other = pod["spec"]["containers"]
    assert worker["command"] == COMMAND and worker["resources"]["limits"] == {"gpu": 1}
    assert other == {"name": "other", "image": "o"}
    assert "data" in [each["name"] for each in pod["spec"]["volumes"]]
    assert pod["spec"]["securityContext"]["runAsUser"] == 7 and pod["spec"]["securityContext"]["runAsNonRoot"]


def test_lists_of_named_things_are_merged_by_name() -> None:
    assert merge([{"name": "a", "x": 1}], [{"name": "a", "y": 2}]) == [{"name": "a", "x": 1, "y": 2}]
    assert merge([1], [2]) == [1, 2]
    assert merge([{"name": "a"}], [{"name": ["a"]}]) == [{"name": "a"}, {"name": ["a"]}]  # Kubernetes refuses it
    assert merge({"a": 1}, {"a": 2}) == {"a": 2}


def test_no_two_managers_share_a_secret() -> None:
    """Names in Kubernetes have no capitals and little punctuation; those of managers do."""
    names = ("gpu", "GPU", "a.b", "a_b", "a-b", "a" * 45, "A" * 45)
    managers = [dataclasses.replace(TERMS, name=name, address=at) for name in names for at in (SCHEDULER, "tcp://b:1")]
    secrets = {secret_name(each) for each in managers}
    assert len(secrets) == len(managers) == len({selector(each) for each in managers})
    assert all(re.fullmatch(r"scaler-[a-z0-9]([a-z0-9-]{0,70}[a-z0-9])?-keys", each) for each in secrets)
    assert secret_name(TERMS) == "scaler-night-1f4a755398-keys"  # the next manager of this name deletes it


def test_names_of_pods_are_not_cut() -> None:
    """Kubernetes adds five characters, and the result is the name of a host."""
    pod = new_pod(dataclasses.replace(TERMS, name="a" * 45), 1, COMMAND)
    assert len(pod["metadata"]["generateName"]) + 5 <= 63


@pytest.mark.parametrize("name", ["app.kubernetes.io/name", "app.kubernetes.io/component", "team"])
def test_pods_are_found_whatever_labels_a_template_adds(name: str) -> None:
    terms = dataclasses.replace(TERMS, template={"metadata": {"labels": {name: "other"}}})
    check_template(terms.template)
    labels = new_pod(terms, 1, COMMAND)["metadata"]["labels"]
    selected = dict(each.split("=") for each in selector(terms).split(","))
    assert labels[name] == "other" and selected.items() <= labels.items()
    assert selected.keys() == {"scaler.dev/manager", "scaler.dev/scheduler"}


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        ("text", "it is not a pod"),
        ({"metadata": "text"}, "it is not a pod"),
        ({"metadata": {"labels": ["x"]}}, "it is not a pod"),
        ({"spec": {"containers": 5}}, "it is not a pod"),
        ({"spec": {"containers": ["worker"]}}, "it is not a pod"),
        ({"metadata": {"labels": {1: "x"}}, "spec": {"restartPolicy": "Always"}}, "spec.restartPolicy is set"),
        ({"spec": {"restartPolicy": "Always"}}, "spec.restartPolicy is set by the manager itself"),
        ({"metadata": {"name": "x"}}, "metadata.name is set by the manager itself"),
        ({"metadata": {"labels": {"scaler.dev/manager": "x"}}}, "the label scaler.dev/manager is set by the manager"),
        ({"spec": {"containers": [{"name": "worker", "args": []}]}}, "args of the container worker is set by"),
    ],
)
def test_templates_that_are_refused(template: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        check_template(template)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ((SCHEDULER, "-n=1"), "without an image. Give --image"),
        ((SCHEDULER, "-n=1", "--image="), "without an image. Give --image"),
        (("tcp://127.0.0.1:1", "-n=1", "--image=i"), "pods cannot reach the scheduler at tcp://127.0.0.1:1"),
        ((SCHEDULER, "--image=i"), "give their number with --num-of-workers or --maximum-workers"),
        ((SCHEDULER, "--image=i", "-n=1", "--name=ends-with-"), "Cannot use the name ends-with- in Kubernetes"),
        ((SCHEDULER, "--image=i", "-wn=a,b"), "Leave out --worker-names"),
    ],
)
def test_settings_that_are_refused(words: tuple[str, ...], problem: str) -> None:
    with pytest.raises(BadInput, match=problem):
        settings = read(*words)
        settings.check()
        assert settings.own_name and settings.worker_count


# ---- what a state means ----------------------------------------------------------------------------------------------


def pod_of(phase: str, deleted: bool = False, **status: Any) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": "p", "labels": {"scaler.dev/workers": "4"}, "resourceVersion": "1"}
    if deleted:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return {"metadata": metadata, "status": {"phase": phase, **status}}


def ended(code: int, reason: str = "Error", message: str = "") -> dict[str, Any]:
    state = {"terminated": {"exitCode": code, "reason": reason, "message": message}}
    return {"containerStatuses": [{"name": "worker", "state": state}]}


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    return {"containerStatuses": [{"name": "worker", "state": {"waiting": {"reason": reason, "message": message}}}]}


@pytest.mark.parametrize(
    ("pod", "job"),
    [
        (pod_of("Running"), PodJob("p", 4, JobState.RUNNING)),
        (pod_of("Running", deleted=True), PodJob("p", 4, JobState.RUNNING, is_deleted=True)),
        (pod_of("Pending"), PodJob("p", 4)),
        (pod_of("Pending", **waiting("ContainerCreating")), PodJob("p", 4)),
        (pod_of("Pending", **waiting("ErrImagePull", "no  such.")), PodJob("p", 4, reason="ErrImagePull (no such)")),
        (pod_of("Succeeded"), PodJob("p", 4, JobState.DISMISSED)),
        (
            pod_of("Succeeded", deleted=True),
            PodJob("p", 4, JobState.FAILED, end="was deleted, or its node is drained", is_deleted=True),
        ),
        (pod_of("Failed", **ended(3)), PodJob("p", 4, JobState.FAILED, end="exited with code 3")),
        (
            pod_of("Failed", **ended(137, "OOMKilled")),
            PodJob("p", 4, JobState.FAILED, end="used more memory than it may. Give a larger --memory-per-worker"),
        ),
        (
            pod_of("Failed", **ended(128, "StartError", "not found")),
            PodJob(
                "p", 4, JobState.FAILED,
                end="could not start scaler_cluster in its image: not found. Give another --image",
            ),
        ),
        (
            pod_of("Failed", reason="Evicted", message="The node was low on memory."),
            PodJob(
                "p", 4, JobState.FAILED,
                end="was evicted from its node: The node was low on memory. Give a larger --memory-per-worker if it "
                "used too much memory",
            ),
        ),
        (pod_of("Failed", reason="NodeLost"), PodJob("p", 4, JobState.FAILED, end="lost its node")),
        (pod_of("Failed"), PodJob("p", 4, JobState.FAILED, end="failed: Kubernetes gives no reason")),
    ],
)  # fmt: skip
def test_what_the_state_of_a_pod_means(pod: Mapping[str, Any], job: PodJob) -> None:
    assert read_pod(pod) == job


def test_other_pods_are_no_jobs() -> None:
    assert read_pod({"metadata": {"name": "x"}}) is None


@pytest.mark.parametrize(
    ("reason", "advice"),
    [
        ("ImagePullBackOff (x)", "the image cannot be pulled. Give another --image"),
        ('CreateContainerConfigError (secret "k" not found)', "the Secret is missing. Give another --keys-secret"),
        ("RunContainerError (x)", "the image does not start."),
        ("Unschedulable (0/3 nodes are available: 3 Insufficient cpu)", "no node has room."),
        ("Unschedulable (0/3 nodes: 3 node(s) had untolerated taint)", "no node is suitable."),
        (
            'FailedMount (MountVolume.SetUp failed for volume "offered-keys" : secret "k" not found)',
            "the Secret is missing. Create it, or give another --keys-secret.",
        ),
        ('FailedMount (volume "data" : configmap "c" not found)', "a volume is missing. Create what it needs, or"),
        ("FailedAttachVolume (x)", "a volume is missing."),
        ("Other", "See: kubectl describe pod pod-1"),
    ],
)
def test_a_pod_that_waits_is_explained(reason: str, advice: str) -> None:
    (sentence,) = explain_waiting_pods([PodJob("pod-1", 4, reason=reason), PodJob("q", 1, JobState.RUNNING)])
    assert sentence.startswith(f"4 workers wait in Kubernetes for the reason {reason}: {advice}"), sentence


def event(reason: str, second: int, kind: str = "Warning", message: str = "", **times: Any) -> dict[str, Any]:
    at = {} if times else {"lastTimestamp": f"2026-01-01T00:00:{second:02}Z"}
    return {"type": kind, "reason": reason, "message": message, **at, **times}


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        ([], ""),
        ([event("FailedMount", 2, message="no."), event("Scheduled", 1, "Normal")], "FailedMount (no)"),
        ([event("FailedMount", 1), event("Scheduled", 1, "Normal")], "FailedMount"),
        ([event("FailedMount", 1), event("Pulling", 2, "Normal")], ""),
        ([event("FailedScheduling", 3), event("Scheduled", 2, "Normal")], ""),
        ([event("FailedCreatePodSandBox", 1, message=f"of {'0a' * 32}")], "FailedCreatePodSandBox (of ID)"),
        (
            [
                event("Old", 5),
                event("New", 0, eventTime="2026-01-01T00:00:06.123456Z", lastTimestamp=None),
                event("Series", 0, eventTime="2026-01-01T00:00:01.0Z", series={"lastObservedTime": "2026-01-02"}),
            ],
            "Series",
        ),
    ],
)
def test_the_last_event_tells_why_a_pod_is_silent(events: list[dict[str, Any]], reason: str) -> None:
    silent = SilentPods()
    silent.on_events("a", events)
    assert silent.explained(PodJob("a", 1)).reason == reason
    assert silent.explained(PodJob("a", 1, reason="Own")).reason == "Own"
    assert silent.next_to_ask([PodJob("a", 1, JobState.RUNNING)], 0) is None
    assert silent.explained(PodJob("a", 1)).reason == ""  # it has run, and would say something new


def test_events_are_asked_for_of_silent_pods_one_at_a_time() -> None:
    silent, asked = SilentPods(), []
    jobs = [PodJob("a", 1), PodJob("b", 1), PodJob("c", 1, JobState.RUNNING), PodJob("d", 1, reason="Unschedulable")]
    for now in range(18):
        asked.append(silent.next_to_ask(jobs, now))
    assert asked == [None] * 5 + ["a", "b"] + [None] * 8 + ["a", "b", None]


@pytest.mark.parametrize(
    ("status", "message", "sentence", "is_final"),
    [
        (None, "no route", "Cannot reach the API server of Kubernetes: no route. Check with", False),
        (401, "Unauthorized", "Kubernetes does not create pods in the namespace a: Unauthorized. Log in again", True),
        (
            403,
            "exceeded quota: q",
            "Kubernetes does not create pods in the namespace a: exceeded quota: q. Wait",
            False,
        ),
        (
            403,
            "User x cannot create resource pods",
            "Kubernetes does not create pods in the namespace a: User x cannot create resource pods. Let the account",
            True,
        ),
        (404, "no namespace", "Kubernetes does not create pods in the namespace a: no namespace. Give another", True),
        (422, "invalid", "Kubernetes does not create pods in the namespace a: invalid. Correct --image", True),
        (
            422,
            "requests: must be less than or equal to cpu limit",
            "Kubernetes does not create pods in the namespace a: requests: must be less than or equal to cpu limit. "
            "Change --cpus-per-worker",
            True,
        ),
        (
            429,
            "Too many requests",
            "Kubernetes does not create pods in the namespace a: Too many requests. It has more requests than it "
            "serves. Wait: they are repeated after a pause.",
            False,
        ),
        (400, 'admission webhook "x" does not support dry run', "Kubernetes does not create pods", False),
        (500, "", "Kubernetes does not create pods in the namespace a: it gives no reason. Wait", False),
    ],
)
def test_a_refusal_is_explained(status: int | None, message: str, sentence: str, is_final: bool) -> None:
    refusal = explain_refusal_of_api(status, message, "create pods", "a")
    assert refusal.sentence.startswith(sentence) and refusal.is_final is is_final, refusal


@pytest.mark.parametrize(
    ("status", "retry_after", "seconds"),
    [
        (429, "7", 7),
        (503, " 0 ", 0),
        (503, "86400", 60),
        (429, None, 0),
        (429, "-1", 0),
        (429, "Sat, 28 Nov 2026 08:00:00 GMT", 0),
        (429, "9" * 5000, 0),
        (409, "1", 0),  # of a name that is taken: another one is chosen at once
        (None, "1", 0),
    ],
)
def test_a_pause_that_the_server_asks_for(status: int | None, retry_after: str | None, seconds: float) -> None:
    assert pause_seconds(status, retry_after) == seconds


@pytest.mark.parametrize(
    ("message", "advice", "is_final"),
    [
        ('pods "x" is forbidden: status unknown for quota: q, resources: pods', "Wait, ask for less per pod", False),
        (
            'pods "x" is forbidden: failed quota: q: must specify limits.memory',
            "Set it with --memory-per-worker or",
            True,
        ),
        (
            'pods "x" is forbidden: maximum cpu usage per Container is 1, but request is 2',
            "Change --cpus-per-worker, --memory-per-worker or --workers-per-job: kubectl describe limitrange -n a",
            True,
        ),
        (
            'pods "x" is forbidden: error looking up service account a/default: serviceaccount "default" not found',
            "Wait: a new namespace gets its accounts after a moment.",
            False,
        ),
        (
            'pods "x" is forbidden: unable to create new content in namespace a because it is being terminated',
            "Give another --namespace",
            True,
        ),
        ('pods "x" is forbidden: violates PodSecurity "restricted:latest": host namespaces', "Correct --image", True),
    ],
)
def test_a_rule_that_refuses_pods_is_not_taken_for_a_missing_right(message: str, advice: str, is_final: bool) -> None:
    refusal = explain_refusal_of_api(403, message, "create pods", "a")
    assert f"{message}. {advice}" in refusal.sentence and refusal.is_final is is_final, refusal


# ---- the watch -------------------------------------------------------------------------------------------------------


def named(name: str, version: int = 1) -> dict[str, Any]:
    return {"metadata": {"name": name, "resourceVersion": str(version)}}


def listing(version: int, *names: str) -> dict[str, Any]:
    return {"metadata": {"resourceVersion": str(version)}, "items": [named(name) for name in names]}


def names_in(cache: PodCache) -> list[str]:
    return sorted(each["metadata"]["name"] for each in cache.pods)


def test_a_watch_goes_on_where_the_list_or_the_last_event_was() -> None:
    cache = PodCache()
    assert cache.version is None
    cache.on_listed(listing(7, "a"), 0)
    assert (cache.version, names_in(cache)) == ("7", ["a"])
    cache.on_event({"type": "ADDED", "object": named("b", 8)})
    cache.on_event({"type": "DELETED", "object": named("a", 9)})
    cache.on_event({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "20"}}})
    assert (cache.version, names_in(cache)) == ("20", ["b"])


def test_pods_are_listed_again_when_the_version_is_too_old() -> None:
    cache = PodCache()
    cache.on_listed(listing(7, "a"), 0)
    cache.on_event({"type": "ERROR", "object": {"code": 410}})
    assert (cache.version, names_in(cache)) == (None, ["a"])
    cache.on_listed(listing(30, "c"), 1)
    assert names_in(cache) == ["c"]


def test_a_created_pod_is_known_although_an_older_list_has_none() -> None:
    cache = PodCache()
    cache.on_created(named("new"), 5)
    cache.on_listed(listing(7, "a"), begun_at=4)
    assert names_in(cache) == ["a", "new"]
    cache.on_listed(listing(8, "a"), begun_at=6)
    assert names_in(cache) == ["a"]


def test_the_answer_to_a_creation_does_not_undo_what_the_watch_has_told() -> None:
    cache = PodCache()
    cache.on_listed(listing(7), 0)
    cache.on_event({"type": "ADDED", "object": named("new", 8)})
    cache.on_event({"type": "MODIFIED", "object": named("new", 9)})
    cache.on_created(named("new", 8), 5)
    assert [each["metadata"]["resourceVersion"] for each in cache.pods] == ["9"]


# ---- the configuration -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "", "a: [b\n\t: c", "[1, 2]", "'text'", "\0", "current-context: x\ncontexts: 5\n",
        "current-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}]\n"
        "clusters: [{name: c, cluster: {server: 7}}]\nusers: [{name: u, user: {}}]\n",
    ],
)  # fmt: skip
def test_a_wrong_kube_config_is_one_sentence(text: str, tmp_path: Path) -> None:
    pytest.importorskip("kubernetes")
    (tmp_path / "config").write_text(text)
    with pytest.raises(BadInput, match=r"configuration of Kubernetes: .*[^.]\. Correct the file, or give another"):
        KubernetesApi(str(tmp_path / "config"), None, None)


_WATCHES_AND_ENDS = """
import os, sys, time
from scaler_worker.manager.shell.kubernetes_api import KubernetesApi, PodWatch

class End:
    def __del__(self, open=open, os=os, time=time):
        \"\"\"Python has begun to end threads. Let the answer come, and wait until the thread has ended.\"\"\"
        os.write(1, b".")
        end = time.monotonic() + 20
        while len(os.listdir("/proc/self/task")) > 1 and time.monotonic() < end:
            time.sleep(0.01)

PodWatch(KubernetesApi(sys.argv[1], None, None), "")
sys.modules["end"] = End()
os.read(0, 1)
"""


def test_a_process_ends_while_it_waits_for_an_answer(tmp_path: Path) -> None:
    pytest.importorskip("kubernetes")
    with socket.create_server(("127.0.0.1", 0)) as server:
        config = tmp_path / "config"
        config.write_text(
            "current-context: c\ncontexts: [{name: c, context: {cluster: k, user: u}}]\nusers: [{name: u, user: {}}]\n"
            f"clusters: [{{name: k, cluster: {{server: 'http://127.0.0.1:{server.getsockname()[1]}'}}}}]\n"
        )
        words = [sys.executable, "-c", _WATCHES_AND_ENDS, str(config)]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdin is not None and process.stdout is not None
            connection, _ = server.accept()
            with connection:
                assert connection.recv(1 << 16).startswith(b"GET /api/v1/namespaces/default/pods")
                process.stdin.close()
                assert process.stdout.read(1) == b"."
            assert process.wait(40) == 0
