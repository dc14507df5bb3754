"""The API server of Kubernetes, through the official client: requests about pods, and a watch in a thread."""

from __future__ import annotations

import functools
import inspect
import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from scaler_protocol.command import BadInput
from scaler_worker.manager.core.pod_cache import GONE, PodCache
from scaler_worker.manager.core.pod_reasons import PodRefusal, explain_refusal_of_api, pause_seconds
from scaler_worker.manager.core.retries import RetryPause

_ANSWER_SECONDS = 15.0
_WATCH_SECONDS = 60
_ATTEMPTS = 3
_UNAUTHORIZED, _INVALID = 401, 422
_TURN_SECONDS = 1.0
"""Between two lists or watches, at least: an account may be permitted to list pods, but not to watch them."""

_ODD_ANSWER = PodRefusal(
    "Cannot list the pods: what answers is not the API server of Kubernetes. Check with: kubectl get pods"
)
_IN_CLUSTER_NAMESPACE = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"


class ApiRefusal(Exception):
    """A request that the API server refused, or that did not reach it. ``status``: of HTTP, None without an answer.
    ``wait_seconds``: the server accepts no request before."""

    def __init__(self, refusal: PodRefusal, status: int | None, wait_seconds: float = 0.0) -> None:
        super().__init__(refusal.sentence)
        self.refusal, self.status, self.wait_seconds = refusal, status, wait_seconds


