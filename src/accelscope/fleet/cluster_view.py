"""What is known of a cluster as such, beside its nodes: as the API shows it."""

from typing import Annotated

from msgspec import Meta, Struct


class SourceView(Struct, frozen=True, kw_only=True, gc=False):
    """How one source of a cluster is doing."""

    kind: Annotated[str, Meta(description="`agents`, `exec`, `annotations` or `prometheus`")]
    up: Annotated[bool | None, Meta(description="null: not asked yet")] = None
    reason: Annotated[str | None, Meta(description="why it is not up, in a short word")] = None
    text: Annotated[str | None, Meta(description="why it is not up, for people")] = None
    refreshed_at: Annotated[float | None, Meta(description="seconds since the epoch")] = None
    succeeded_at: Annotated[float | None, Meta(description="when it last did, seconds since the epoch")] = (
        None
    )
    duration_seconds: Annotated[float | None, Meta(description="how long the last reading took")] = None
    expected: Annotated[int, Meta(description="nodes that it should have heard of")] = 0
    answered: Annotated[int, Meta(description="nodes that answered")] = 0
    errors: Annotated[int, Meta(description="refreshes that failed, and nodes that did not answer")] = 0


class ClusterView(Struct, frozen=True, kw_only=True):
    """A cluster of the file. `reachable` is about its API server, or about its store where it has none."""

    id: Annotated[str, Meta(description="as the clusters file has it")]
    name: str | None = None
    simulated: bool = False
    gpu: Annotated[bool | None, Meta(description="whether it has accelerators; null: not known yet")] = None
    gpu_setting: Annotated[str, Meta(description="`true`, `false` or `auto`")] = "auto"
    reachable: Annotated[bool | None, Meta(description="null: not tried yet")] = None
    reason: Annotated[str | None, Meta(description="why it is not well, in a short word")] = None
    text: Annotated[str | None, Meta(description="why it is not well, for people")] = None
    succeeded_at: Annotated[float | None, Meta(description="null: it was never reached")] = None
    age_seconds: Annotated[float | None, Meta(description="since anything of it was read")] = None
    sources: Annotated[list[SourceView], Meta(description="what it is read from")] = []
    nodes: Annotated[
        int | None, Meta(description="number of nodes; null: nothing was read of the cluster yet")
    ] = None
    devices: Annotated[
        int | None, Meta(description="number of devices; null: nothing was read of the cluster yet")
    ] = None
