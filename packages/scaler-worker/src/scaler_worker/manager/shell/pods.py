"""The kind ``kubernetes``: jobs are pods, which outlive their manager."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scaler_protocol.command import BadInput, settings_arguments
from scaler_worker.config import ClusterSettings
from scaler_worker.manager.backend import ListError, StartError
from scaler_worker.manager.core.jobs import Job, JobState
from scaler_worker.manager.core.pod_events import SilentPods
from scaler_worker.manager.core.pod_reasons import explain_waiting_pods
from scaler_worker.manager.core.pods import (
    CONTAINER,
    PodJob,
    PodTerms,
    check_template,
    new_pod,
    new_secret,
    read_pod,
    secret_name,
    selector,
)
from scaler_worker.manager.kubernetes_config import KubernetesSettings
from scaler_worker.manager.shell.kubernetes_api import ApiRefusal, KubernetesApi, PodWatch
from scaler_worker.manager.shell.ssh_keys import keys_for_workers

_REPEAT_SECONDS = 5.0


class PodBackend:
    """Pods are found by their labels, which name their manager and its scheduler. Those that have ended are deleted,
    and the ends of those that this manager has seen alive are reported."""

    def __init__(self, settings: KubernetesSettings) -> None:
        settings.check()
        assert settings.image is not None
        self._settings = settings
        self._terms = PodTerms(
            settings.own_name, settings.address, settings.image, settings.grace_seconds, settings.cpus_per_worker,
            settings.memory_per_worker, settings.keys_secret, _template(settings.pod_template),
        )  # fmt: skip
        self._api = KubernetesApi(settings.kube_config, settings.kube_context, settings.namespace)
        self._offers_keys = settings.keys_secret is None and bool(keys_for_workers(settings.address))
        if settings.scales and not settings.minimum_workers:
            self._verify()
        self._watch = PodWatch(self._api, selector(self._terms))
        self._silent = SilentPods()
        self._alive: dict[str, PodJob] = {}
        self._stopping: dict[str, float] = {}  # when each is told again
        self._accepted = False

    def _verify(self) -> None:
        """Ask whether the API server will accept the pods, long before tasks need them: the user may wait for these
        tasks, and get no answer. Raises BadInput."""
        terms, workers = self._terms, min(self._settings.most_per_job, self._settings.maximum_workers or 1)
        try:
            if self._offers_keys:
                terms = dataclasses.replace(terms, keys_secret=secret_name(terms))
                self._api.verify_secret(new_secret(terms, secret_name(terms), keys_for_workers(terms.address)))
            self._api.verify_pod(
                new_pod(terms, workers, self._command(workers, self._settings.per_worker_capabilities))
            )
        except ApiRefusal as error:
            if error.refusal.is_final:
                raise BadInput(error.refusal.sentence) from None

    # ---- start -------------------------------------------------------------------------------------------------------

    def start(self, n: int, capabilities: Sequence[str]) -> Sequence[Job]:
        jobs: list[Job] = []
        try:
            self._offer_keys()
            while n > 0:
                workers = min(n, self._settings.most_per_job)
                jobs.append(self._create(workers, capabilities))
                n -= workers
        except ApiRefusal as error:
            if not jobs:
                self._refuse(error)
        return jobs

    def _create(self, workers: int, capabilities: Sequence[str]) -> Job:
        pod = self._api.create_pod(new_pod(self._terms, workers, self._command(workers, capabilities)))
        self._watch.on_created(pod)
        self._accepted = True
        name = pod["metadata"]["name"]
        self._alive[name] = PodJob(name, workers)
        return Job(name, workers)

    def _refuse(self, error: ApiRefusal) -> None:
        if error.refusal.is_final and not self._accepted and not self._alive:
            raise BadInput(error.refusal.sentence)
        raise StartError(error.refusal.sentence, error.wait_seconds)

    def _offer_keys(self) -> None:
        """Create or replace the Secret with the keys of this process. It may have been deleted since, as with its
        namespace. Raises ApiRefusal, and StartError when the files of the keys have changed and cannot be used."""
        if self._offers_keys:
            name = secret_name(self._terms)
            try:
                files = keys_for_workers(self._settings.address)
            except BadInput as error:
                raise StartError(str(error)) from None
            self._api.put_secret(new_secret(self._terms, name, files))
            self._terms = dataclasses.replace(self._terms, keys_secret=name)

    def _command(self, workers: int, capabilities: Sequence[str]) -> list[str]:
        names = [each.name for each in dataclasses.fields(ClusterSettings)]
        values = {name: getattr(self._settings, name) for name in names}
        values |= {"num_of_workers": workers, "per_worker_capabilities": tuple(capabilities)}
        return ["scaler_cluster", *settings_arguments(ClusterSettings, values)]

    # ---- stop --------------------------------------------------------------------------------------------------------

    def stop(self, ids: Sequence[str]) -> None:
        """Kubernetes gives a pod its grace time, and then kills it."""
        for id in ids:
            self._delete(id)

    def _delete(self, id: str) -> None:
        self._stopping[id] = time.monotonic() + _REPEAT_SECONDS
        try:
            self._api.delete_pod(id)
        except ApiRefusal:
            pass  # told again

    def close(self) -> None:
        """Delete the Secret, also one that an earlier manager of this name has left: it was killed."""
        if self._offers_keys:
            try:
                self._delete_secret()
            except ApiRefusal:
                pass  # the next manager of this name replaces it

    def _delete_secret(self) -> None:
        """After the pause that the API server asks for, if it does."""
        name = secret_name(self._terms)
        try:
            self._api.delete_secret(name)
        except ApiRefusal as error:
            time.sleep(error.wait_seconds)
            self._api.delete_secret(name)

    # ---- list --------------------------------------------------------------------------------------------------------

    def list(self) -> Sequence[Job]:
        pods, trouble = self._watch.pods()
        if trouble:
            raise ListError(trouble)
        found = {job.id: job for job in map(read_pod, pods) if job is not None}
        live = {id: job for id, job in found.items() if job.is_live}
        ends = [
            self._end(found.get(id) or _vanished(job)) for id, job in self._alive.items() if self._has_ended(id, live)
        ]
        self._alive = live
        self._remove([id for id in found if id not in live])
        self._stopping = {id: at for id, at in self._stopping.items() if id in live}
        self._tell_again(live)
        self._ask_for_events()
        return [*(Job(job.id, job.workers, job.state) for job in live.values()), *ends]

    def why_not(self) -> Sequence[str]:
        return explain_waiting_pods(self._silent.explained(job) for job in self._alive.values() if self._is_wanted(job))

    def _ask_for_events(self) -> None:
        wanted = [job for job in self._alive.values() if self._is_wanted(job)]
        id = self._silent.next_to_ask(wanted, time.monotonic())
        if id is not None:
            try:
                self._silent.on_events(id, self._api.list_events(id))
                if self._silent.lacks_keys(id):
                    self._offer_keys()
            except (ApiRefusal, StartError):
                pass  # asked again; an account may have no right to list events

    def _is_wanted(self, job: PodJob) -> bool:
        return job.id not in self._stopping

    def _has_ended(self, id: str, live: dict[str, PodJob]) -> bool:
        return id not in live and id not in self._stopping

    def _end(self, job: PodJob) -> Job:
        """Add what the pod has written last, which says more than its exit code."""
        end = job.end
        if job.state is JobState.FAILED and end.startswith("exited"):
            said = self._api.last_line(job.id, CONTAINER)
            end = f"{end}, saying: {said.rstrip('.')}" if said else end
        return Job(job.id, job.workers, job.state, end)

    def _remove(self, ids: Sequence[str]) -> None:
        """Pods that have ended stay until they are deleted."""
        for id in ids:
            try:
                self._api.delete_pod(id, 0)
            except ApiRefusal:
                pass  # listed again

    def _tell_again(self, live: dict[str, PodJob]) -> None:
        now = time.monotonic()
        for id, at in tuple(self._stopping.items()):
            if at <= now and not live[id].is_deleted:
                self._delete(id)


def _vanished(job: PodJob) -> PodJob:
    return dataclasses.replace(job, state=JobState.FAILED, end="was deleted, or its node was removed")


def _template(path: str | None) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        import yaml
    except ImportError:
        raise BadInput(
            "Cannot read --pod-template: PyYAML is not installed. Run: pip install 'scaler-worker[kubernetes]'"
        ) from None
    try:
        found = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
        check_template(found)
    except (OSError, ValueError, yaml.YAMLError) as error:
        text = error.strerror if isinstance(error, OSError) else " ".join(str(error).split())
        raise BadInput(f"Cannot use the --pod-template {path}: {text}") from None
    assert isinstance(found, dict)
    return found
