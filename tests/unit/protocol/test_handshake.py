from __future__ import annotations

import dataclasses
import os
from importlib import metadata
from pathlib import Path

import pytest

from scaler_protocol.handshake import installed_version, make_hello, refusal_for
from scaler_protocol.ids import digest, new_session
from scaler_protocol.messages import PROTOCOL_MAJOR, RefusalReason, Role
from scaler_protocol.security import ensure_token

LOCAL = "tcp://127.0.0.1:2345"
REMOTE = "tcp://192.168.1.1:2345"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCALER_HOME", str(tmp_path))


def test_hello_says_who_it_is() -> None:
    token = ensure_token()
    session = new_session()
    hello = make_hello(Role.WORK, session, distribution="no-such-thing", epoch=5, received=6, parent_task=7)
    assert (hello.role, hello.session, hello.pid, hello.token) == (Role.WORK, session, os.getpid(), token)
    assert hello.host and hello.python_version.count(".") == 2 and hello.major == PROTOCOL_MAJOR
    assert (hello.epoch, hello.received, hello.parent_task, hello.distribution_version) == (5, 6, 7, "")


def test_the_token_is_not_told_to_other_machines() -> None:
    token = ensure_token()
    assert make_hello(Role.WORK, new_session(), address=LOCAL).token == token
    assert make_hello(Role.WORK, new_session(), address=REMOTE).token == b""


def test_the_same_user_is_welcome() -> None:
    token = ensure_token()
    hello = make_hello(Role.SUBMIT, new_session(), address=LOCAL)
    for address in (LOCAL, "ipc:///tmp/x", "inproc://x"):
        assert refusal_for(hello, address=address, token=token) is None


def test_without_the_token_only_other_machines_are_welcome() -> None:
    hello = make_hello(Role.SUBMIT, new_session(), token=b"")
    refused = refusal_for(hello, address=LOCAL, token=ensure_token())
    assert refused is not None and refused.reason == RefusalReason.TOKEN and "SCALER_HOME" in refused.text
    assert refusal_for(hello, address=REMOTE, token=ensure_token()) is None


def test_a_wrong_token_is_refused() -> None:
    hello = make_hello(Role.SUBMIT, new_session(), token=b"wrong")
    refused = refusal_for(hello, address="ipc:///tmp/x", token=ensure_token())
    assert refused is not None and refused.reason == RefusalReason.TOKEN


def test_another_major_version_is_refused_and_another_minor_is_not() -> None:
    token = ensure_token()
    hello = make_hello(Role.SUBMIT, new_session())
    refused = refusal_for(dataclasses.replace(hello, major=PROTOCOL_MAJOR + 1), address=LOCAL, token=token)
    assert refused is not None and refused.reason == RefusalReason.VERSION
    assert f"{PROTOCOL_MAJOR + 1}.{hello.minor}" in refused.text and "install the same major version" in refused.text
    assert refusal_for(dataclasses.replace(hello, minor=99), address=LOCAL, token=token) is None


def test_a_session_has_its_size() -> None:
    hello = make_hello(Role.SUBMIT, b"short")
    refused = refusal_for(hello, address=LOCAL, token=ensure_token())
    assert refused is not None and refused.reason == RefusalReason.MALFORMED


def test_ids() -> None:
    assert len({new_session() for _ in range(100)}) == 100
    assert all(len(new_session()) == 16 and new_session()[0] for _ in range(1000))
    assert digest(b"x") == digest(b"x") != digest(b"y") and len(digest(b"")) == 16


@pytest.mark.parametrize("distribution", ["pyzmq", "pytest", "scaler-protocol", "not-installed"])
def test_versions_are_those_of_the_standard_library(distribution: str) -> None:
    try:
        expected = metadata.version(distribution)
    except metadata.PackageNotFoundError:
        expected = ""
    assert installed_version(distribution) == expected
