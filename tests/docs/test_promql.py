"""PromQL of the documentation, asked of a fleet in which names repeat: devices that are called by their PCI
address on two nodes, and a pod, an agent's address and a device of two clusters with the same names."""

import re
from pathlib import Path

import pytest
from tests.docs.test_guide import FENCE, PAGES, name
from tests.monitoring.promtool import assert_answers
from tests.monitoring.rule_case import Series, series


def queries(page: Path) -> list[str]:
    """Of its blocks, and joins within lines."""
    text = page.read_text()
    blocks = [block for _, language, block in FENCE.findall(text) if language == "promql"]
    return blocks + re.findall(r"`([^`\n]*group_left[^`\n]*)`", FENCE.sub("", text))


QUERIES = [pytest.param(query, id=f"{name(page)}-{query[:40]}") for page in PAGES for query in queries(page)]


def agent(cluster: str, address: str, pod: str, *, allocated: bool, share: int) -> Series:
    """One device and one pod on it, which has 60 bytes of its memory."""
    target = {"cluster": cluster, "job": "accelscope", "instance": address}
    device = {**target, "vendor": "amd", "device": "amd:0000:41:00.0", "index": "0"}
    held = {**device, "namespace": "research", "pod": pod, "container": "main"}
    owner = {"owner_kind": "Job", "owner_name": pod, "uid": f"{cluster}-{pod}"}
    found = {
        series("accelerator_info", {**device, "model": "MI300X", "node": address}): 1,
        series("accelerator_power_watts", device): 300,
        series("accelerator_pod_processes", held): 1,
        series("accelerator_pod_utilization_ratio", held): 1,
        series("accelerator_pod_memory_used_bytes", held): 60,
        series("accelerator_pod_memory_share_bytes", held): share,
        series("accelerator_pod_info", {**target, "namespace": "research", "pod": pod, **owner}): 1,
    }
    if allocated:
        found[series("accelerator_pod_allocated", {**held, "resource": "amd.com/gpu"})] = 1
    return {each: f"{value}+0x20" for each, value in found.items()}


SERIES = {
    **agent("berlin", "10.0.0.1:9400", "train-0", allocated=True, share=40),
    **agent("berlin", "10.0.0.2:9400", "eval-0", allocated=True, share=80),
    **agent("paris", "10.0.0.1:9400", "train-0", allocated=False, share=80),
}
# The family that a query compares with or joins -> series that it finds.
MATCHED = {
    "accelerator_info": 3,  # one a device
    "accelerator_pod_info": 3,  # one a Job
    "accelerator_pod_allocated": 1,  # used and not given in paris only
    "accelerator_pod_memory_share_bytes": 1,  # above its share in berlin only
}


def matched(query: str) -> str | None:
    found = [family for family in MATCHED if re.search(rf"\b{family}\b", query)]
    return found[-1] if found else None


@pytest.mark.parametrize("query", QUERIES)
def test_queries_do_not_mix_up_what_has_the_same_name(tmp_path: Path, query: str) -> None:
    family = matched(query)
    if family is None:
        assert_answers(tmp_path, SERIES, {f"count({query}) < 0": None})  # no error
    else:
        assert_answers(tmp_path, SERIES, {f"count({query})": MATCHED[family]})


def test_there_is_a_query_for_each_that_is_matched() -> None:
    assert {matched(query) for page in PAGES for query in queries(page)} == {*MATCHED, None}
