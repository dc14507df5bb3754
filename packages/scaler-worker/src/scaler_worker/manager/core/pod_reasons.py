"""Explain why Kubernetes does not run a pod: one sentence with its own words, and what to do."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from scaler_worker.manager.core.jobs import JobState
from scaler_worker.manager.core.manager import LONGEST_PAUSE_SECONDS
from scaler_worker.manager.core.pods import KEYS_MISSING, PodJob

_WAITS = (
    (r"^(ErrImagePull|ImagePullBackOff|ErrImageNeverPull|InvalidImageName|RegistryUnavailable)",
     "the image cannot be pulled. Give another --image, or an imagePullSecret in --pod-template."),
    (r"^Create\w*Error.*secret|^Create\w*Error.*configmap", "the Secret is missing. Give another --keys-secret."),
    (KEYS_MISSING, "the Secret is missing. Create it, or give another --keys-secret."),
    (r"^Failed(Mount|AttachVolume)", "a volume is missing. Create what it needs, or change --pod-template."),
    (r"^(CreateContainer|RunContainer)\w*Error|^CrashLoop",
     "the image does not start. Give another --image, which has scaler_cluster."),
    (r"Insufficient (cpu|memory)", "no node has room. Wait, or ask for less per pod: --workers-per-job, "
     "--cpus-per-worker, --memory-per-worker."),
    (r"taint|selector|affinity|Insufficient", "no node is suitable. Wait, or change --pod-template."),
    (r"SchedulingGated", "something holds them back. See: kubectl describe pod {pod}"),
)  # fmt: skip

_LIMITS = (
    "Change --cpus-per-worker, --memory-per-worker or --workers-per-job: kubectl describe limitrange -n {namespace}"
)
_FORBIDDEN = (
    (r"cannot \w+ resource", "Let the account do so: kubectl auth can-i {verb} -n {namespace}", True),
    (r"(exceeded|unknown for) quota",
     "Wait, ask for less per pod, or have the quota raised: kubectl describe quota -n {namespace}", False),
    (r"failed quota",
     "Set it with --memory-per-worker or, for the containers worker and keys, in --pod-template.", True),
    (r"usage per|to request ratio", _LIMITS, True),
    (r"error looking up service account",
     "Wait: a new namespace gets its accounts after a moment. Or correct --pod-template.", False),
    (r"is being terminated", "Give another --namespace, or wait until it is gone and create it again.", True),
    (r"", "Correct --image or --pod-template, or have the rule changed.", True),
)  # fmt: skip
"""The meanings of 403: an account without the right, or a rule of the cluster, which says so in words only."""


_UNVERIFIED = "does not support dry run"
"""The words of a server that asks another program about each request, one that cannot be asked without a real one."""


class PodRefusal(NamedTuple):
    """``is_final``: it will not pass. ``is_passing``: the request may be repeated at once."""

    sentence: str
    is_final: bool = False
    is_passing: bool = False


def explain_waiting_pods(jobs: Iterable[PodJob]) -> list[str]:
    """A sentence for each reason of pods that wait."""
    waiting: dict[str, list[PodJob]] = {}
    for job in jobs:
        if job.state is JobState.STARTING and job.reason:
            waiting.setdefault(re.sub(re.escape(job.id), "POD", job.reason), []).append(job)
    return [_explain(reason, found) for reason, found in sorted(waiting.items())]


def _explain(reason: str, jobs: list[PodJob]) -> str:
    workers = sum(job.workers for job in jobs)
    wait = "1 worker waits" if workers == 1 else f"{workers} workers wait"
    advice = next((text for pattern, text in _WAITS if re.search(pattern, reason)), "See: kubectl describe pod {pod}")
    return f"{wait} in Kubernetes for the reason {reason}: {advice.format(pod=jobs[0].id)}"


def explain_refusal_of_api(status: int | None, message: str, verb: str, namespace: str) -> PodRefusal:
    """Explain a refused request to the API server. ``status``: of HTTP; None: there was no answer. ``verb``: what was
    asked for, such as create pods."""
    said = " ".join(message.split()).rstrip(".") or "it gives no reason"
    begin = f"Kubernetes does not {verb} in the namespace {namespace}: {said}."
    if status is None:
        return PodRefusal(f"Cannot reach the API server of Kubernetes: {said}. Check with: kubectl get pods")
    if status == 401:
        return PodRefusal(f"{begin} Log in again, or give another --kube-config.", is_final=True)
    if status == 403:
        advice, is_final = next((advice, end) for pattern, advice, end in _FORBIDDEN if re.search(pattern, said))
        return PodRefusal(f"{begin} {advice.format(verb=verb, namespace=namespace)}", is_final)
    if status == 404:
        return PodRefusal(f"{begin} Give another --namespace.", is_final=True)
    if status == 422 and "less than or equal to" in said:
        return PodRefusal(f"{begin} {_LIMITS.format(namespace=namespace)}", is_final=True)
    if status == 400 and _UNVERIFIED in said:
        return PodRefusal(begin)
    if status in (400, 422):
        return PodRefusal(f"{begin} Correct --image, --keys-secret or --pod-template.", is_final=True)
    if status == 409:
        return PodRefusal(f"{begin} It will be tried again.", is_passing=True)
    if status == 429:
        return PodRefusal(f"{begin} It has more requests than it serves. Wait: they are repeated after a pause.")
    return PodRefusal(f"{begin} Wait, and check the API server.")


def pause_seconds(status: int | None, retry_after: str | None) -> float:
    """The pause that a server asks for with the header Retry-After, in seconds, within the longest pause of a manager.
    0: it asks for none, or for a time of day, or has refused the request for a reason of the request's own."""
    text = (retry_after or "").strip()
    if status is None or (status != 429 and status < 500) or not re.fullmatch(r"[0-9]{1,9}", text):
        return 0.0
    return min(float(text), LONGEST_PAUSE_SECONDS)
