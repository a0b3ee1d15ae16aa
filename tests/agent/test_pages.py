"""What the server answers over the last snapshot."""

import gzip
import json
from dataclasses import replace

import pytest

from accelscope.agent.pages import Pages
from accelscope.metrics.exposition import Exposition
from accelscope.model import AgentState, Device, ReaderState, Snapshot, Vendor
from accelscope.model.update import CONTENT_TYPE, DEVICE_NUMBERS
from accelscope.model.wire import SCHEMA_VERSION, read_snapshot
from accelscope.serve import Request, Response, Route

SNAPSHOT = Snapshot(
    node="n1",
    taken_at=1.0,
    agent=AgentState(version="1", started_at=0.0),
    interval_seconds=10.0,
    readers=(ReaderState(vendor=Vendor("nvidia"), found=True, up=True),),
    devices=(Device(vendor=Vendor("nvidia"), id="nvidia:<GPU>", power_watts=5.0),),
)


class Site:
    def __init__(self) -> None:
        self.now = 1000.0
        self.moved = 1000.0
        self.pages = Pages(
            Exposition(), metrics_path="/m", moved_at=lambda: self.moved, monotonic=lambda: self.now
        )

    def get(self, path: str, **headers: str) -> Response:
        route = self.pages.routes()[path]
        handler = route.handler if isinstance(route, Route) else route
        request = Request("GET", path, "", {name.replace("_", "-"): text for name, text in headers.items()})
        response = handler(request)
        assert isinstance(response, Response)
        return response

    def text(self, path: str) -> tuple[int, str]:
        response = self.get(path)
        return response.status, response.bodies["identity"].decode()


@pytest.fixture
def site() -> Site:
    return Site()


def test_the_agent_is_not_ready_before_the_first_collection(site: Site) -> None:
    for path in ("/m", "/snapshot", "/readyz"):
        assert site.get(path).status == 503
    assert site.get("/healthz").status == 200
    assert site.get("/").status == 200


def test_only_the_probes_need_no_authentication(site: Site) -> None:
    routes = site.pages.routes()
    is_open = {path for path, route in routes.items() if isinstance(route, Route) and not route.guarded}
    assert is_open == {"/healthz", "/readyz"}


def test_text_is_the_default_and_openmetrics_is_negotiated(site: Site) -> None:
    site.pages.publish(SNAPSHOT)
    plain = site.get("/m")
    assert plain.content_type.startswith("text/plain; version=0.0.4")
    prometheus = site.get("/m", accept="application/openmetrics-text;version=1.0.0,text/plain;q=0.5")
    assert prometheus.content_type.startswith("application/openmetrics-text; version=1.0.0")
    assert prometheus.bodies["identity"].endswith(b"# EOF\n")


def test_gzip_is_used_only_if_the_client_accepts_it(site: Site) -> None:
    site.pages.publish(SNAPSHOT)
    assert set(site.get("/m").bodies) == {"identity"}
    bodies = site.get("/snapshot", accept_encoding="gzip").bodies
    assert gzip.decompress(bodies["gzip"]) == bodies["identity"]


def test_new_pages_are_compressed_with_the_collection_only_while_somebody_scrapes(site: Site) -> None:
    def prepared() -> set[str]:
        site.pages.publish(SNAPSHOT)
        assert site.pages._last is not None
        made = vars(site.pages._last.page).keys()
        return made & {"text", "text_gzip", "openmetrics", "openmetrics_gzip"}

    assert prepared() == set()
    site.get("/m", accept="application/openmetrics-text;version=1.0.0", accept_encoding="gzip")
    site.now += 30.0
    assert prepared() == {"openmetrics", "openmetrics_gzip"}
    site.get("/m")
    site.now += 40.0
    assert prepared() == {"text"}
    site.now += 61.0
    assert prepared() == set()


def test_the_snapshot_is_complete_and_has_its_schema_version(site: Site) -> None:
    site.pages.publish(SNAPSHOT)
    document = json.loads(site.get("/snapshot").bodies["identity"])
    assert document["schema_version"] == SCHEMA_VERSION
    assert read_snapshot(document) == SNAPSHOT