class KubernetesApi:
    """Requests in one namespace. When the server asks for a pause, no request is sent until it is over. Credentials are
    read again when the server does not accept them. Raises BadInput when there is no client or no usable
    configuration."""

    def __init__(self, config_file: str | None, context: str | None, namespace: str | None) -> None:
        try:
            import kubernetes  # noqa: F401
        except ImportError:
            raise BadInput(
                "Cannot use Kubernetes: its Python client is not installed. Run: pip install "
                "'scaler-worker[kubernetes]'"
            ) from None
        self._source = config_file, context
        self._resume_at = 0.0
        self._pause_asked: tuple[int | None, str] = None, ""  # status and message of the answer that asked for it
        found = self._log_in()
        self.namespace = namespace or found or "default"

    def _log_in(self) -> str | None:
        """Read the configuration and return the namespace that it names. Raises BadInput."""
        from kubernetes import client

        configuration, found = _load(*self._source)
        configuration.retries = False
        self.server = str(configuration.host)
        self._api: Any = client.CoreV1Api(client.ApiClient(configuration))
        return found

    def _log_in_again(self) -> None:
        """Its user may have logged in since: the file then has other credentials."""
        try:
            self._log_in()
        except BadInput:
            pass  # as before

    def create_pod(self, pod: Mapping[str, Any]) -> Mapping[str, Any]:
        """Raises ApiRefusal."""
        return self._repeated("create pods", "create_namespaced_pod", body=pod)

    def verify_pod(self, pod: Mapping[str, Any]) -> None:
        """Let the server do all that it does with a new pod, but not keep it. Raises ApiRefusal."""
        self._repeated("create pods", "create_namespaced_pod", body=pod, dry_run="All")

    def delete_pod(self, name: str, grace_seconds: int | None = None) -> None:
        """Harmless if it is gone. Raises ApiRefusal."""
        given = {} if grace_seconds is None else {"grace_period_seconds": grace_seconds}
        self._unless_gone("delete pods", "delete_namespaced_pod", name=name, **given)

    def last_line(self, name: str, container: str) -> str:
        """The last line that the container has written; empty if there is none."""
        try:
            answer = self._api.read_namespaced_pod_log(
                name, self.namespace, container=container, tail_lines=1, _preload_content=False,
                _request_timeout=_ANSWER_SECONDS,
            )  # fmt: skip
            return str(answer.data.decode(errors="backslashreplace")).strip()
        except Exception:  # nothing depends on it
            return ""

    def list_events(self, name: str) -> Sequence[Mapping[str, Any]]:
        """Return all events of this pod. Raises ApiRefusal."""
        selector = f"involvedObject.kind=Pod,involvedObject.name={name}"
        return self._once("list events", "list_namespaced_event", field_selector=selector).get("items") or ()

    def put_secret(self, secret: Mapping[str, Any]) -> None:
        """Create it, or replace the one of the same name. Raises ApiRefusal."""
        try:
            self._repeated("create secrets", "create_namespaced_secret", body=secret)
        except ApiRefusal as error:
            if error.status != 409:
                raise
            name = secret["metadata"]["name"]
            self._repeated("update secrets", "replace_namespaced_secret", name=name, body=secret)

    def verify_secret(self, secret: Mapping[str, Any]) -> None:
        """Do the same with a Secret. One of the same name would be replaced. Raises ApiRefusal."""
        try:
            self._once("create secrets", "create_namespaced_secret", body=secret, dry_run="All")
        except ApiRefusal as error:
            if error.status != 409:
                raise

    def delete_secret(self, name: str) -> None:
        """Harmless if it is gone. Raises ApiRefusal."""
        self._unless_gone("delete secrets", "delete_namespaced_secret", name=name)

    def list_pods(self, label_selector: str) -> Mapping[str, Any]:
        """Raises ApiRefusal."""
        return self._once("list pods", "list_namespaced_pod", label_selector=label_selector)

    def watch_pods(self, label_selector: str, version: str) -> Iterator[Mapping[str, Any]]:
        """The events since that version, until the server ends the watch. Raises ApiRefusal."""
        answer = self._answer(
            "watch pods", "list_namespaced_pod", label_selector=label_selector, resource_version=version, watch=True,
            allow_watch_bookmarks=True, timeout_seconds=_WATCH_SECONDS,
            _request_timeout=(_ANSWER_SECONDS, _WATCH_SECONDS + _ANSWER_SECONDS),
        )  # fmt: skip
        with self._refusals("watch pods"):
            try:
                for line in _lines(answer):
                    yield json.loads(line)
            finally:
                answer.close()
                answer.release_conn()

    # ---- requests ----------------------------------------------------------------------------------------------------

    def _unless_gone(self, verb: str, method: str, **arguments: Any) -> None:
        try:
            self._repeated(verb, method, **arguments)
        except ApiRefusal as error:
            if error.status != 404:
                raise

    def _repeated(self, verb: str, method: str, **arguments: Any) -> Mapping[str, Any]:
        """Conflicts pass: another request was served first."""
        for _ in range(_ATTEMPTS - 1):
            try:
                return self._once(verb, method, **arguments)
            except ApiRefusal as error:
                if not error.refusal.is_passing or verb == "create secrets":
                    raise
        return self._once(verb, method, **arguments)

    def _once(self, verb: str, method: str, **arguments: Any) -> Mapping[str, Any]:
        answer = self._answer(verb, method, **arguments, _request_timeout=_ANSWER_SECONDS)
        with self._refusals(verb):
            found = json.loads(answer.data)
            assert isinstance(found, dict)
            return found

    def _answer(self, verb: str, method: str, **arguments: Any) -> Any:
        """Call a method of the client. If the credentials are refused, read them and call it once more: their user may
        have logged in again."""
        self._refuse_in_pause(verb)
        try:
            return self._send(verb, method, **arguments)
        except ApiRefusal as error:
            if error.status != _UNAUTHORIZED:
                raise
        self._log_in_again()
        return self._send(verb, method, **arguments)

    def _send(self, verb: str, method: str, **arguments: Any) -> Any:
        function = getattr(self._api, method)
        with self._refusals(verb):
            send = _plain(function) if method.startswith("list") else function
            return send(namespace=self.namespace, **arguments, _preload_content=False)

    def _refuse_in_pause(self, verb: str) -> None:
        remaining_seconds = self._resume_at - time.monotonic()
        if remaining_seconds > 0:
            status, message = self._pause_asked
            refusal = explain_refusal_of_api(status, message, verb, self.namespace)
            raise ApiRefusal(refusal, status, remaining_seconds)

    @contextmanager
    def _refusals(self, verb: str) -> Iterator[None]:
        """Turns the errors of the client into ApiRefusal."""
        from kubernetes.client.exceptions import ApiException
        from urllib3.exceptions import HTTPError

        try:
            yield
        except (ApiException, HTTPError, OSError, ValueError) as error:
            status, message = _status_and_message(error)
            wait_seconds = pause_seconds(status, (getattr(error, "headers", None) or {}).get("Retry-After"))
            if wait_seconds:
                self._pause_asked, self._resume_at = (status, message), time.monotonic() + wait_seconds
            refusal = explain_refusal_of_api(status, message, verb, self.namespace)
            raise ApiRefusal(refusal, status, wait_seconds) from None


def _plain(method: Any) -> Callable[..., Any]:
    """A method of the client without the check of its arguments, which newer ones have. It is written in Rust, and the
    process would be aborted at its end if a thread waited in there for an answer."""
    return functools.partial(inspect.unwrap(method.__func__), method.__self__)


