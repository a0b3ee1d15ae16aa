"""What npu-smi says to which command line, and what it says instead when something is wrong."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from accelscope.simulate.tool import Answer, Tool
from accelscope.vendors.ascend.simulated import commands, info_table
from accelscope.vendors.ascend.simulated.models import Layout
from accelscope.vendors.ascend.simulated.readings import ChipReading
from accelscope.vendors.ascend.simulated.spec import AscendSpec

_NOISE = "DrvMngGetConsoleLogLevel failed. (g_conLogLevel=3)\n"
LIBRARY = "libdrvdsmi_host.so"

NO_ACCESS = Answer(text=f"{_NOISE}dcmi module initialize failed. ret is -8005\n", exit_code=187)
ERRORS = {
    "no_access": NO_ACCESS,
    "in_use": Answer(
        text="dcmi model initialized failed, because the device is used. ret is -8020\n", exit_code=172
    ),
    "board_type": Answer(text="npu get board type failed. ret is -9005\n", exit_code=211),
    "no_npus": Answer(text="There is no NPU card on this server.\n", exit_code=0),
    # Another program that has the same name, and speaks of other devices.
    "other_tool": Answer(text="npu-smi (AMD XDNA)\nNPU 0: RyzenAI-npu4, 3 % busy\n", exit_code=0),
}
_NOT_SUPPORTED = Answer(
    patterns=("info -t *",), text="This device does not support querying that.\n", exit_code=0
)
_UNKNOWN = Answer(text="Command or option is not found.\n", exit_code=255)
_WRONG_NPU = "Error parameter of -i\n"


def tool(spec: AscendSpec) -> Tool:
    return Tool(name="npu-smi", cost=spec.tool, library=LIBRARY, errors=ERRORS)


def answers(spec: AscendSpec, readings: Sequence[ChipReading]) -> Iterator[Answer]:
    """The first that fits is given."""
    listed = [reading for reading in readings if reading.listed]
    if not listed:
        yield ERRORS["no_npus"]
        return
    boards = [list(chips) for _, chips in groupby(listed, key=lambda reading: reading.chip.board)]
    for chips in boards:
        if any(reading.hangs for reading in chips):
            number = chips[0].chip.board
            yield Answer(patterns=("info", f"info -t * -i {number}", f"info -t * -i {number} -*"), hangs=True)
    noise = _NOISE if spec.noisy else ""
    yield Answer(patterns=("info",), text=noise + info_table.render(spec, listed))
    yield Answer(patterns=("info -m",), text=noise + commands.mapping(listed))
    yield Answer(patterns=("info -l",), text=noise + commands.listing(boards))
    for chips in boards:
        for pattern, text in _of_board(spec, chips):
            yield Answer(patterns=(f"info -t {pattern}",), text=noise + text)
    yield Answer(patterns=("info -t * -i *",), text=_WRONG_NPU, exit_code=255)
    yield _NOT_SUPPORTED
    yield _UNKNOWN


def _of_board(spec: AscendSpec, chips: Sequence[ChipReading]) -> Iterator[tuple[str, str]]:
    """A chip that the driver lost answers nothing; the others of its board do."""
    number = chips[0].chip.board
    reached = [reading for reading in chips if reading.shown]
    if not reached:
        yield f"* -i {number}*", 'Failed to query "it" result.\n'
        return
    has_chips = chips[0].chip.model.layout is not Layout.NO_CHIPS
    for reading in reached:
        chip = f" -c {reading.chip.number}" if has_chips else ""
        yield f"health -i {number}{chip}", commands.health(reading)
        if has_chips:
            yield f"board -i {number}{chip}", commands.chip_board(reading)
    if has_chips:
        yield f"board -i {number}", commands.board(spec, chips)
    else:
        yield f"board -i {number}", commands.npu_board(spec, chips[0])
    yield f"usages -i {number}", commands.usages(reached)
    yield f"common -i {number}", commands.common(reached)
    yield f"ecc -i {number}", commands.ecc(reached)
    yield f"memory -i {number}", commands.memory(reached)
    yield f"volt -i {number}", commands.volt(reached)
    yield f"proc-mem -i {number}", commands.processes(spec, reached)
