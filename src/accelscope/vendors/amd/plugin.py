"""AMD's GPUs: the compute driver's node, which all of them share, and the GPU's own under /dev/dri."""

from collections.abc import Sequence

from accelscope.deviceplugin.vendor import Edits, Given, Node, NotAvailable, Roots, Unit
from accelscope.model import Device
from accelscope.vendors.amd.drm import Cards, ComputeDriver

_COMPUTE, _GRAPHICS = "kfd", "dri"
_CDI_KIND = "amd.com/gpu"


class AmdPart:
    def __init__(self, roots: Roots) -> None:
        self._roots = roots
        self._cut: set[str] = set()  # by Device.id

    def usual_resource(self, devices: Sequence[Device], partition_cores: int) -> str:  # noqa: ARG002
        return "amd.com/gpu"

    def belongs(self, device: Device, resource: str, partition_cores: int) -> bool:  # noqa: ARG002
        return True

    def units(self, device: Device, resource: str, cores_per_unit: int) -> tuple[Unit, ...]:  # noqa: ARG002
        """A GPU that is cut into partitions is handed out with all of them, and goes by its uuid: AMD's own
        plugin calls the first of them by the GPU's address. It stays so while its partitions are not told,
        as of one that is asleep: a second id would be a second GPU to the kubelet."""
        if device.pci_address is None or self._has_lost_its_files(device):
            return ()
        if device.partitions:
            self._cut.add(device.id)
        uuid = device.uuid if device.id in self._cut else None
        return (Unit(uuid or device.pci_address),)

    def cdi_name(self, device: Device) -> str | None:
        """AMD's tools count GPUs by their PCI addresses, and so does what makes its CDI specification."""
        return None if device.index is None else f"{_CDI_KIND}={device.index}"

    def edits(self, given: Sequence[Given], *, cdi: bool) -> Edits:
        if cdi:
            return Edits(cdi=tuple(self._cdi_name(each.device) for each in given))
        cards = {card.pci_address: card for card in Cards(self._roots.sys).find()}
        partitions = ComputeDriver(self._roots.sys).nodes()
        names = [_COMPUTE]
        for each in given:
            address = each.device.pci_address or ""
            card = cards.get(address)
            if card is None:
                raise NotAvailable(f"{address}: amdgpu does not show this GPU now")
            parts = partitions.get(address.rpartition(".")[0], ())
            own = [*card.nodes, *(part.render_node for part in parts if part.render_node is not None)]
            names += [f"{_GRAPHICS}/{name}" for name in sorted(dict.fromkeys(own))]
        missing = [name for name in names if not (self._roots.dev / name).exists()]
        if missing:
            raise NotAvailable(f"{missing[0]} is not in {self._roots.dev}")
        return Edits(
            nodes=tuple(
                Node(f"{self._roots.container_dev}/{name}", f"{self._roots.host_dev}/{name}")
                for name in dict.fromkeys(names)
            )
        )

    def _has_lost_its_files(self, device: Device) -> bool:
        """A plugin that is not shown them at all can still answer with CDI names."""
        dev = self._roots.dev
        if not (dev / _GRAPHICS).is_dir():
            return False
        own = [_COMPUTE] if device.device_name is None else [_COMPUTE, f"{_GRAPHICS}/{device.device_name}"]
        return not all((dev / name).exists() for name in own)

    def _cdi_name(self, device: Device) -> str:
        name = self.cdi_name(device)
        if name is None:
            raise NotAvailable(f"{device.pci_address}: nothing tells which number this GPU has for CDI")
        return name


def open_part(roots: Roots) -> AmdPart:
    return AmdPart(roots)