def _status_and_message(error: Any) -> tuple[int | None, str]:
    """The client refuses what it sends with the same words as the server, and without a status."""
    if getattr(error, "status", None):
        return int(error.status), _message(error)
    if hasattr(error, "errors"):
        return _INVALID, "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
    return None, str(error)


def _message(error: Any) -> str:
    """The sentence in the body of an answer, or else the words of HTTP."""
    try:
        body = json.loads(error.body)
        return str(body["message"])
    except (TypeError, ValueError, KeyError):
        return str(error.reason or "")


def _lines(answer: Any) -> Iterator[bytes]:
    rest = b""
    for part in answer.stream(amt=None, decode_content=False):
        *lines, rest = (rest + part).split(b"\n")
        yield from (line for line in lines if line.strip())


def _load(config_file: str | None, context: str | None) -> tuple[Any, str | None]:
    """The client's configuration, and the namespace that it names."""
    from kubernetes import client, config

    configuration = client.Configuration()
    config_file = config_file or os.environ.get("KUBECONFIG")  # the client has read it when it was imported
    try:
        config.load_kube_config(config_file, context, client_configuration=configuration)
        _, current = config.list_kube_config_contexts(config_file)
        chosen = current if context is None else _context(config.list_kube_config_contexts(config_file)[0], context)
        return configuration, chosen.get("context", {}).get("namespace")
    except Exception as error:  # of a file that is wrong, the client and its reader of YAML raise anything
        is_wrong = not isinstance(error, (config.ConfigException, OSError, ValueError))
        if is_wrong or config_file is not None or context is not None:
            said = " ".join(str(error).split()).rstrip(".")
            advice = "Correct the file" if config_file is not None else "Correct the file that kubectl uses"
            raise BadInput(
                f"Cannot use the configuration of Kubernetes: {said}. {advice}, or give another one with --kube-config."
            ) from None
    try:
        config.load_incluster_config(client_configuration=configuration)
        with open(_IN_CLUSTER_NAMESPACE) as file:
            return configuration, file.read().strip()
    except (config.ConfigException, OSError):
        raise BadInput(
            "Cannot use Kubernetes: there is no configuration. Let kubectl work here, or give --kube-config."
        ) from None


def _context(contexts: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next((each for each in contexts if each.get("name") == name), {})


class PodWatch:
    """Keeps the pods with these labels up to date, in a thread that ends with the process."""

    def __init__(self, api: KubernetesApi, label_selector: str) -> None:
        self._api, self._selector = api, label_selector
        self._cache = PodCache()
        self._lock = threading.Lock()
        self._answered = threading.Event()
        self._trouble = ""
        self._pause = RetryPause()
        threading.Thread(target=self._run, name="pods", daemon=True).start()

    def pods(self) -> tuple[list[Mapping[str, Any]], str]:
        """The pods, and why they are not known now; empty: they are. Waits for the first answer."""
        self._answered.wait(_ANSWER_SECONDS + 5)
        with self._lock:
            if not self._answered.is_set():
                return (
                    [],
                    "Cannot list the pods: the API server of Kubernetes does not answer. Check with: kubectl get pods",
                )
            return list(self._cache.pods), self._trouble

    def on_created(self, pod: Mapping[str, Any]) -> None:
        with self._lock:
            self._cache.on_created(pod, time.monotonic())

    def _run(self) -> None:
        while True:
            next_at = time.monotonic() + _TURN_SECONDS
            try:
                self._turn()
                self._pause.on_started(time.monotonic())
            except ApiRefusal as error:
                self._on_refused(error)
            except (AssertionError, AttributeError, KeyError, TypeError):
                self._on_refused(ApiRefusal(_ODD_ANSWER, None))
            time.sleep(max(0.0, next_at - time.monotonic()))

    def _turn(self) -> None:
        if self._cache.version is None:
            begun_at = time.monotonic()
            answer = self._api.list_pods(self._selector)
            with self._lock:
                self._cache.on_listed(answer, begun_at)
                self._trouble = ""
            self._answered.set()
        assert self._cache.version is not None
        for event in self._api.watch_pods(self._selector, self._cache.version):
            with self._lock:
                self._cache.on_event(event)
                if self._cache.version is None:
                    return

    def _on_refused(self, error: ApiRefusal) -> None:
        """After a watch that broke off, only a list tells whether the server can be reached."""
        with self._lock:
            was_watching = self._cache.version is not None
            self._cache.on_watch_refused()
            if not was_watching:
                self._trouble = str(error)
        if error.status != GONE and not was_watching:
            self._answered.set()
            self._pause.on_failed(time.monotonic(), error.wait_seconds)
            time.sleep(self._pause.remaining_seconds(time.monotonic()))
