"""One node, one device, one pod, and the clusters they are in."""

from tests.fleet.api.serving import GIB, fleet_store, nvidia, report, serving, snapshot

from accelscope.model import ErrorCount


async def test_node_detail_contains_devices_pods_and_processes() -> None:
    async with serving() as client:
        detail = await client.get("/api/v1/nodes/berlin/alpha")
        assert detail["node"]["devices"] == 2
        assert detail["labels"] == {"zone": "a"}
        assert [device["id"] for device in detail["devices"]] == ["nvidia:GPU-0", "nvidia:GPU-1"]
        assert {pod["pod"] for pod in detail["pods"]} == {"train-0", "notebook-0"}
        assert [process["pid"] for process in detail["processes"]] == [100, 101, 102]
        assert detail["readers"][0]["source"] == "nvml"
        assert detail["agent"]["version"] == "0.1.0"
        assert detail["interval_seconds"] == 10


async def test_node_detail_of_an_unread_node_contains_the_reason() -> None:
    async with serving() as client:
        detail = await client.get("/api/v1/nodes/paris/orsay")
        assert detail["node"]["state"] == "incompatible"
        assert "9.0" in detail["node"]["reason"]
        assert (detail["devices"], detail["agent"], detail["readers"]) == ([], None, [])


async def test_device_detail_contains_the_reading() -> None:
    async with serving() as client:
        detail = await client.get("/api/v1/devices/berlin/alpha/nvidia:GPU-0")
        assert detail["device"]["id"] == "nvidia:GPU-0"
        assert detail["reading"]["pcie"]["generation"] == 5
        assert detail["reading"]["memory_total_bytes"] == 80 * GIB
        assert [process["pid"] for process in detail["processes"]] == [100]
        assert [pod["pod"] for pod in detail["pods"]] == ["train-0"]


async def test_errors_of_a_device_have_their_meaning() -> None:
    store = fleet_store()
    faulty = nvidia(
        2,
        errors=(
            ErrorCount("xid", "31", 4, 300.0),
            ErrorCount("xid", "48", 1, 100.0),
            ErrorCount("xid", "8", 0),
            ErrorCount("new", "not-a-number", 1),
        ),
    )
    store.take("berlin", report(snapshot("gamma", (faulty,))))
    async with serving(store) as client:
        detail = await client.get("/api/v1/devices/berlin/gamma/nvidia:GPU-2")
        worst, application, unknown = detail["errors"]
        assert (worst["code"], worst["count"], worst["last_seen"]) == ("48", 1, 100.0)
        assert (worst["severity"], worst["until"], worst["origin"]) == ("critical", "reset", "hardware")
        assert worst["meaning"] == "uncorrectable memory error"
        assert "reset" in worst["action"]
        assert worst["source"].startswith("https://")
        assert (application["code"], application["severity"], application["origin"]) == (
            "31",
            "info",
            "application",
        )
        assert (unknown["code"], unknown["meaning"], unknown["severity"]) == ("not-a-number", None, None)
        assert (await client.get("/api/v1/devices/berlin/alpha/nvidia:GPU-0"))["errors"] == []


async def test_pod_detail_contains_devices_and_processes() -> None:
    async with serving() as client:
        detail = await client.get("/api/v1/pods/berlin/team-a/train-0")
        assert detail["object"]["owner_name"] == "train"
        assert [row["device"] for row in detail["containers"]] == ["nvidia:GPU-0"]
        assert [device["id"] for device in detail["devices"]] == ["nvidia:GPU-0"]
        assert [process["pid"] for process in detail["processes"]] == [100]
        assert [allocation["device_id"] for allocation in detail["allocations"]] == ["GPU-0"]


async def test_unknown_objects_are_not_found() -> None:
    async with serving() as client:
        for path in (
            "nodes/berlin/nothing",
            "nodes/atlantis/alpha",
            "devices/berlin/alpha/nvidia:GPU-9",
            "devices/berlin/beta/nvidia:GPU-0",
            "pods/berlin/team-a/nothing",
            "pods/berlin/team-b/train-0",
            "clusters/atlantis",
            "nothing/at/all",
            "nodes/berlin/%00",
        ):
            problem = await client.get(f"/api/v1/{path}", 404)
            assert problem["type"] == "urn:accelscope:problem:not-found"
            assert problem["instance"].startswith("/api/v1/")


async def test_clusters_contain_the_state_of_their_sources() -> None:
    async with serving() as client:
        clusters = await client.get("/api/v1/clusters")
        named = {cluster["id"]: cluster for cluster in clusters["items"]}
        assert list(named) == ["berlin", "bonn", "oslo", "paris", "rome"]
        assert named["berlin"]["devices"] == 4
        assert (named["oslo"]["reachable"], named["oslo"]["reason"]) == (False, "timeout")
        assert named["oslo"]["age_seconds"] > 299
        assert named["rome"]["succeeded_at"] is None
        assert (named["rome"]["nodes"], named["rome"]["devices"]) == (None, None)
        assert (named["bonn"]["nodes"], named["bonn"]["devices"]) == (0, 0), "read, and it has none"
        assert (await client.get("/api/v1/clusters/berlin"))["name"] == "Berlin 1"


async def test_refresh_reads_a_cluster() -> None:
    async with serving() as client:
        status, _, _ = await client.ask("/api/v1/clusters/berlin/refresh", "POST")
        assert status == 200
        assert client.refreshed == ["berlin"]
        status, _, _ = await client.ask("/api/v1/clusters/atlantis/refresh", "POST")
        assert status == 404
        cross = {"Sec-Fetch-Site": "cross-site"}
        status, _, _ = await client.ask("/api/v1/clusters/berlin/refresh", "POST", headers=cross)
        assert status == 403
        assert client.refreshed == ["berlin"]
