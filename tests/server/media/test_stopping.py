"""A checkpoint asks, and stops when told."""

from __future__ import annotations

import threading

import pytest

from pumas_server.media.stopping import Stopped, build_checkpoint


def test_goes_on_until_told() -> None:
    told = threading.Event()
    checkpoint = build_checkpoint(told.is_set)
    checkpoint()
    told.set()
    with pytest.raises(Stopped):
        checkpoint()
