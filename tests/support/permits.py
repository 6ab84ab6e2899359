"""Permits that are held while a block lasts, as a call holds them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pumas_server.router.admission import Admission


@contextmanager
def process_permit(admission: Admission, model_uid: str, *, alone: bool) -> Iterator[None]:
    """One of the process's. Raises `ContractError` when there is none for the model."""
    admission.take(model_uid, alone=alone)
    try:
        yield
    finally:
        admission.give_back(model_uid)


@contextmanager
def pod_permit(admission: Admission, url: str) -> Iterator[None]:
    """One of a pod's."""
    admission.take_pod(url)
    try:
        yield
    finally:
        admission.give_back_pod(url)
