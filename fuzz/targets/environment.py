"""Environments of tasks as text: an environment, or ValueError with a sentence; none has options for the installer.

An environment is written as the text that it was read from.
"""

from __future__ import annotations

from collections.abc import Iterator

from scaler_protocol.shipping.environments import Environment


def one_input(data: bytes) -> None:
    text = data.decode(errors="surrogateescape")
    try:
        environment = Environment.from_text(text)
    except ValueError as error:
        assert str(error)
        return
    assert environment.to_text() == text and Environment.from_text(text) == environment
    assert not any(each.startswith("-") or not each.isprintable() for each in environment.requirements)
    assert not any(name.startswith("SCALER_") or "\0" in name + value for name, value in environment.variables.items())
    assert not environment.working_directory or environment.working_directory.startswith("/")


def seeds() -> Iterator[bytes]:
    yield from (
        b"",
        b"{}",
        b"[" * 2000,
        b'{"requirements":["-e /"]}',
        b'{"requirements":[" -e"]}',
        b'{"variables":null}',
    )
    for environment in (
        Environment(["numpy==2.1", "polars>=1", "name @ file:///tmp/name.whl"]),
        Environment(variables={"A": "1", "größe": "\n"}, working_directory="/tmp"),
    ):
        yield environment.to_text().encode()
