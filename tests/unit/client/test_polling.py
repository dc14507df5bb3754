"""The poller of a client's thread."""

from __future__ import annotations

import os
from unittest.mock import Mock

import pytest

from scaler.shell.polling import Waker


def test_a_waker_whose_end_is_interrupted_leaves_no_descriptor(monkeypatch: pytest.MonkeyPatch) -> None:
    waker, closed = Waker(), []
    close = os.close

    def interrupted(descriptor: int) -> None:
        close(descriptor)
        closed.append(descriptor)
        if len(closed) == 1:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(os, "close", Mock(side_effect=interrupted))
        waker.__del__()
    assert len(closed) == 2
    waker.fd = -1  # its descriptors are closed
