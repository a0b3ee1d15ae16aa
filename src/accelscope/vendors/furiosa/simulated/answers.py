"""What furiosa-smi and furiosactl answer in common: errors, and what the driver's faults make of them."""

from collections.abc import Iterable, Iterator

from accelscope.simulate.faults import FaultKind
from accelscope.simulate.proc import SECRET_ARGUMENT
from accelscope.simulate.tool import Answer
from accelscope.vendors.furiosa.simulated.readings import CardReading

# In the words of the vendor's library; what the tools themselves print around them nobody has captured.
NO_DEVICE = Answer(error_text="Error: device not found error\n", exit_code=1)
ERRORS = {
    "no_devices": NO_DEVICE,
    "no_permission": Answer(error_text="Error: permission denied error\n", exit_code=1),
    "io": Answer(error_text="Error: io error\n", exit_code=1),
    "busy": Answer(error_text="Error: device busy error\n", exit_code=1),
}
UNKNOWN = Answer(error_text="error: unexpected argument found\n\nUsage: <COMMAND>\n", exit_code=2)
_MISMATCH = Answer(error_text="Error: incompatible driver error\n", exit_code=1)


def instead(tool: str, kinds: Iterable[FaultKind], cards: Iterable[CardReading]) -> Iterator[Answer]:
    """What comes before all other answers when driver or cards are not well. `cards` are the tool's own."""
    kinds = frozenset(kinds)
    if FaultKind.LIBRARY_MISSING in kinds:
        yield Answer(
            error_text=f"{tool}: error while loading shared libraries: libfuriosa_smi.so: cannot open shared "
            "object file: No such file or directory\n",
            exit_code=127,
        )
    if FaultKind.DRIVER_NOT_LOADED in kinds:
        yield NO_DEVICE
    if FaultKind.VERSION_MISMATCH in kinds:
        yield _MISMATCH
    if any(card.hangs and card.listed for card in cards):
        yield Answer(hangs=True)


def watts(value: float) -> str:
    return f"{value:.2f} W"


def command(name: str) -> str:
    """A process with arguments, which readers must not keep."""
    return f"/usr/bin/{name} {SECRET_ARGUMENT}"
