"""Which scheduler a configuration names."""

from __future__ import annotations

import pytest

from pumas_crds.vocabulary import Reason
from pumas_server.worker.diffusion.ddim import Ddim
from pumas_server.worker.diffusion.json_config import JsonConfig
from pumas_server.worker.diffusion.lcm import Lcm
from pumas_server.worker.diffusion.scheduler import read_scheduler
from pumas_server.worker.header_fault import HeaderFault
from support.tiny_pipeline import DDIM, LCM


def test_each_class_has_its_sampler() -> None:
    assert isinstance(read_scheduler(JsonConfig("s.json", DDIM)), Ddim)
    assert isinstance(read_scheduler(JsonConfig("s.json", LCM)), Lcm)


@pytest.mark.parametrize("name", ["PNDMScheduler", "EulerDiscreteScheduler", "ddimscheduler", ""])
def test_any_other_class_is_refused_by_name(name: str) -> None:
    with pytest.raises(HeaderFault) as caught:
        read_scheduler(JsonConfig("s.json", DDIM | {"_class_name": name}))
    assert caught.value.reason is Reason.NOT_IMPLEMENTED
    assert caught.value.message == (
        f's.json: _class_name is "{name}"; supported: DDIMScheduler, LCMScheduler'
    )


def test_a_configuration_without_a_class_is_none() -> None:
    with pytest.raises(HeaderFault, match="_class_name is missing"):
        read_scheduler(JsonConfig("s.json", {}))
