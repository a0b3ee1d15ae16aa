"""The sink that writes annotations of the Node: what old collectors wrote, and the vendor-neutral form."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from accelscope.kube.client import Client
from accelscope.kube.errors import KubeError, Reason
from accelscope.kube.node_patch import annotations_patch, send
from accelscope.model import Snapshot, Vendor
from accelscope.sinks.dead_band import differ
from accelscope.sinks.documents import (
    BUDGET_BYTES,
    DEVICES,
    NPU_METRICS,
    Document,
    Fitted,
    devices_document,
    fitted,
    npu_document,
)
from accelscope.sinks.known import Knowledge
from accelscope.sinks.sink import Pace, Sink, Timing

NAME = "annotation"
_SMALLEST_BUDGET_BYTES = 4 << 10
_ANNOTATIONS_FIELD = "metadata.annotations"  # what the server names when they are too long together
_UNPROCESSABLE = 422

# Of each annotation: how it is made, and whose devices it needs to know (None: everybody's).
Recipe = tuple[Callable[[Snapshot], Document], Vendor | None]
ANNOTATIONS: Mapping[str, Recipe] = MappingProxyType(
    {NPU_METRICS: (npu_document, Vendor.ASCEND), DEVICES: (devices_document, None)}
)

Documents = Mapping[str, Document | None]  # by annotation; None: it should not be there


def recipe_of(annotation: str) -> Recipe:
    """Of one of ANNOTATIONS, or of a `devices_annotation`."""
    return ANNOTATIONS[DEVICES if annotation.startswith(f"{DEVICES}.") else annotation]


class AnnotationSink(Sink[Documents]):
    def __init__(
        self,
        client: Client,
        node: str,
        annotations: tuple[str, ...],
        pace: Pace,
        *,
        timing: Timing | None = None,
    ) -> None:
        super().__init__(NAME, pace, client=client, timing=timing)
        self._api_server = client
        self._node = node
        self._annotations = annotations
        self._budget_bytes = BUDGET_BYTES // len(annotations)
        self._known = {name: Knowledge(self._timing.monotonic) for name in annotations}
        self._had: set[str] = set()  # annotations that had a device since the agent started

    def _content(self, snapshot: Snapshot) -> Documents | None:
        content: dict[str, Document | None] = {}
        for annotation in self._annotations:
            make, vendor = recipe_of(annotation)
            document = make(snapshot)
            if document.entries:
                self._had.add(annotation)
            elif not self._known[annotation].is_enough(snapshot, vendor):
                continue  # what is not known of one says nothing of the other
            content[annotation] = document if annotation in self._had else None
        return content or None

    def _differs(self, content: Documents, written: Documents) -> bool:
        return any(
            name not in written or _changed(document, written[name]) for name, document in content.items()
        )

    def _renews(self, content: Documents) -> bool:
        return any(document is not None for document in content.values())

    def _write(self, content: Documents) -> str | None:
        forms = {
            name: None if document is None else fitted(document, self._budget_bytes)
            for name, document in content.items()
        }
        try:
            annotate(self._api_server, self._node, forms)
        except KubeError as error:
            too_large = error.status == _UNPROCESSABLE and _ANNOTATIONS_FIELD in error.text
            if not too_large or self._budget_bytes <= _SMALLEST_BUDGET_BYTES:
                raise
            # The server looks at all annotations together, and ours are what can be made smaller.
            self._budget_bytes = max(self._budget_bytes // 2, _SMALLEST_BUDGET_BYTES)
            raise KubeError(Reason.TOO_LARGE, error.text, status=error.status) from None
        return "; ".join(filter(None, map(_left_out, forms.items()))) or None


def annotate(client: Client, node: str, forms: Mapping[str, Fitted | None], *, dry_run: bool = False) -> None:
    """Raises KubeError."""
    texts = {name: None if form is None else form.text for name, form in forms.items()}
    send(client, annotations_patch(node, texts, dry_run=dry_run))


def _changed(document: Document | None, written: Document | None) -> bool:
    if document is None or written is None:
        return document is not written
    return differ(document, written)


def _left_out(form: tuple[str, Fitted | None]) -> str | None:
    name, made = form
    if made is None or not (made.without_values or made.left_out):
        return None
    said = f"{name} has no room for the values of {made.without_values} devices"
    return f"{said} and for {made.left_out} devices at all" if made.left_out else said
