"""The sources that a cluster's entry names, opened."""

from collections.abc import Callable
from dataclasses import dataclass

from accelscope.fleet.api_server import Informer, Session
from accelscope.fleet.api_server.objects import NodeObject, decode_agent_pod, decode_driver_pod, pod_key
from accelscope.fleet.clusters import AgentsEntry, ClusterEntry, ExecEntry
from accelscope.fleet.refresh.pacing import Pacing
from accelscope.fleet.report import Source
from accelscope.fleet.sources.agents import AgentsSource
from accelscope.fleet.sources.annotations import AnnotationsSource
from accelscope.fleet.sources.exec import ExecSource
from accelscope.fleet.sources.pace import LoopShare, Pace
from accelscope.fleet.sources.prometheus import PrometheusSource
from accelscope.fleet.sources.reach import DirectReach, ProxyReach, Reach
from accelscope.kube.listwatch import pods_in


@dataclass(frozen=True, slots=True)
class Opened:
    source: Source
    by_api_server: bool  # nothing of it can be had while the API server is out of reach


def open_sources(
    entry: ClusterEntry,
    session: Session | None,
    nodes: Informer[NodeObject] | None,
    *,
    pacing: Pacing,
    loop_share: LoopShare,
    is_covered: Callable[[str], bool],
) -> list[Opened]:
    """In the order of precedence. To be called in a running loop; each is to be closed."""
    opened: list[Opened] = []
    if session is not None and nodes is not None:
        if entry.agents is not None:
            agents = _agents(entry.agents, session, pacing, loop_share)
            opened.append(Opened(agents, by_api_server=entry.agents.via == "proxy"))
        if entry.exec is not None:
            commands = _exec(entry.exec, session, loop_share, is_covered)
            opened.append(Opened(commands, by_api_server=True))
        if entry.annotations is not None:
            opened.append(Opened(AnnotationsSource(nodes, loop_share=loop_share), by_api_server=True))
    if entry.prometheus is not None:
        opened.append(Opened(PrometheusSource(entry.prometheus, loop_share=loop_share), by_api_server=False))
    return opened


def _agents(entry: AgentsEntry, session: Session, pacing: Pacing, loop_share: LoopShare) -> AgentsSource:
    reach: Reach
    if entry.via == "direct":
        reach = DirectReach(entry, connections=pacing.concurrency, timeout_seconds=pacing.timeout_seconds)
    else:
        reach = ProxyReach(session, entry)
    return AgentsSource(
        session.follow(pods_in(entry.namespace, entry.label_selector), decode=decode_agent_pod, key=pod_key),
        reach,
        pace=Pace(pacing.per_second),
        loop_share=loop_share,
        concurrency=pacing.concurrency,
        token_file=entry.token_file,
    )


def _exec(
    entry: ExecEntry, session: Session, loop_share: LoopShare, is_covered: Callable[[str], bool]
) -> ExecSource:
    pods = [
        session.follow(
            pods_in(namespace),
            decode=decode_driver_pod,
            key=pod_key,
            keep=lambda pod: pod.container is not None,
        )
        for namespace in entry.namespaces
    ]
    return ExecSource(session, pods, entry, is_covered=is_covered, loop_share=loop_share)
