"""This node, read with the readers, attribution and collector of the agent, without its server."""

import socket
import threading
import time
from collections.abc import Mapping

from accelscope import __version__
from accelscope.agent.assembly import attribution_options, make_runners
from accelscope.agent.collector import CollectionInterval, Collector, PassCounter
from accelscope.agent.settings import AgentSettings
from accelscope.attribution.attributor import Attributor
from accelscope.model import Snapshot
from accelscope.model.wire import snapshot_document
from accelscope.top.sources.source import Query, node_view
from accelscope.top.view.model import NodeView, View, ViewKind

SOURCE = "this node"
_LISTS_SECONDS = 3.0  # --once waits this long for the names of pods
_APART_SECONDS = 1.0  # between two readings, because some values are their difference


class LocalSource:
    kind = ViewKind.LOCAL

    def __init__(
        self,
        settings: AgentSettings,
        environ: Mapping[str, str],
        *,
        keep_documents: bool = False,
        once: bool = False,
    ) -> None:
        """With `once`, slow tools are waited for. Raises ConfigError for contradictory settings."""
        self._settings = settings
        self._keep_documents = keep_documents
        node = settings.node_name or socket.gethostname()
        self.title = node
        self.proc_root = settings.proc_root
        self._attributor = Attributor(attribution_options(settings, node, environ))
        changed = threading.Condition()
        self._collector = Collector(
            make_runners(settings, changed, once=once),
            self._attributor,
            node=node,
            version=__version__,
            pace=CollectionInterval(settings.reader_timeout),  # the first read may take this long
            changed=changed,
            publish=lambda _: None,
        )
        self.abandoned_calls = 0

    def start(self) -> None:
        self._attributor.start()

    def read(self, query: Query) -> View:
        del query  # there is one node
        snapshot = self._collector.collect()
        self.abandoned_calls = sum(reader.abandoned_calls for reader in snapshot.readers)
        return View(kind=self.kind, title=self.title, at=time.time(), nodes=(self._node(snapshot),))

    def settle(self) -> None:
        self._attributor.wait_for_first_lists(_LISTS_SECONDS)
        passes = PassCounter()
        snapshot = self._collector.collect()
        while passes.needs_another(snapshot.readers, snapshot.devices):
            snapshot = self._collector.collect()
        time.sleep(_APART_SECONDS)

    def hurry(self, interval_seconds: float) -> None:
        self._collector.pace = CollectionInterval(max(interval_seconds, 1.0))

    def refresh(self) -> None:
        pass  # every read is a collection

    def stop(self) -> None:
        self._collector.stop()

    def _node(self, snapshot: Snapshot) -> NodeView:
        document = snapshot_document(snapshot) if self._keep_documents else None
        return node_view(snapshot, key=snapshot.node, source=SOURCE, age_seconds=0.0, document=document)
