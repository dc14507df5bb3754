"""Code that travels in pickles runs in the version of Python that compiled it."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import pytest

from scaler.client.serializer import DefaultSerializer
from scaler_protocol.objects import sent_code
from scaler_worker.worker_process import serialization

SERIALIZERS = [DefaultSerializer.serialize, serialization.dumps]


@pytest.mark.parametrize("dumps", SERIALIZERS)
def test_code_of_this_version_runs(dumps: Callable[[object], bytes]) -> None:
    assert pickle.loads(dumps([lambda number: number + 1]))[0](1) == 2


@pytest.mark.parametrize("dumps", SERIALIZERS)
def test_code_of_another_version_is_refused_with_the_remedy(
    dumps: Callable[[object], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = dumps([lambda number: number + 1])
    monkeypatch.setattr(sent_code, "VERSION", (3, 99))
    with pytest.raises(TypeError, match=r"the code of .*<lambda>\(\): .* Python 3\.\d+, .* Python 3\.99\. Use"):
        pickle.loads(data)


@pytest.mark.parametrize("dumps", SERIALIZERS)
def test_functions_that_are_imported_are_of_no_version(
    dumps: Callable[[object], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = dumps([pytest.approx])
    monkeypatch.setattr(sent_code, "VERSION", (3, 99))
    assert pickle.loads(data) == [pytest.approx]
