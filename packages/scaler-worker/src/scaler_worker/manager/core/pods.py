"""Jobs as pods of Kubernetes: what is created, and what the state of a pod means."""

from __future__ import annotations

import hashlib
import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scaler_worker.manager.core.batch_script import SIGNAL_MARGIN_SECONDS
from scaler_worker.manager.core.jobs import JobState
from scaler_worker.termination_notice import STOPPED_CODE

LABEL = "scaler.dev"
CONTAINER = "worker"
KEYS_FOLDER = "/run/scaler/keys"
HOME_FOLDER = "/run/scaler/home"

KEYS_MISSING = r'^FailedMount.*"offered-keys".*not found'
"""A pattern of the reason why a pod waits for the Secret with its keys."""

_OFFERED_FOLDER = "/run/secrets/scaler"
_USER = 10_001
_DIGEST_LENGTH = 10
_WRITABLE = {"temporary": "/tmp", "spilled": "/var/tmp", "home": HOME_FOLDER}

_COPY_KEYS = f"umask 077 && cp {_OFFERED_FOLDER}/* {KEYS_FOLDER}/ && chmod 600 {KEYS_FOLDER}/*"
"""Scaler reads keys that belong to its own user only; the files of a Secret belong to root."""


@dataclass(frozen=True, slots=True)
class PodTerms:
    """The terms on which pods are created. ``keys_secret``: the Secret with the files of the keys. ``template``: a
    pod, whose values are added to those of the manager's."""

    name: str
    address: str
    image: str
    grace_seconds: float
    cpus_per_worker: int = 1
    memory_per_worker: int | None = None
    keys_secret: str | None = None
    template: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PodJob:
    """A pod. ``reason``: why it does not run, in the words of Kubernetes. ``end``: how it ended, as the end of a
    sentence. ``is_deleted``: Kubernetes has been asked to end it."""

    id: str
    workers: int
    state: JobState = JobState.STARTING
    reason: str = ""
    end: str = ""
    is_deleted: bool = False

    @property
    def is_live(self) -> bool:
        return self.state in (JobState.STARTING, JobState.RUNNING)


# ---- what is created -------------------------------------------------------------------------------------------------


def labels(terms: PodTerms) -> dict[str, str]:
    """Return the labels of everything that belongs to this manager and this scheduler."""
    return {
        "app.kubernetes.io/name": "scaler",
        "app.kubernetes.io/component": "worker",
        f"{LABEL}/manager": terms.name,
        f"{LABEL}/scheduler": f"{zlib.crc32(terms.address.encode()):08x}",
    }


def selector(terms: PodTerms) -> str:
    """Select by the labels that a template cannot change: all pods must be found, or they would be left."""
    return ",".join(f"{name}={value}" for name, value in labels(terms).items() if name.startswith(f"{LABEL}/"))


def new_pod(terms: PodTerms, workers: int, command: Sequence[str]) -> dict[str, Any]:
    """A pod with this many workers, which run the command."""
    volumes = [{"name": name, "emptyDir": {}} for name in _WRITABLE]
    volumes.append({"name": "memory", "emptyDir": {"medium": "Memory"}})
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": math.ceil(terms.grace_seconds + SIGNAL_MARGIN_SECONDS),
        "automountServiceAccountToken": False,
        "securityContext": {
            "runAsNonRoot": True, "runAsUser": _USER, "runAsGroup": _USER, "fsGroup": _USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumes": volumes,
        "containers": [_worker_container(terms, workers, command)],
    }  # fmt: skip
    if terms.keys_secret is not None:
        spec["volumes"] += [
            {"name": "offered-keys", "secret": {"secretName": terms.keys_secret, "defaultMode": 0o440}},
            {"name": "keys", "emptyDir": {"medium": "Memory"}},
        ]
        spec["initContainers"] = [_keys_container(terms, workers)]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": f"{_prefix(terms)}-",
            "labels": {**labels(terms), f"{LABEL}/workers": str(workers)},
        },
        "spec": spec,
    }
    merged = merge(pod, terms.template)
    assert isinstance(merged, dict)
    return merged


