"""Pictures for docs/, taken only when asked for: make browser SCREENSHOTS=1."""

import os
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from browser.conftest import OpenPage
from browser.harbours import Harbour

FOLDER = Path(__file__).parents[2] / "docs" / "images"

pytestmark = pytest.mark.skipif(
    os.environ.get("MOORAGE_SCREENSHOTS") != "1", reason="pictures: make browser SCREENSHOTS=1"
)


def taken(page: Page, name: str, *, whole: bool = False) -> None:
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / f"{name}.png"
    page.screenshot(path=path, full_page=whole, animations="disabled")
    assert path.stat().st_size > 10_000


def test_the_map_at_5000_nodes(large_harbour: Harbour, open_page: OpenPage) -> None:
    page = open_page(large_harbour.page, "#/map?by=cpu&order=zone")
    expect(page.locator("main")).to_contain_text("5,000nodes")
    page.get_by_label("Search nodes").fill("quay-2500")
    page.get_by_label("Search nodes").press("Enter")
    expect(page.locator(".tip strong")).to_have_text("quay-2500")
    page.get_by_label("Search nodes").fill("")
    page.get_by_role("application").focus()
    taken(page, "map-light")


def test_a_node(large_harbour: Harbour, open_page: OpenPage) -> None:
    page = open_page(large_harbour.page, "#/nodes/quay-0002")
    expect(page.get_by_role("link", name="harbour/dinghy")).to_be_visible()
    taken(page, "node-light")


def test_a_pod_that_waits(large_harbour: Harbour, open_page: OpenPage) -> None:
    page = open_page(large_harbour.page, "#/pods/harbour/dinghy")
    expect(page.locator("article.fix")).not_to_have_count(0)
    taken(page, "pod-light", whole=True)


def test_a_pod_that_was_placed(small_harbour: Harbour, open_page: OpenPage) -> None:
    page = open_page(small_harbour.page, "#/pods/fleet/ship-0003", dark=True)
    expect(page.locator(".chart[data-drawn]")).to_be_visible()
    taken(page, "scores-dark", whole=True)


def test_throughput(small_harbour: Harbour, open_page: OpenPage) -> None:
    page = open_page(small_harbour.page, "#/decisions")
    for index in range(40):
        small_harbour.create_pod("fleet", f"sloop-{index:02d}", cpu="10m")
    expect(page.locator("tbody tr").first).to_contain_text("fleet/sloop-39")
    page.get_by_role("link", name="Throughput").click()
    expect(page.locator(".chart[data-drawn]")).to_have_count(2)
    taken(page, "throughput-light")
