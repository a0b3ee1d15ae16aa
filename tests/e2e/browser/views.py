"""Every view of the page: its path, its heading, and an element that shows that its data is loaded."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from playwright.sync_api import Locator, Page, expect
from tests.e2e.browser.lab import HEALTHY, HOT, Lab
from tests.e2e.browser.routes import link


@dataclass(frozen=True)
class View:
    path: str
    heading: str | re.Pattern[str]
    sign: Callable[[Page], Locator]  # an element that only appears with data

    def open(self, page: Page, parameters: str = "") -> None:
        """Open the view and wait for its data."""
        page.goto(self.path + parameters)
        self.shown(page)

    def shown(self, page: Page) -> None:
        expect(page.get_by_role("heading", level=1)).to_have_text(self.heading)
        expect(self.sign(page)).to_be_visible()
        expect(main(page).get_by_role("status", name="Loading")).to_have_count(0)


def main(page: Page) -> Locator:
    return page.get_by_role("main")


def rows(page: Page, table: str | None = None) -> Locator:
    """Rows of the view's table, without the header."""
    found = (
        main(page).get_by_role("table", name=table, exact=True) if table else main(page).get_by_role("table")
    )
    return found.get_by_role("row").filter(has=page.get_by_role("rowheader"))


def log(page: Page) -> Locator:
    """The panel of the event log."""
    return main(page).get_by_role("region", name="Log")


def row(page: Page, name: str) -> Locator:
    """The row with a link of this name."""
    named = page.get_by_role("rowheader").get_by_role("link", name=name, exact=True)
    return rows(page).filter(has=named)


def views_of(lab: Lab) -> dict[str, View]:
    device = lab.device(HOT)
    pod = lab.items("pods", cluster=HEALTHY.cluster, node=HEALTHY.node, limit=1)[0]
    there = {"cluster": HOT.cluster, "node": HOT.node}

    def linked(name: str | re.Pattern[str]) -> Callable[[Page], Locator]:
        return lambda page: main(page).get_by_role("link", name=name, exact=True).first

    def region(name: str) -> Callable[[Page], Locator]:
        return lambda page: main(page).get_by_role("region", name=name, exact=True)

    return {
        "overview": View(link("overview"), "Overview", linked("1 lost")),
        "map": View(link("map"), "Map", lambda page: main(page).get_by_role("application")),
        "clusters": View(link("clusters"), "Clusters", linked("oslo")),
        "cluster": View(
            link("cluster", cluster="oslo"),
            "Cluster oslo",
            lambda page: main(page).get_by_role("table", name="Sources of this cluster"),
        ),
        "nodes": View(link("nodes"), "Nodes", linked(HEALTHY.node)),
        "node": View(link("node", **there), f"Node {HOT.node}", region("Devices")),
        "devices": View(link("devices"), "Devices", linked(f"{HEALTHY.node} device 0")),
        "device": View(
            link("device", **there, device=device["id"]),
            re.compile(rf"Device {HOT.device} .*H100"),
            region("Device details"),
        ),
        "pods": View(link("pods"), "Pods", linked(pod["pod"])),
        "pod": View(
            link("pod", cluster=pod["cluster"], namespace=pod["namespace"], pod=pod["pod"]),
            f"Pod {pod['pod']}",
            region("Containers and their devices"),
        ),
        "namespaces": View(link("namespaces"), "Namespaces", linked("inference")),
        "processes": View(link("processes"), "Processes", linked(re.compile("^torchrun"))),
        "idle": View(link("idle"), "Idle", region("Idle totals")),
        "events": View(link("events"), "Events", lambda page: log(page).get_by_text("Device lost").first),
    }
