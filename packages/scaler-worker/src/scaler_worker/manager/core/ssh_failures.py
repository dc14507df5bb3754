"""The reasons why no workers run on a host that is reached through SSH: one sentence, and what to do."""

from __future__ import annotations

import re

from scaler_worker.manager.core.ssh_hosts import RemoteHost
from scaler_worker.termination_notice import STOPPED_CODE

_OF_SSH = 255
_OF_SHELL = (126, 127)

_CAUSES = (
    (
        r"REMOTE HOST IDENTIFICATION HAS CHANGED",
        "its host key is not the one that is known. If the host was set up again, run: ssh-keygen -R '{known_as}'; "
        "then: ssh {words} true",
    ),
    (
        r"Host key verification failed",
        "its host key is unknown here. Run this once, compare the key, and accept it: ssh {words} true",
    ),
    (
        r"Permission denied",
        "it does not accept a key of yours and asks for a password. Copy your public key to it with ssh-copy-id "
        "{words}, and load your key with ssh-add if it has a passphrase.",
    ),
    (
        r"[Bb]ad configuration option|terminating, [0-9]+ bad|[Bb]ad owner or permissions|Can't open user config",
        "the configuration of ssh is wrong. Correct what ssh says about it: ssh {words} true",
    ),
    (r"Could not resolve hostname", "no host of this name is known. Correct the name, or add it to ~/.ssh/config."),
    (r"Connection refused", "no SSH server listens there. Start sshd on it, or give its port as {name}:PORT."),
    (r"timed out|No route to host|Network is unreachable", "it does not answer. Check that it runs and is reachable."),
)
"""The messages of ssh, and the sentences that replace them."""

_LASTING = "|".join(pattern for pattern, _ in _CAUSES[:4])
"""The messages about causes that do not pass until a user does something."""

_LACKS_SCALER = r"No module named '?scaler_"

_NO_SCALER = (
    "its Python has no scaler-worker {version}. Run there: {python} -m pip install scaler-worker=={version}; or give "
    "--remote-python the path of a Python that has it."
)
_NO_PYTHON = "it has no program {python}. Give --remote-python the path of a Python there that has scaler-worker."


def explain_failure(output: str, exit_code: int | None, host: RemoteHost, python: str, version: str) -> str:
    """``output``: what ssh and the host wrote to stderr. ``exit_code``: of ssh, None while it runs."""
    return _complete(
        host.text,
        _cause(output, exit_code).format(
            words=host.ssh_words, known_as=host.known_as, name=host.host, python=python, version=version
        ),
    )


def _cause(output: str, exit_code: int | None) -> str:
    if exit_code is None:
        return "its workers did not start in time. Check its load and its file systems."
    if exit_code < 0:
        return f"ssh was ended by signal {-exit_code}."
    if exit_code in _OF_SHELL:
        return _NO_PYTHON
    if exit_code == _OF_SSH:
        found = next((sentence for pattern, sentence in _CAUSES if re.search(pattern, output)), "")
        return found or _last_words(output, exit_code)
    if re.search(_LACKS_SCALER, output):
        return _NO_SCALER
    return _last_words(output, exit_code)


def is_lasting_failure(output: str, exit_code: int | None) -> bool:
    """Return whether such a failure will not pass by itself: keys, the configuration of ssh, or what is installed on
    the host are wrong."""
    if exit_code == _OF_SSH:
        return re.search(_LASTING, output) is not None
    return exit_code in _OF_SHELL or (exit_code is not None and re.search(_LACKS_SCALER, output) is not None)


def _last_words(output: str, exit_code: int) -> str:
    last = next((line.strip() for line in reversed(output.splitlines()) if line.strip()), "")
    if not last:
        return "the connection was lost. Check the host and the network."
    return f"ssh ended with code {exit_code}, saying: {last.rstrip('.')}.".replace("{", "{{").replace("}", "}}")


def explain_python(theirs: tuple[int, int], ours: tuple[int, int], text: str) -> str | None:
    """None: functions can be sent between these versions of Python."""
    if theirs == ours:
        return None
    here, there = (".".join(map(str, each)) for each in (ours, theirs))
    return _complete(
        text,
        f"it has Python {there}, but this host has {here}, and functions cannot be sent between them. Install Python "
        f"{here} there, and give --remote-python its path.",
    )


def explain_version(theirs: str, ours: str, text: str, python: str) -> str | None:
    if theirs == ours:
        return None
    return _complete(
        text,
        f"it has scaler-worker {theirs}, but this host has {ours}. Run there: {python} -m pip install "
        f"scaler-worker=={ours}",
    )


def explain_end(exit_code: int, complaint: str, text: str) -> str:
    """Explain the end of a ``scaler_cluster`` that has run there. ``complaint``: the sentence with which it ended, if
    it said one."""
    if exit_code == STOPPED_CODE:
        return _complete(text, "its provider takes the machine back. Give another host in its place.")
    how = f"exited with code {exit_code}" if exit_code >= 0 else f"was ended by signal {-exit_code}"
    return _complete(text, f"scaler_cluster {how}: {complaint}" if complaint else f"scaler_cluster {how}. See its log.")


def explain_unstopped(waited_seconds: float, left_seconds: float, text: str) -> str:
    """Explain a job that was asked to stop and does not answer. ``left_seconds``: a job that cannot reach its manager
    ends by itself after this long."""
    return (
        f"Cannot stop the workers on {text}: it has not answered for {waited_seconds:.0f} s. If its network fails, "
        f"they end by themselves within {left_seconds:.0f} s."
    )


def explain_refusal(reason: str, text: str) -> str:
    return _complete(text, reason)


def _complete(text: str, sentence: str) -> str:
    return f"Cannot run workers on {text}: {sentence}"
