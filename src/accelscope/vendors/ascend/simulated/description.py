"""The Ascend section of a description: from YAML to its spec."""

from accelscope.config.document import Section
from accelscope.config.values import BOOLEAN, Choice, Decimal, Text, WholeNumber
from accelscope.simulate.parts import read_devices, read_tool_cost
from accelscope.vendors.ascend.simulated.models import MODELS
from accelscope.vendors.ascend.simulated.spec import AscendSpec, ChipSpec

_NPU_ID = WholeNumber(0, 65535)
_VERSION = Text("a version such as '25.0.rc1' or '24.1.0'", r"\d+(\.\w+){1,4}")


def read_section(section: Section) -> AscendSpec:
    usual = AscendSpec()
    spec = AscendSpec(
        driver_version=section.take("driver_version", _VERSION, usual.driver_version),
        tool_version=section.take("tool_version", _VERSION),
        in_container=section.take("in_container", BOOLEAN, default=False),
        noisy=section.take("noisy", BOOLEAN, default=False),
        npu_ids=_npu_ids(section),
        tool=read_tool_cost(section),
        devices=read_devices(section, _chip),
    )
    if len({chip.model.layout for chip in spec.devices}) > 1:
        raise section.error("devices", "npu-smi knows one kind of board on a node; give chips of one layout")
    if spec.npu_ids and len(spec.npu_ids) != len(spec.boards):
        raise section.error("npu_ids", f"there are {len(spec.boards)} NPUs; got {len(spec.npu_ids)} ids")
    return spec


def _npu_ids(section: Section) -> tuple[int, ...]:
    ids = section.take_each("npu_ids", _NPU_ID)
    for i, npu_id in enumerate(ids):
        if npu_id in ids[:i]:
            raise section.error(f"npu_ids[{i}]", f"{npu_id} is the id of another NPU already")
    return ids


def _chip(section: Section) -> ChipSpec:
    model = MODELS[section.require("model", Choice(*MODELS))]
    return ChipSpec(model=model, ambient_celsius=section.take("ambient_celsius", Decimal(0, 60), 28.0))
