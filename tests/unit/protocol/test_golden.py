from __future__ import annotations

from pathlib import Path

import pytest

from scaler_protocol.codec import decode, encode
from scaler_protocol.messages import PROTOCOL_MAJOR, PROTOCOL_MINOR, Results, Tasks
from tests.unit.protocol import golden, samples

FILES = sorted(golden.FOLDER.glob(f"{PROTOCOL_MAJOR}.*/*.bin"))
SAMPLES = {samples.name_of(envelope.body): envelope for envelope in samples.all_envelopes()}


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_messages_of_every_release_are_read(path: Path) -> None:
    """If this fails, the schema or the codec was changed otherwise than by addition: change it back."""
    assert decode(golden.unpack(path.read_bytes())) == SAMPLES[path.stem]


def test_this_version_has_golden_bytes_of_every_body() -> None:
    folder = golden.FOLDER / f"{PROTOCOL_MAJOR}.{PROTOCOL_MINOR}"
    missing = sorted(set(SAMPLES) - {path.stem for path in folder.iterdir()})
    assert not missing, f"Run python -m tests.unit.protocol.golden, which writes {', '.join(missing)}"
    assert {path.stem for path in folder.iterdir()} == set(SAMPLES)


@pytest.mark.parametrize("name", [Tasks.__name__, Results.__name__, "Acknowledgement", "Ping", "Goodbye"])
def test_what_is_written_by_hand_does_not_change(name: str) -> None:
    path = golden.FOLDER / f"{PROTOCOL_MAJOR}.{PROTOCOL_MINOR}" / f"{name}.bin"
    assert golden.pack(encode(SAMPLES[name])) == path.read_bytes()
