"""The Ascend section of a description: from YAML to its spec."""

from accelscope.simulate.ascend.models import MODELS
from accelscope.simulate.ascend.spec import AscendSpec, ChipSpec
from accelscope.simulate.parts import read_devices, read_tool_cost
from accelscope.simulate.section import DescriptionError, Section, shown, unknown

_MAX_NPU_ID = 65535


def read_section(section: Section) -> AscendSpec:
    usual = AscendSpec()
    spec = AscendSpec(
        driver_version=_version(section, "driver_version") or usual.driver_version,
        tool_version=_version(section, "tool_version"),
        in_container=section.flag("in_container", default=False),
        noisy=section.flag("noisy", default=False),
        npu_ids=_npu_ids(section),
        tool=read_tool_cost(section),
        devices=read_devices(section, _chip),
    )
    if len({chip.model.layout for chip in spec.devices}) > 1:
        raise section.error("devices", "npu-smi knows one kind of board on a node; give chips of one layout")
    if spec.npu_ids and len(spec.npu_ids) != len(spec.boards):
        raise section.error("npu_ids", f"there are {len(spec.boards)} NPUs; got {len(spec.npu_ids)} ids")
    return spec


def _version(section: Section, key: str) -> str | None:
    return section.optional_text(
        key, r"\d+(\.\w+){1,4}", "a version such as '25.0.rc1' or '24.1.0', in quotes"
    )


def _npu_ids(section: Section) -> tuple[int, ...]:
    ids: list[int] = []
    for where, member in section.items("npu_ids"):
        if not isinstance(member, int) or isinstance(member, bool) or not 0 <= member <= _MAX_NPU_ID:
            raise DescriptionError(
                f"{where}: expected a whole number up to {_MAX_NPU_ID}, got {shown(member)}"
            )
        if member in ids:
            raise DescriptionError(f"{where}: {member} is the id of another NPU already")
        ids.append(member)
    return tuple(ids)


def _chip(section: Section) -> ChipSpec:
    name = section.take("model")
    model = MODELS.get(str(name))
    if model is None:
        raise section.error("model", f"{unknown(name)}; allowed: {', '.join(MODELS)}")
    return ChipSpec(model=model, ambient_celsius=section.number("ambient_celsius", 28.0, 0, 60))
