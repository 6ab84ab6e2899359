"""Where a session computes: asked for, and by its own report. Pure.

The library falls back to the CPU without a word when CUDA cannot be set up. Who asked for CUDA has
a reason, so that is a refusal; `auto` takes what there is and says what it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

CPU = "cpu"
CUDA = "cuda"
AUTO = "auto"
DEVICES = (CPU, CUDA, AUTO)

CPU_PROVIDER = "CPUExecutionProvider"
CUDA_PROVIDER = "CUDAExecutionProvider"


def select_providers(
    requested: str, available: Sequence[str], cuda: dict[str, str]
) -> list[tuple[str, dict[str, str]]]:
    """What to ask the library for, of what its build has, best first; `cuda` are CUDA's options."""
    wanted: list[tuple[str, dict[str, str]]] = [(CPU_PROVIDER, {})]
    if requested != CPU:
        wanted.insert(0, (CUDA_PROVIDER, cuda))
    return [(name, options) for name, options in wanted if name in available]


@dataclass(frozen=True, slots=True)
class DeviceRefusal:
    """Why a session is not served from where it computes."""

    sentence: str


def device_of(requested: str, providers: Sequence[str]) -> str | DeviceRefusal:
    """The device of a session that reports these providers."""
    if CUDA_PROVIDER in providers and requested != CPU:
        return CUDA
    if requested == CUDA:
        told = ", ".join(providers) or "none"
        return DeviceRefusal(
            "CUDA was asked for, but the engine could not set it up;"
            f" its execution providers are: {told}"
        )
    return CPU
