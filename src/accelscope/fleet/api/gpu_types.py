"""What exec-based collectors answer with, field for field, and ours behind them."""

from typing import Annotated

from msgspec import Meta, Struct

Measured = int | float | None
Percent = Annotated[Measured, Meta(description="0 to 100; null: not known")]
Megabytes = Annotated[Measured, Meta(description="bytes / 2^20; null: not known")]
Age = Annotated[float | None, Meta(description="seconds since it was read")]
Stale = Annotated[bool, Meta(description="nothing newer came for longer than it should take")]


class Gpu(Struct, frozen=True, gc=False):
    index: int | None
    uuid: str | None
    name: Annotated[str | None, Meta(description="model, as the driver names it")]
    driver_version: str | None
    temperature_celsius: Measured
    utilization_gpu_percent: Percent
    utilization_memory_percent: Percent
    memory_total_mb: Megabytes
    memory_used_mb: Megabytes
    memory_free_mb: Megabytes
    power_draw_watts: Measured
    power_limit_watts: Measured
    pcie_generation: int | None
    pcie_link_width: int | None
    fan_speed_percent: Percent
    vendor: str
    id: Annotated[str, Meta(description="as the vendor-neutral API names it")]
    health: str


class GpuNode(Struct, frozen=True, kw_only=True):
    node_name: str
    cluster_id: str
    gpus: Annotated[list[Gpu], Meta(description="its GPUs")]
    gpu_count: int
    total_memory_mb: Annotated[int | float, Meta(description="of those GPUs of which it is known")]
    labels: Annotated[dict[str, str], Meta(description="of the Node object")]
    age_seconds: Age
    stale: Stale
    simulated: bool
    source: str | None


class GpuProcess(Struct, frozen=True, gc=False):
    pid: int
    gpu_index: Annotated[int | None, Meta(description="number of the GPU on its node")]
    process_type: Annotated[
        str, Meta(description="`compute` (also where it is both), `graphics` or `unknown`")
    ]
    sm_utilization: Percent
    memory_utilization: Percent
    encoder_utilization: Percent
    decoder_utilization: Percent
    fb_memory_mb: Megabytes
    command: Annotated[str | None, Meta(description="the program's name, never its arguments")]
    node_name: str
    cluster_id: str
    age_seconds: Age
    stale: Stale
    simulated: bool
    gpu_id: Annotated[str, Meta(description="id of the device, as in the tables")]
    namespace: Annotated[str | None, Meta(description="of its pod; null: in none, or not known")]
    pod: Annotated[str | None, Meta(description="null: in none, or not known")]
    container: Annotated[str | None, Meta(description="null: in none, or not known")]


class GpuSummary(Struct, frozen=True, kw_only=True):
    cluster_id: str
    node_count: Annotated[int | None, Meta(description="nodes with GPUs; null: its GPUs were not read yet")]
    gpu_count: Annotated[int | None, Meta(description="null: its GPUs were not read yet")]
    total_memory_mb: Annotated[
        Measured, Meta(description="of all GPUs, MB; null: its GPUs were not read yet")
    ]
    used_memory_mb: Annotated[Measured, Meta(description="of all GPUs, MB; null: its GPUs were not read yet")]
    memory_utilization_percent: Annotated[
        Measured, Meta(description="used of total, of GPUs of which both are known")
    ]
    average_gpu_utilization_percent: Annotated[
        Measured, Meta(description="mean of the GPUs of which it is known")
    ]
    average_temperature_celsius: Annotated[
        Measured, Meta(description="mean of the GPUs of which it is known, °C")
    ]
    age_seconds: Annotated[float | None, Meta(description="since the cluster last answered")]
    stale: Annotated[
        bool,
        Meta(description="the cluster is out of reach, or all its GPUs are stale: the last that is known"),
    ]
    simulated: bool
