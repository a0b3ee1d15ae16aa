"""What goes wrong in a day, by the number of the step; everything is well again some steps later."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from bench.certificate import SelfSigned

from accelscope.simulate.faults import Fault, FaultKind
from accelscope.simulate.kubernetes import SimulatedCluster
from tools.soak.churn import AMD_DEVICES, NVIDIA_DEVICES, ChurningNode

_ROUND = 20  # steps in which each fault of a device or driver has its turn
_AT: dict[int, FaultKind | None] = {
    2: FaultKind.LOST,
    4: None,
    6: FaultKind.VANISHED,
    8: None,
    10: FaultKind.HANG,
    12: None,
    14: FaultKind.DRIVER_NOT_LOADED,
    15: None,
    17: FaultKind.LIBRARY_MISSING,
    18: None,
}


@dataclass(slots=True)
class Troubles:
    """Counts what it did, by name."""

    node: ChurningNode
    cluster: SimulatedCluster
    config: Path
    certificates: tuple[SelfSigned, SelfSigned]
    certificate: Path  # what the agent serves with, and its key beside it
    key: Path
    done: Counter[str] = field(default_factory=Counter)
    _again: list[Callable[[], None]] = field(default_factory=list)

    def before(self, step: int) -> None:
        while self._again:
            self._again.pop()()
        self._driver(step)
        self._kubernetes(step)
        if step % 12 == 7:
            self._configure(step)
        if step % 18 == 13:
            self._rotate_certificate()

    def _driver(self, step: int) -> None:
        turn, number = divmod(step, _ROUND)
        if number not in _AT:
            return
        kind = _AT[number]
        if kind is None:
            self.node.write_faults(())
            return
        vendor = "amd" if turn % 4 == 3 and kind.of_device else "nvidia"
        device = turn % (AMD_DEVICES if vendor == "amd" else NVIDIA_DEVICES) if kind.of_device else None
        self.node.write_faults([Fault(kind=kind, vendor=vendor, device=device)])
        self.done[f"{kind}".replace("_", " ")] += 1

    def _kubernetes(self, step: int) -> None:
        if step % 10 == 1:
            self._note("watches disconnected", self.cluster.disconnect)
        if step % 25 == 5:
            self._note("API server down", self.cluster.api_down, self.cluster.api_up)
        if step % 30 == 9:
            self.cluster.expire_versions(as_status=step % 60 == 9)
            self._note("versions forgotten", self.cluster.disconnect)
        if step % 40 == 11:
            self._note("token rotated", self.cluster.rotate_token)
        if step % 15 == 4:
            self._note("kubelet restarted", self.cluster.kubelet_down, self.cluster.kubelet_up)

    def _note(self, what: str, happen: Callable[[], None], again: Callable[[], None] | None = None) -> None:
        happen()
        self.done[what] += 1
        if again is not None:
            self._again.append(again)

    def _configure(self, step: int) -> None:
        bad = step % 36 == 7
        text = "collectionInterval: never\n" if bad else settings_text(step)
        _replace(self.config, text.encode())
        self.done["settings that are wrong" if bad else "settings reloaded"] += 1

    def _rotate_certificate(self) -> None:
        self.done["certificate rotated"] += 1
        place_certificate(self.certificates[self.done["certificate rotated"] % 2], self.certificate, self.key)


def settings_text(step: int) -> str:
    """Of the file that the agent re-reads."""
    return f"collectionInterval: 200ms\nlabels: {{round: '{step}'}}\n"


def place_certificate(made: SelfSigned, certificate: Path, key: Path) -> None:
    _replace(key, made.key.read_bytes())
    _replace(certificate, made.file.read_bytes())


def _replace(path: Path, content: bytes) -> None:
    scratch = path.with_suffix(".new")
    scratch.write_bytes(content)
    scratch.replace(path)
