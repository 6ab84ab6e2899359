"""What lives as long as the process costs no collection, and what is made later is collected."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from pumas_server.router.lasting_objects import set_lasting_apart


class Knot:
    """An object that holds itself: only a collection frees it."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def thawed() -> Iterator[None]:
    yield
    gc.unfreeze()


def test_what_is_there_is_not_looked_at_again_and_garbage_goes_first() -> None:
    lasting, garbage = Knot(), weakref.ref(Knot())
    set_lasting_apart()
    assert garbage() is None
    assert not any(found is lasting for found in gc.get_objects())


def test_what_is_made_later_is_collected() -> None:
    set_lasting_apart()
    later = Knot()
    assert any(found is later for found in gc.get_objects())
    garbage = weakref.ref(later)
    del later
    gc.collect()
    assert garbage() is None