def test_an_unchanged_snapshot_is_not_sent_again(site: Site) -> None:
    site.pages.publish(SNAPSHOT)
    site.now += 2.5
    tag = dict(site.get("/snapshot").headers)["ETag"]
    again = site.get("/snapshot", if_none_match=f'"other", {tag}')
    assert (again.status, again.bodies["identity"]) == (304, b"")
    assert dict(again.headers) == {"ETag": tag, "X-AccelScope-Age": "2.500"}
    site.pages.publish(replace(SNAPSHOT, agent=replace(SNAPSHOT.agent, collections=1)))
    anew = site.get("/snapshot", if_none_match=tag)
    assert anew.status == 200
    assert dict(anew.headers)["X-AccelScope-Age"] == "0.000"


def test_the_index_page_escapes_texts_of_drivers(site: Site) -> None:
    site.pages.publish(SNAPSHOT)
    _, page = site.text("/")
    assert "nvidia:&lt;GPU&gt;" in page
    assert "<GPU>" not in page


UP = ReaderState(vendor=Vendor("nvidia"), found=True, up=True)
DOWN = ReaderState(vendor=Vendor("amd"), found=True, up=False, reason="driver_error")
ABSENT = ReaderState(vendor=Vendor("ascend"), found=False, up=False)


@pytest.mark.parametrize(
    ("readers", "status"),
    [
        ((), 200),
        ((ABSENT,), 200),
        ((UP,), 200),
        ((UP, DOWN, ABSENT), 200),
        ((DOWN,), 503),
        ((DOWN, ABSENT), 503),
    ],
)
def test_ready_unless_every_driver_fails(site: Site, readers: tuple[ReaderState, ...], status: int) -> None:
    site.pages.publish(replace(SNAPSHOT, readers=readers))
    answered, text = site.text("/readyz")
    assert answered == status
    if status == 503:
        assert "amd: driver_error" in text


def test_not_ready_when_collections_stop(site: Site) -> None:
    site.pages.publish(SNAPSHOT)
    site.now += 1000
    assert site.text("/readyz") == (503, "the last collection was 1000 s ago\n")


def test_not_alive_when_the_loop_is_stuck(site: Site) -> None:
    site.now += 29
    assert site.text("/healthz")[0] == 200
    site.now += 5
    assert site.text("/healthz") == (503, "the collection loop has made no progress for 34 s\n")


def structure_of(response: Response) -> str:
    return dict(response.headers)["X-AccelScope-Structure"]


def test_a_client_that_names_the_structure_gets_numbers_and_health_only(site: Site) -> None:
    site.pages.publish(SNAPSHOT)
    whole = site.get("/snapshot", x_accelscope_structure="none")
    assert read_snapshot(json.loads(whole.bodies["identity"])) == SNAPSHOT
    [device] = SNAPSHOT.devices
    site.pages.publish(replace(SNAPSHOT, taken_at=2.0, devices=(replace(device, power_watts=6.0),)))
    update = site.get("/snapshot", x_accelscope_structure=structure_of(whole))
    assert update.content_type == CONTENT_TYPE
    assert structure_of(update) == structure_of(whole)
    values = json.loads(update.bodies["identity"])["numbers"]
    assert dict(zip(DEVICE_NUMBERS, values, strict=True))["power_watts"] == 6.0


def test_after_a_change_of_the_structure_the_whole_snapshot_is_sent(site: Site) -> None:
    site.pages.publish(SNAPSHOT)
    known = structure_of(site.get("/snapshot", x_accelscope_structure="none"))
    [device] = SNAPSHOT.devices
    site.pages.publish(replace(SNAPSHOT, devices=(replace(device, driver_version="2"),)))
    response = site.get("/snapshot", x_accelscope_structure=known)
    assert response.content_type == "application/json"
    assert structure_of(response) != known


def test_a_restarted_agent_has_another_structure(site: Site) -> None:
    site.pages.publish(SNAPSHOT)
    before = structure_of(site.get("/snapshot", x_accelscope_structure="none"))
    again = Site()
    again.pages.publish(replace(SNAPSHOT, agent=AgentState(version="1", started_at=5.0)))
    assert again.get("/snapshot", x_accelscope_structure=before).content_type == "application/json"


def test_other_clients_always_get_the_whole_snapshot(site: Site) -> None:
    site.pages.publish(SNAPSHOT)
    site.get("/snapshot", x_accelscope_structure="none")
    response = site.get("/snapshot")
    assert response.content_type == "application/json"
    assert "X-AccelScope-Structure" not in dict(response.headers)
