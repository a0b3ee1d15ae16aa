"""Driver restarts do not increase the agent's memory: the binding is created once and reused."""

import gc
from pathlib import Path

from accelscope.agent.settings import AgentSettings
from accelscope.config import make
from accelscope.simulate import SimulatedNode, load_node
from accelscope.simulate.faults import Fault, FaultKind
from accelscope.vendors.common.contract import ReaderError
from accelscope.vendors.nvidia import nvml_library
from accelscope.vendors.nvidia.reader import NvmlSource

NOT_LOADED = Fault(kind=FaultKind.DRIVER_NOT_LOADED)
LIBRARY_MISSING = Fault(kind=FaultKind.LIBRARY_MISSING)


def bindings() -> int:
    gc.collect()
    return sum(
        isinstance(found, type)
        and found.__name__ == "NVMLError"
        and found.__module__ == nvml_library.BINDING_NAME
        for found in gc.get_objects()
    )


def test_the_binding_is_created_once(tmp_path: Path, native_cache: Path) -> None:
    node = SimulatedNode(load_node("nvidia-h100x8"), tmp_path / "node", cache=native_cache)
    node.build()
    settings = make(AgentSettings, node.agent_settings())
    source = NvmlSource(settings.reader_options)
    before = bindings()
    for fault in (NOT_LOADED, LIBRARY_MISSING, NOT_LOADED):
        node.set_faults([fault])
        for _ in range(3):
            try:
                source.survey()
            except ReaderError:
                continue
            raise AssertionError("the survey must fail")
        node.set_faults([])
        assert [source.read(key).device.index for key in source.survey().keys] == list(range(8))
    assert bindings() - before == 1
    source.close()
