"""A fleet, through its API: an overview of clusters and one page of nodes, or one node with all on it.

However large the fleet is, an answer is a page.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote, urlencode

from accelscope.kube.endpoint import Endpoint
from accelscope.kube.errors import KubeError, Reason, one_line
from accelscope.top.sources import from_rows
from accelscope.top.sources.client import JsonClient, is_agent, is_fleet
from accelscope.top.sources.fields import RowError, rows, text
from accelscope.top.sources.source import Question
from accelscope.top.view.shown import Kind, NodeView, Overview, Sums, View

ANSWER_LIMIT = 64 << 20  # bytes
MOST_CLUSTERS = 1000  # as many as the API puts on one page
TROUBLES_LIMIT = 50
# What a person must see first: lost and sick devices, then nodes that are not read, then heat.
WHAT_MATTERS = "-devices_lost,-devices_unhealthy,-state,-temperature_max_celsius"

Key = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class _Known:
    """The last answer; `received` by the monotonic clock."""

    tag: str
    document: Mapping[str, Any]
    received: float


class FleetSource:
    kind = Kind.FLEET

    def __init__(self, endpoint: Endpoint, *, timeout_seconds: float, page_size: int = 100) -> None:
        self.title = endpoint.url
        self._page_size = page_size
        self._client = JsonClient(endpoint, timeout_seconds=timeout_seconds, limit_bytes=ANSWER_LIMIT)
        self._known: dict[str, _Known] = {}  # by path
        self._asked: set[str] = set()  # paths of the view that is being made
        self._cursors: dict[Key, list[str]] = {}
        self._last: dict[Question, tuple[float, View]] = {}

    def start(self) -> None:
        pass

    def read(self, question: Question) -> View:
        self._asked = set()
        try:
            view = self._read(question)
        except KubeError as error:
            if error.reason is Reason.NOT_FOUND and question.node is not None and is_fleet(self._client):
                return self._unknown(question, *question.node)
            if error.reason is Reason.NOT_FOUND and is_agent(self._client):
                return self._failed(question, "this is an agent, not a fleet: leave --fleet out")
            return self._failed(question, str(error).removeprefix(f"{self.title}: "))
        except RowError as error:
            return self._failed(question, one_line(f"its answer is not that of a fleet: {error}"))
        # One at a time is looked at: what was asked for before is not kept.
        self._known = {path: known for path, known in self._known.items() if path in self._asked}
        self._last = {question: (time.monotonic(), view)}
        return view

    def settle(self) -> None:
        pass

    def hurry(self, interval_seconds: float) -> None:
        pass

    def refresh(self) -> None:
        pass  # it is asked at every reading

    def stop(self) -> None:
        self._client.close()

    def _unknown(self, question: Question, cluster: str, node: str) -> View:
        """The fleet is well, and has no such node, or has it no longer."""
        error = f"the fleet knows no node {node} in cluster {cluster}"
        known = NodeView(key=f"{cluster}/{node}", name=node, cluster=cluster, source=self.title)
        if question in self._last:
            [known] = self._last[question][1].nodes
        return View(kind=self.kind, title=self.title, at=time.time(), nodes=(replace(known, error=error),))

    def _failed(self, question: Question, error: str) -> View:
        """What is known of it, and how old that is."""
        if question in self._last:
            read_at, view = self._last[question]
            age = time.monotonic() - read_at
            return View(
                kind=self.kind,
                title=self.title,
                at=time.time(),
                nodes=view.nodes,
                overview=view.overview,
                error=error,
                age_seconds=age,
            )
        overview = Overview(sums=Sums()) if question.node is None else None
        nodes: tuple[NodeView, ...] = ()
        if question.node is not None:
            cluster, node = question.node
            nodes = (NodeView(key=f"{cluster}/{node}", name=node, cluster=cluster, source=self.title),)
        return View(
            kind=self.kind, title=self.title, at=time.time(), overview=overview, nodes=nodes, error=error
        )

    def _read(self, question: Question) -> View:
        if question.node is not None:
            cluster, node = (quote(part, safe="") for part in question.node)
            document = self._get(f"/api/v1/nodes/{cluster}/{node}")
            found = from_rows.node_view(document, source=self.title)
            return View(kind=self.kind, title=self.title, at=time.time(), nodes=(found,))
        return View(kind=self.kind, title=self.title, at=time.time(), overview=self._overview(question))

    def _overview(self, question: Question) -> Overview:
        summary = self._get(f"/api/v1/summary?group_by=cluster&limit={MOST_CLUSTERS}")
        clusters = self._get("/api/v1/clusters")
        health = self._get(f"/api/v1/health?limit={TROUBLES_LIMIT}")
        page, number = self._nodes(question)
        return from_rows.overview(summary, clusters, health, page, number)

    def _nodes(self, question: Question) -> tuple[Any, int]:
        """The page, and its number: a list may have become shorter since it was asked for."""
        wanted = {
            "sort": question.sort or WHAT_MATTERS,
            "limit": str(self._page_size),
            **({"cluster": question.cluster} if question.cluster else {}),
            **({"q": question.text} if question.text else {}),
        }
        key = tuple(wanted.items())
        cursors = self._cursors.setdefault(key, [""])
        self._cursors = {key: cursors}
        # From the last page whose beginning is known, so that a page far down costs one request.
        number, refused = min(question.page, len(cursors) - 1), False
        while True:
            cursor = cursors[number]
            try:
                page = self._get(
                    "/api/v1/nodes?" + urlencode(wanted | ({"cursor": cursor} if cursor else {}))
                )
            except KubeError as error:
                if number == 0 or error.reason is not Reason.BAD_ANSWER:
                    raise
                del cursors[1:]  # of a list that is no longer as it was
                number, refused = 0, True
                continue
            following = text(page, "next")
            if number > 0 and not rows(page, "items"):  # the list has become shorter
                del cursors[number:]
                number, refused = number - 1, True
                continue
            del cursors[number + 1 :]
            if following:
                cursors.append(following)
            if number >= question.page or not following or refused:
                return page, number
            number += 1

    def _get(self, path: str) -> Any:
        self._asked.add(path)
        known = self._known.get(path)
        answer = self._client.get(path, None if known is None else known.tag)
        if answer.unchanged and known is not None:
            return _aged(known.document, time.monotonic() - known.received)
        if not isinstance(answer.document, Mapping):
            raise RowError("it is no object")
        if (tag := answer.headers.get("etag")) is not None:
            self._known[path] = _Known(tag, answer.document, time.monotonic())
        return answer.document


def _aged(document: Mapping[str, Any], seconds: float) -> Mapping[str, Any]:
    """The same so much later, where ages are shown: the fleet's tags are of its data, not of their age."""
    aged = dict(document)
    if isinstance(items := aged.get("items"), list):
        aged["items"] = [_older(row, seconds) for row in items]
    if "node" in aged:
        aged["node"] = _older(aged["node"], seconds)
    return aged


def _older(row: Any, seconds: float) -> Any:
    age = row.get("age_seconds") if isinstance(row, Mapping) else None
    return {**row, "age_seconds": age + seconds} if isinstance(age, int | float) else row
