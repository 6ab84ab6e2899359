"""Which sampler a pipeline's scheduler configuration names."""

from __future__ import annotations

from collections.abc import Callable

from pumas_server.worker.diffusion.ddim import Ddim, read_ddim
from pumas_server.worker.diffusion.json_config import JsonConfig
from pumas_server.worker.diffusion.lcm import Lcm, read_lcm

Scheduler = Ddim | Lcm

_READERS: dict[str, Callable[[JsonConfig], Scheduler]] = {
    "DDIMScheduler": read_ddim,
    "LCMScheduler": read_lcm,
}


def read_scheduler(config: JsonConfig) -> Scheduler:
    """Read the configuration by the class that it names; raises `HeaderFault` for any other."""
    return _READERS[config.word("_class_name", _READERS)](config)