def _worker_container(terms: PodTerms, workers: int, command: Sequence[str]) -> dict[str, Any]:
    variables = {"HOME": HOME_FOLDER, "SCALER_HOME": HOME_FOLDER}
    mounts: list[dict[str, Any]] = [
        {"name": name, "mountPath": path} for name, path in {**_WRITABLE, "memory": "/dev/shm"}.items()
    ]
    if terms.keys_secret is not None:
        variables["SCALER_KEYS"] = KEYS_FOLDER
        mounts.append({"name": "keys", "mountPath": KEYS_FOLDER, "readOnly": True})
    return {
        "name": CONTAINER,
        "image": terms.image,
        "command": list(command),
        "env": [{"name": name, "value": value} for name, value in variables.items()],
        "resources": _resources(terms, workers),
        "securityContext": _confined(),
        "volumeMounts": mounts,
    }


def _resources(terms: PodTerms, workers: int) -> dict[str, Any]:
    requests = {"cpu": str(workers * terms.cpus_per_worker)}
    if terms.memory_per_worker is None:
        return {"requests": requests}
    memory = {"memory": str(workers * terms.memory_per_worker)}
    return {"requests": {**requests, **memory}, "limits": memory}


def _keys_container(terms: PodTerms, workers: int) -> dict[str, Any]:
    """It ends before the workers begin, so that what it reserves costs nothing. Where there is a quota, Kubernetes
    refuses pods with a container that reserves nothing."""
    return {
        "name": "keys",
        "image": terms.image,
        "command": ["sh", "-c", _COPY_KEYS],
        "resources": _resources(terms, workers),
        "securityContext": _confined(),
        "volumeMounts": [
            {"name": "offered-keys", "mountPath": _OFFERED_FOLDER, "readOnly": True},
            {"name": "keys", "mountPath": KEYS_FOLDER},
        ],
    }


def _confined() -> dict[str, Any]:
    return {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def _prefix(terms: PodTerms) -> str:
    """Names in Kubernetes consist of small letters, digits and hyphens."""
    return f"scaler-{terms.name.lower().replace('_', '-').replace('.', '-')}"


def secret_name(terms: PodTerms) -> str:
    """The name of the Secret with the manager's own keys. Its digest tells managers apart whose names differ in case or
    punctuation only, or which serve different schedulers. It replaces a comparison of labels, for which a manager would
    need the right to read Secrets."""
    identity = hashlib.sha256(f"{terms.name}\n{terms.address}".encode()).hexdigest()
    return f"{_prefix(terms)}-{identity[:_DIGEST_LENGTH]}-keys"


def new_secret(terms: PodTerms, name: str, files: Mapping[str, str]) -> dict[str, Any]:
    """Return a Secret with the files of keys."""
    metadata = {"name": name, "labels": labels(terms)}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "stringData": dict(files)}


def merge(value: Any, other: Any) -> Any:
    """Both together: maps by their names, lists of named things by these names, and other lists one after the other.
    Where both have a value, the second one holds."""
    if isinstance(value, dict) and isinstance(other, Mapping):
        return {**value, **{name: merge(value[name], each) if name in value else each for name, each in other.items()}}
    if isinstance(value, list) and isinstance(other, list):
        return _merge_lists(value, other)
    return other


def _merge_lists(value: list[Any], other: list[Any]) -> list[Any]:
    if not all(isinstance(each, dict) and isinstance(each.get("name"), str) for each in (*value, *other)):
        return [*value, *other]
    named = {each["name"]: each for each in value}
    for each in other:
        named[each["name"]] = merge(named.get(each["name"], {}), each)
    return list(named.values())


def check_template(template: Any) -> None:
    """Raises ValueError, with a sentence, when a pod cannot be made with this template."""
    if not _has_form(template):
        raise ValueError("it is not a pod. Write what shall be added to the pods, such as spec: {nodeSelector: ...}.")
    spec, metadata = template.get("spec", {}), template.get("metadata") or {}
    workers = [each for each in spec.get("containers") or () if each.get("name") == CONTAINER]
    set_by_manager = [
        *(f"spec.{name}" for name in ("restartPolicy", "terminationGracePeriodSeconds") if name in spec),
        *(f"metadata.{name}" for name in ("name", "generateName", "namespace") if name in metadata),
        *(f"the label {name}" for name in metadata.get("labels") or () if str(name).startswith(f"{LABEL}/")),
        *(
            f"{name} of the container worker"
            for each in workers
            for name in ("command", "args", "image")
            if name in each
        ),
    ]
    if set_by_manager:
        raise ValueError(f"{set_by_manager[0]} is set by the manager itself. Leave it out.")


