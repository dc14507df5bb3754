"""``scaler_worker_manager kubernetes``: a stand-in for the API server, real processes in its pods."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from scaler import Client, KubernetesCluster
from scaler_worker.manager.shell import kubernetes_api
from scaler_worker.manager.shell.kubernetes_api import ApiRefusal, KubernetesApi
from tests.cluster.conftest import Gate
from tests.support.commands import Command, child_environment, command_line, run_command, start_scheduler
from tests.support.functions import wait_at_gate
from tests.support.kubernetes_site import BROKEN_IMAGE, GOOD_IMAGE, MISSING_IMAGE, ApiServer, api_server
from tests.support.manager_scenarios import end_with_the_program, load_until
from tests.support.ports import free_port
from tests.support.slurm_site import network_address
from tests.support.waiting import wait_until


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiServer]:
    """No test leaves a pod or a Secret."""
    with api_server(tmp_path / "site") as server:
        monkeypatch.setenv("KUBECONFIG", str(server.kube_config()))
        yield server
        left = server.pods(), server.secrets()
    assert left == ({}, [])


@pytest.fixture
def address(site: ApiServer, keys: Path) -> Iterator[str]:
    found = f"tcp://{network_address()}:{free_port()}"
    with start_scheduler(found, "--protected=False"):
        yield found


def manager(address: str, *flags: object, image: str = GOOD_IMAGE, **environment: str) -> Command:
    words = ("scaler_worker_manager", "kubernetes", address, f"--image={image}", *flags)
    return Command(command_line(*words), child_environment(**environment))


def test_tasks_run_in_pods_and_keys_are_in_a_secret(site: ApiServer, address: str, keys: Path) -> None:
    flags = (
        "-n=3",
        "--workers-per-job=2",
        "--per-worker-capabilities=blue",
        "--memory-per-worker=1GiB",
        "--name=Night",
    )
    with manager(address, *flags) as command, Client(address) as client:
        assert client.submit_verbose(pow, (2, 5), {}, capabilities={"blue": 1}).result() == 32
        wait_until(lambda: list(site.pods().values()) == ["Running"] * 2)
        (name,) = site.secrets()
        assert re.fullmatch("scaler-night-[0-9a-f]{10}-keys", name)
        secret = (keys / "work.key").read_text().strip()
        assert not any(secret in str(site.pod(name)) for name in site.pods())
        assert command.terminate() == 0


def test_running_tasks_finish_when_the_manager_is_stopped(site: ApiServer, address: str, gate: Gate) -> None:
    with manager(address, "-n=1", "--grace-seconds=60") as command, Client(address) as client:
        task = client.submit(wait_at_gate, *gate.paths, "done")
        wait_until(lambda: gate.waiting_pids)
        command.signal(signal.SIGTERM)
        gate.open()
        assert task.result() == "done"
        assert command.wait() == 0


def test_pods_and_the_secret_of_a_cluster_are_deleted_when_its_program_is_killed(site: ApiServer, address: str) -> None:
    pods = SimpleNamespace(jobs=site.pods)
    end_with_the_program("KubernetesCluster", address, pods, options={"image": GOOD_IMAGE})


@pytest.mark.parametrize("forget", [False, True])
def test_a_watch_that_is_cut_goes_on(site: ApiServer, address: str, forget: bool) -> None:
    """Where the server has forgotten the version (410 Gone), the manager lists the pods again."""
    with manager(address, "-n=1") as command, Client(address) as client:
        assert client.submit(abs, -1).result() == 1
        lists = site.lists
        site.cut_watches(forget)
        wait_until(lambda: site.lists > lists) if forget else None
        (pod,) = site.pods()
        site.kill(pod)
        command.wait_for_output(rf"Job {pod} exited with code 137")
        assert client.submit(abs, -2).result() == 2
        assert command.terminate() == 0


def test_an_account_that_may_not_watch_lists_at_most_once_a_second(site: ApiServer, address: str) -> None:
    site.forbidden.add("watch pods")
    with manager(address, "-n=1") as command, Client(address) as client:
        assert client.submit(abs, -1).result() == 1
        lists, begun_at = site.lists, time.monotonic()
        wait_until(lambda: site.lists >= lists + 3)
        assert time.monotonic() - begun_at > 1
        (pod,) = site.pods()
        site.kill(pod)
        command.wait_for_output(rf"Job {pod} exited with code 137")
        assert command.terminate() == 0


def test_pods_of_a_killed_manager_are_adopted(site: ApiServer, address: str) -> None:
    site.nodes = 0
    with manager(address, "-n=2", "--workers-per-job=1", "--name=night") as command:
        wait_until(lambda: len(site.pods()) == 2)
        command.kill()
    pods = site.pods()
    with manager(address, "-n=2", "--workers-per-job=1", "--name=night") as command, Client(address) as client:
        command.wait_for_output(r"2 workers wait in Kubernetes for the reason Unschedulable .*no node has room")
        assert site.pods().keys() == pods.keys()
        site.nodes = 1
        assert client.submit(abs, -1).result() == 1
        assert command.terminate() == 0


def test_a_manager_that_is_killed_while_it_creates_a_pod_leaves_nothing(site: ApiServer, address: str) -> None:
    """Its pod appears when the next manager has created one of its own."""
    site.may_create.clear()
    with manager(address, "-n=1", "--name=night") as command:
        wait_until(lambda: site.held == 1)
        command.kill()
    with manager(address, "-n=1", "--name=night") as command, Client(address) as client:
        wait_until(lambda: site.held == 2)
        site.may_create.set()
        assert client.submit(abs, -1).result() == 1
        wait_until(lambda: len(site.pods()) == 1)
        assert client.submit(abs, -2).result() == 2
        assert command.terminate() == 0


@pytest.mark.parametrize("flags", [("-n=1",), ("--maximum-workers=2", "--minimum-workers=1")])
def test_a_second_manager_of_the_same_name_leaves_the_pods_of_the_first(
    site: ApiServer, address: str, keys: Path, tmp_path: Path, flags: tuple[str, ...]
) -> None:
    """It runs on another host, where nothing but the scheduler knows that the name is taken."""
    with manager(address, *flags, "--name=night") as first, Client(address) as client:
        assert client.submit(abs, -1).result() == 1
        pods, secrets = site.pods(), site.secrets()
        elsewhere = {"SCALER_HOME": str(tmp_path / "home"), "SCALER_KEYS": str(keys)}
        with manager(address, *flags, "--name=night", **elsewhere) as second:
            assert second.wait() == 2
            assert "Another worker manager is called 'night'. Give this one another --name" in second.output
        assert client.submit(abs, -2).result() == 2
        assert site.pods() == pods and site.secrets() == secrets != []
        assert first.terminate() == 0


def test_managers_whose_names_are_alike_have_secrets_and_pods_of_their_own(site: ApiServer, address: str) -> None:
    with manager(address, "-n=1", "--name=a.b") as first:
        wait_until(lambda: list(site.pods().values()) == ["Running"])
        pods, secrets = set(site.pods()), set(site.secrets())
        with manager(address, "-n=1", "--name=a_b") as second:
            wait_until(lambda: list(site.pods().values()) == ["Running"] * 2)
            assert len(site.secrets()) == 2
            assert second.terminate() == 0
        assert (set(site.pods()), set(site.secrets())) == (pods, secrets)
        assert first.terminate() == 0


def test_a_template_with_labels_of_an_application_leaves_no_pod(site: ApiServer, address: str, tmp_path: Path) -> None:
    """The watch finds its pod, or the manager would create one after the other."""
    (tmp_path / "template").write_text("metadata: {labels: {app.kubernetes.io/name: other}}")
    with manager(address, "-n=1", f"--pod-template={tmp_path}/template") as command, Client(address) as client:
        assert client.submit(abs, -1).result() == 1
        (pod,) = site.pods()
        site.kill(pod)
        command.wait_for_output(rf"Job {pod} exited with code 137")
        assert client.submit(abs, -2).result() == 2
        assert command.terminate() == 0


def test_a_secret_that_was_deleted_is_created_again(site: ApiServer, address: str) -> None:
    with manager(address, "-n=1", "--name=night") as command, Client(address) as client:
        assert client.submit(abs, -1).result() == 1
        (secret,) = site.secrets()
        site.delete("secrets", secret, None)
        (pod,) = site.pods()
        site.kill(pod)
        command.wait_for_output(rf"Job {pod} exited with code 137")
        assert client.submit(abs, -2).result() == 2
        assert command.terminate() == 0


def test_a_secret_that_is_deleted_while_a_pod_waits_is_created_again(site: ApiServer, address: str) -> None:
    site.nodes = 0
    with manager(address, "-n=1", "--name=night") as command, Client(address) as client:
        command.wait_for_output(r"1 worker waits in Kubernetes for the reason Unschedulable")
        (secret,) = site.secrets()
        site.delete("secrets", secret, None)
        site.nodes = 1
        assert client.submit(abs, -1).result() == 1
        assert site.secrets() == [secret]
        assert command.terminate() == 0


def test_keys_that_cannot_be_read_any_more_leave_no_pod_without_a_manager(
    site: ApiServer, address: str, keys: Path
) -> None:
    with manager(address, "-n=2", "--workers-per-job=1", "--name=night") as command, Client(address) as client:
        wait_until(lambda: list(site.pods().values()) == ["Running"] * 2)
        work_key, aside = keys / "work.key", keys / "work.aside"
        work_key.rename(aside)
        site.kill(next(iter(site.pods())))
        command.wait_for_output(r"1 worker is missing: .*work\.key")
        aside.rename(work_key)
        wait_until(lambda: list(site.pods().values()) == ["Running"] * 2)
        assert client.submit(abs, -1).result() == 1
        assert command.terminate() == 0


def test_an_evicted_pod_is_replaced(site: ApiServer, address: str) -> None:
    with manager(address, "-n=1") as command, Client(address) as client:
        assert client.submit(abs, -1).result() == 1
        (pod,) = site.pods()
        site.evict(pod)
        command.wait_for_output(rf"Job {pod} was deleted, or its node")
        assert client.submit(abs, -2).result() == 2
        assert command.terminate() == 0


def test_an_image_that_cannot_be_pulled_is_explained(site: ApiServer, address: str) -> None:
    with manager(address, "-n=1", image=MISSING_IMAGE) as command:
        command.wait_for_output(r"1 worker waits in Kubernetes for the reason ImagePullBackOff .*Give another --image")
        assert command.terminate() == 0


def test_a_missing_secret_is_explained(site: ApiServer, address: str, keys: Path) -> None:
    """Only the events of a pod tell it."""
    with manager(address, "-n=1", "--keys-secret=theirs") as command, Client(address) as client:
        command.wait_for_output(
            r"1 worker waits in Kubernetes for the reason FailedMount .*secret .theirs. not found\): the Secret is "
            r"missing. Create it, or give another --keys-secret"
        )
        files = {each.name: each.read_text() for each in keys.iterdir()}
        KubernetesApi(None, None, None).put_secret(
            {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "theirs"}, "stringData": files}
        )
        assert client.submit(abs, -1).result() == 1
        assert command.terminate() == 0
    site.delete("secrets", "theirs", None)


def test_an_account_that_may_not_list_events_loses_nothing_else(site: ApiServer, address: str) -> None:
    site.forbidden = {"list events"}
    with manager(address, "-n=1", "--keys-secret=theirs") as command:
        wait_until(lambda: site.asked_for_events > 0)
        assert command.terminate() == 0
        assert "Traceback" not in command.output


def test_what_is_no_name_of_an_image_is_explained(site: ApiServer, address: str) -> None:
    """The API server accepts it; the kubelet does not."""
    with manager(address, "-n=1", image="not an image") as command:
        command.wait_for_output(r"1 worker waits in Kubernetes for the reason InvalidImageName .*Give another --image")
        assert command.terminate() == 0


def test_a_manager_goes_on_after_its_user_has_logged_in_again(site: ApiServer, address: str) -> None:
    with manager(address, "-n=1") as command, Client(address) as client:
        assert client.submit(abs, -1).result() == 1
        site.token = "another"
        site.cut_watches()
        command.wait_for_output(r"Unauthorized. Log in again, or give another --kube-config")
        site.kube_config()
        (pod,) = site.pods()
        site.kill(pod)
        command.wait_for_output(rf"Job {pod} exited with code 137")
        assert client.submit(abs, -2).result() == 2
        assert command.terminate() == 0


def test_a_token_that_expired_before_the_first_pod_is_read_again(site: ApiServer, address: str) -> None:
    with manager(address, "--maximum-workers=1") as command, Client(address) as client:
        wait_until(lambda: site.lists)
        site.token = "another"
        site.kube_config()
        assert client.submit(abs, -1).result() == 1
        assert command.terminate() == 0


def test_a_request_is_repeated_once_with_a_new_token(site: ApiServer) -> None:
    """Each kind of request is the first one with an old token."""
    api = KubernetesApi(None, None, None)
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"a": "b"}}

    def sent(request: Callable[[], object]) -> int:
        site.token += "x"
        site.kube_config()
        before = site.requests
        request()
        return site.requests - before

    assert sent(lambda: api.list_pods("")) == 2
    assert sent(lambda: api.put_secret(secret)) == 2
    assert sent(lambda: next(iter(api.watch_pods("", "100")))) == 2
    assert sent(lambda: api.delete_secret("s")) == 2
    assert sent(lambda: api.delete_pod("none")) == 2
    site.token = "another"
    before = site.requests
    with pytest.raises(ApiRefusal, match="Unauthorized. Log in again"):
        api.list_pods("")
    assert site.requests == before + 2


def test_a_server_with_too_many_requests_gets_none_before_its_pause_is_over(
    site: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = KubernetesApi(None, None, None)
    now = 0.0
    monkeypatch.setattr(kubernetes_api, "time", SimpleNamespace(monotonic=lambda: now))

    def refused_for(request: Callable[[], object], sentence: str) -> float:
        with pytest.raises(ApiRefusal, match=sentence) as refused:
            request()
        return refused.value.wait_seconds

    site.busy, site.retry_after_seconds = 1, 30
    list_pods, delete_pod = (lambda: api.list_pods("")), (lambda: api.delete_pod("none"))
    assert refused_for(list_pods, "does not list pods .*Too many requests.*Wait: they are repeated") == 30
    requests, now = site.requests, 20.0
    assert refused_for(delete_pod, "does not delete pods .*Too many requests.*Wait: they are repeated") == 10
    assert site.requests == requests
    now = 31.0
    list_pods()
    site.busy, site.retry_after_seconds = 1, 86_400
    assert refused_for(list_pods, "Too many requests") == 60


def test_an_image_that_does_not_start_is_explained(site: ApiServer, address: str) -> None:
    with manager(address, "-n=1", image=BROKEN_IMAGE) as command:
        command.wait_for_output(r"could not start scaler_cluster in its image: .*Give another --image")
        assert command.terminate() == 0


def test_an_exceeded_quota_is_explained(site: ApiServer, address: str) -> None:
    site.quota = 1
    with manager(address, "-n=2", "--workers-per-job=1") as command, Client(address) as client:
        command.wait_for_output(r"1 worker is missing: .*exceeded quota: .*have the quota raised")
        assert client.submit(abs, -1).result() == 1
        site.quota = None
        wait_until(lambda: list(site.pods().values()) == ["Running"] * 2)
        assert command.terminate() == 0


def test_a_conflict_passes(site: ApiServer, address: str) -> None:
    site.conflicts = 2
    with manager(address, "-n=1") as command, Client(address) as client:
        assert client.submit(abs, -1).result() == 1
        assert command.terminate() == 0


def test_what_will_not_pass_ends_the_manager_with_a_sentence(
    site: ApiServer, address: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fails(problem: str, *flags: str, image: str = GOOD_IMAGE) -> None:
        done = run_command("scaler_worker_manager", "kubernetes", address, "-n=1", f"--image={image}", *flags)
        assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr
        assert re.search(problem, done.stderr), done.stderr

    monkeypatch.delenv("SCALER_KEYS")
    site.forbidden = {"create pods"}
    fails("User .ann. cannot create resource .*Let the account do so: kubectl auth can-i create pods -n science")
    site.forbidden = set()
    fails("must not have leading or trailing whitespace.*Correct --image", image=" image")
    (tmp_path / "template").write_text("spec: {tolerations: x}")
    fails("tolerations.*Correct --image, --keys-secret or --pod-template", f"--pod-template={tmp_path}/template")
    (tmp_path / "template").write_text("spec: {restartPolicy: Always}")
    fails("spec.restartPolicy is set by the manager itself", f"--pod-template={tmp_path}/template")
    fails("give another one with --kube-config", "--kube-config=/nonexistent")


def test_one_call_tells_why_pods_that_start_later_are_rejected(
    site: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SCALER_KEYS", raising=False)
    for right in ("create pods", "create secrets"):
        site.forbidden = {right}
        with pytest.raises(ValueError, match=f"Let the account do so: kubectl auth can-i {right} -n science"):
            KubernetesCluster(maximum_workers=1, image=GOOD_IMAGE)
    site.forbidden = set()
    with pytest.raises(ValueError, match="Correct --image"):
        KubernetesCluster(maximum_workers=1, image=" image")


def test_a_first_pod_that_is_rejected_when_tasks_wait_is_explained_and_tried_again(
    site: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SCALER_KEYS", raising=False)
    with KubernetesCluster(maximum_workers=1, image=GOOD_IMAGE) as cluster, Client(cluster.get_address()) as client:
        assert not site.pods() and not site.secrets()
        site.forbidden = {"create pods"}
        task = client.submit(abs, -1)
        wait_until(lambda: "1 worker is missing" in client.explain(task))
        assert re.search(
            r"no worker is connected\. Worker manager \S+: 1 worker is missing: Kubernetes does not create pods .*"
            r"Let the account do so: kubectl auth can-i create pods -n science",
            client.explain(task),
        ), client.explain(task)
        site.forbidden = set()
        assert task.result() == 1


def test_a_server_that_cannot_be_reached_is_waited_for(site: ApiServer, address: str) -> None:
    site.forbidden = {"list pods"}
    with manager(address, "-n=1") as command, Client(address) as client:
        command.wait_for_output(r"cannot list resource .*kubectl auth can-i list pods")
        site.forbidden = set()
        assert client.submit(abs, -1).result() == 1
        assert command.terminate() == 0


def test_the_number_of_pods_follows_the_load(site: ApiServer, address: str) -> None:
    scaling = ("--maximum-workers=3", "--target-seconds=1", "--cool-down-seconds=0.1")
    with manager(address, *scaling) as command, Client(address) as client:
        load_until(client, lambda: list(site.pods().values()) == ["Running"] * 3)
        wait_until(lambda: not site.pods())
        assert command.terminate() == 0


def test_pods_end_and_then_the_manager_when_the_scheduler_is_shut_down(site: ApiServer, keys: Path) -> None:
    address = f"tcp://{network_address()}:{free_port()}"
    with start_scheduler(address, "--protected=False"), manager(address, "-n=1") as command:
        with Client(address) as client:
            assert client.submit(abs, -1).result() == 1
            client.shutdown()
        assert command.wait() == 0


def test_one_call_starts_a_scheduler_and_pods(site: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SCALER_KEYS", raising=False)
    with KubernetesCluster(2, image=GOOD_IMAGE, workers_per_job=1) as cluster, Client(cluster.get_address()) as client:
        assert client.map(abs, [-1, -2]) == [1, 2]
    assert not site.pods()
