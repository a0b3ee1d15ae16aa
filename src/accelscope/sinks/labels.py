"""The sink that labels the Node directly, by server-side apply: labels that it no longer applies go."""

from collections.abc import Callable, Mapping

from accelscope.kube.client import Client
from accelscope.kube.objects import labels_patch, send
from accelscope.model import Snapshot
from accelscope.sinks.known import Knowledge
from accelscope.sinks.sink import Pace, Sink, Timing

LABELS = "labels"
FIELD_MANAGER = "accelscope"
PACE = Pace(interval_seconds=10.0, renewal_seconds=600.0)

Labels = Mapping[str, str]
Features = Callable[[Snapshot], Labels]


class Settled:
    """Labels move pods: they are believed when two looks in a row agree, so that a reader that is still
    getting to know its devices does not show fewer of them."""

    def __init__(self, features: Features, monotonic: Callable[[], float]) -> None:
        self._features = features
        self._known = Knowledge(monotonic)
        self._before: Labels | None = None

    def look(self, snapshot: Snapshot) -> Labels | None:
        if not self._known.is_enough(snapshot):
            self._before = None
            return None
        now = self._features(snapshot)
        before, self._before = self._before, now
        return now if now == before else None


class LabelsSink(Sink[Labels]):
    def __init__(
        self,
        client: Client,
        node: str,
        features: Features,
        *,
        writer: str = FIELD_MANAGER,
        pace: Pace = PACE,
        timing: Timing | None = None,
    ) -> None:
        """`writer` is the field manager: each agent of a node has its own, for applying takes away what the
        same manager applied before."""
        super().__init__(LABELS, pace, client=client, timing=timing)
        self._api_server = client
        self._writer = writer
        self._node = node
        self._settled = Settled(features, self._timing.monotonic)

    def _content(self, snapshot: Snapshot) -> Labels | None:
        return self._settled.look(snapshot)

    def _differs(self, content: Labels, written: Labels) -> bool:
        return content != written

    def _write(self, content: Labels) -> None:
        apply_labels(self._api_server, self._node, content, writer=self._writer)


def apply_labels(
    client: Client, node: str, labels: Labels, *, writer: str = FIELD_MANAGER, dry_run: bool = False
) -> None:
    """Raises KubeError."""
    send(client, labels_patch(node, labels, manager=writer, dry_run=dry_run))
