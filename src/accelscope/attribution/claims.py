"""Which device a claim means: the watch on this node's ResourceSlices, begun when a pod holds a claim."""

from accelscope.attribution.device_ids import UNRESOLVED, DeviceIndex, Resolved
from accelscope.attribution.options import AttributionOptions
from accelscope.attribution.pod_resources import ClaimDevice
from accelscope.attribution.resource_slices import PublishedSlice, SliceTable, decode_slice, device_for
from accelscope.attribution.watches import Watched, client_of
from accelscope.kube.informer import BlockingInformer, watch_resource_slices
from accelscope.model import AttributionSourceState


class _Slices(Watched[PublishedSlice]):
    def __init__(self, informer: BlockingInformer[PublishedSlice]) -> None:
        super().__init__("resource-slices", informer)
        self._version = -1
        self._table = SliceTable()

    def table(self) -> SliceTable:
        if self._informer.version != self._version:
            self._version = self._informer.version
            self._table = SliceTable(self._informer.items.values())
        return self._table


class Claims:
    def __init__(self, options: AttributionOptions) -> None:
        self._options = options
        self._slices: _Slices | None = None
        self.asked = False  # a pod holds or held a claim, and there is somebody to ask what it means

    def resolve(self, device: ClaimDevice, index: DeviceIndex) -> Resolved:
        if self._slices is None:
            if not self._options.resource_slices or self._options.api_server is None:
                return UNRESOLVED
            self.asked = True
            slices = _Slices(
                watch_resource_slices(
                    client_of(self._options.api_server),
                    self._options.node,
                    decode=decode_slice,
                    key=lambda published: published.uid,
                )
            )
            try:
                slices.start()
            except RuntimeError:  # no thread to be had: the next collection tries again
                return UNRESOLVED
            self._slices = slices
        return device_for(device, self._slices.table(), index)

    def state(self) -> AttributionSourceState | None:
        return None if self._slices is None else self._slices.state()

    def stop(self) -> None:
        if self._slices is not None:
            self._slices.stop()