def _has_form(template: Any) -> bool:
    """The parts of the template that the manager reads have the types of those of a pod."""
    if not isinstance(template, dict) or not isinstance(template.get("spec", {}), dict):
        return False
    metadata, containers = template.get("metadata") or {}, template.get("spec", {}).get("containers") or []
    if not isinstance(metadata, dict) or not isinstance(metadata.get("labels") or {}, dict):
        return False
    return isinstance(containers, list) and all(isinstance(each, dict) for each in containers)


# ---- what the state of a pod means -----------------------------------------------------------------------------------

_ENDS = {
    "Evicted": "was evicted from its node: {message}. Give a larger --memory-per-worker if it used too much memory",
    "Preempting": "was preempted by another pod",
    "DeadlineExceeded": "reached its deadline",
    "NodeLost": "lost its node",
    "NodeShutdown": "lost its node, which was shut down",
    "Terminated": "lost its node, which was shut down",
    "OutOfcpu": "found no CPUs on its node",
    "OutOfmemory": "found no memory on its node",
}
"""The reasons with which Kubernetes ends pods, and what they mean."""


def read_pod(pod: Mapping[str, Any]) -> PodJob | None:
    """None: it is not the job of a manager."""
    metadata, status = pod.get("metadata", {}), pod.get("status") or {}
    workers = (metadata.get("labels") or {}).get(f"{LABEL}/workers", "")
    if not workers.isdigit():
        return None
    is_deleted = metadata.get("deletionTimestamp") is not None
    state, reason, end = _state(status, is_deleted)
    return PodJob(metadata["name"], int(workers), state, reason, end, is_deleted)


def _state(status: Mapping[str, Any], is_deleted: bool) -> tuple[JobState, str, str]:
    phase = status.get("phase", "Pending")
    if phase == "Succeeded":
        if is_deleted:
            return JobState.FAILED, "", "was deleted, or its node is drained"
        return JobState.DISMISSED, "", ""
    if phase == "Failed":
        return JobState.FAILED, "", _end(status)
    if phase == "Running":
        return JobState.RUNNING, "", ""
    return JobState.STARTING, _wait(status), ""


def _end(status: Mapping[str, Any]) -> str:
    reason = str(status.get("reason") or "")
    if reason in _ENDS:
        return _ENDS[reason].format(message=str(status.get("message") or "").strip().rstrip("."))
    for each in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        ended = (each.get("state") or {}).get("terminated")
        if ended and ended.get("exitCode") != 0:
            return _exit(ended)
    return f"failed: {reason or 'Kubernetes gives no reason'}"


def _exit(ended: Mapping[str, Any]) -> str:
    code = ended.get("exitCode")
    if ended.get("reason") == "OOMKilled":
        return "used more memory than it may. Give a larger --memory-per-worker"
    if code == STOPPED_CODE:
        return "was ended by Kubernetes, or with its machine"
    if ended.get("reason") in ("ContainerCannotRun", "StartError") or code in (126, 127, 128):
        said = str(ended.get("message") or "").strip().rstrip(".")
        return f"could not start scaler_cluster in its image{': ' + said if said else ''}. Give another --image"
    return f"exited with code {code}"


def _wait(status: Mapping[str, Any]) -> str:
    """Return why the first container waits, or why no node was found; empty while a pod only takes its time."""
    for each in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        waiting = (each.get("state") or {}).get("waiting")
        if waiting and waiting.get("reason") not in (None, "ContainerCreating", "PodInitializing"):
            return reason_words(waiting["reason"], waiting.get("message"))
    for each in status.get("conditions") or ():
        if each.get("type") == "PodScheduled" and each.get("status") == "False":
            return reason_words(each.get("reason") or "Unschedulable", each.get("message"))
    return ""


def reason_words(reason: str, message: Any) -> str:
    """Return a reason of Kubernetes with its message, in one line."""
    text = " ".join(str(message or "").split()).rstrip(".")
    return f"{reason} ({text})" if text else reason
