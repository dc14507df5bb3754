"""Termination notices: the provider of this machine announces that it takes the machine back, as with spot instances.

Each provider tells it over HTTP at an address that only the machine itself reaches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

NO_PROVIDER = "none"
STOPPED_CODE = 75
"""The exit code of workers that had to end although they are needed: a worker manager replaces them."""

POLL_SECONDS = 5.0
"""Google gives 30 s, Azure at least 30 s, Amazon 120 s."""

_TIMEOUT_SECONDS = 3.0
_NOT_FOUND = 404
_LINK_LOCAL = "http://169.254.169.254"


def amazon(server: str = _LINK_LOCAL) -> bool:
    """EC2 has scheduled an action of the spot instance: to stop, to hibernate or to terminate."""
    seconds = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}
    token = _ask("PUT", f"{server}/latest/api/token", seconds) or ""
    action = _ask("GET", f"{server}/latest/meta-data/spot/instance-action", {"X-aws-ec2-metadata-token": token})
    return action is not None


def google(server: str = "http://metadata.google.internal") -> bool:
    """Compute Engine preempts the instance."""
    path = "/computeMetadata/v1/instance/preempted"
    return _ask("GET", server + path, {"Metadata-Flavor": "Google"}) == "TRUE"


def azure(server: str = _LINK_LOCAL) -> bool:
    """Azure has scheduled an event that evicts or terminates the machine."""
    import json

    path = "/metadata/scheduledevents?api-version=2020-07-01"
    document = json.loads(_ask("GET", server + path, {"Metadata": "true"}) or "{}")
    events = document.get("Events") if isinstance(document, dict) else None
    if not isinstance(events, list):
        return False
    return any(isinstance(each, dict) and each.get("EventType") in ("Preempt", "Terminate") for each in events)


PROVIDERS: Mapping[str, Callable[[], bool]] = {"aws": amazon, "gcp": google, "azure": azure}


def _ask(method: str, url: str, headers: Mapping[str, str]) -> str | None:
    """The answer, or None if the server has nothing of this name. Raises OSError, as urllib does, if the server cannot
    be reached, or answers with something that is not HTTP."""
    import http.client  # takes a while, and most agents do not ask
    import urllib.error
    import urllib.request

    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # a proxy has an address of its own
    request = urllib.request.Request(url, method=method, headers=dict(headers))
    try:
        with opener.open(request, timeout=_TIMEOUT_SECONDS) as answer:
            return str(answer.read(65536).decode(errors="replace")).strip()
    except urllib.error.HTTPError as error:
        if error.code == _NOT_FOUND:
            return None
        raise
    except http.client.HTTPException as error:
        raise OSError(f"{url} does not answer as a web server ({type(error).__name__})") from None
