"""What the page shows, and how, in wide and narrow windows, light and dark."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from browser.canned_api import SCORERS, CannedApi
from browser.conftest import OpenPage, Watch

Serve = Callable[[CannedApi], str]
WIDTHS = (400, 1280)


@pytest.fixture(params=[(width, dark) for width in WIDTHS for dark in (False, True)])
def window(request: pytest.FixtureRequest, open_page: OpenPage) -> OpenPage:
    """Opens pages of one width in one of the colour schemes."""
    width, dark = request.param

    def opening(url: str, view: str = "", **options: Any) -> Page:
        page = open_page(url, view, dark=dark, width=width, **options)
        expect(page.locator("html")).to_have_attribute("data-shade", "dark" if dark else "light")
        return page

    return opening


def settled(page: Page, view: str) -> None:
    """Another view, once it is filled."""
    page.goto(f"{page.url.split('#')[0]}#/{view}")
    expect(page.locator("main [data-loading]")).to_have_count(0)


def beyond(page: Page) -> list[str]:
    """What reaches out of the window, and what is wider than the table that should hold it."""
    found: list[str] = page.evaluate(
        """() => [...document.querySelectorAll("body *")]
             .filter((at) => at.checkVisibility())
             .filter((at) => !at.closest("svg, .unseen, .skip, thead, .matrix"))
             .filter((at) => at.getBoundingClientRect().right > innerWidth + 1)
             .map((at) => at.outerHTML.slice(0, 120))"""
    )
    return found


def unreadable(page: Page) -> list[str]:
    """Texts whose contrast with what is behind them is too weak by WCAG 2."""
    found: list[str] = page.evaluate(
        """() => {
             const parsed = (text) => text.match(/[0-9.]+/g).map(Number);
             const luminance = (parts) => parts.slice(0, 3).map((part) => part / 255)
               .map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
               .reduce((sum, part, at) => sum + part * [0.2126, 0.7152, 0.0722][at], 0);
             const behind = (at) => {
               for (; at; at = at.parentElement) {
                 const parts = parsed(getComputedStyle(at).backgroundColor);
                 if (parts.length === 3 || parts[3] > 0) return parts;
               }
             };
             const says = (at) => [...at.childNodes]
               .some((child) => child.nodeType === 3 && child.data.trim());
             return [...document.querySelectorAll("body *:not(noscript, script, svg *)")]
               .filter((at) => at.checkVisibility() && says(at))
               .filter((at) => {
                 const [one, other] = [getComputedStyle(at).color].map(parsed).concat([behind(at)])
                   .map(luminance).sort((a, b) => a - b);
                 return (other + 0.05) / (one + 0.05) < 4.5;
               })
               .map((at) => at.outerHTML.slice(0, 120));
           }"""
    )
    return found


def test_no_view_reaches_out_of_the_window_and_every_text_is_readable(
    served: Serve, window: OpenPage
) -> None:
    page = window(served(CannedApi(nodes=24)), "#/map")
    views = ("map", "map?by=taints", "map?table=true", "queue", "decisions", "decisions/1")
    others = ("throughput", "configuration", "nodes/node-1", "pods/harbour/tug?matrix=0")
    for view in (*views, *others):
        settled(page, view)
        assert beyond(page) == [], view
        assert unreadable(page) == [], view


def test_the_landing_view_has_totals_waiting_pods_and_a_map_that_fills_the_room(
    served: Serve, window: OpenPage
) -> None:
    page = window(served(CannedApi(nodes=3, pods=12)))
    totals = page.get_by_role("list", name="The cluster")
    for told in ("3nodes", "10pods on nodes", "6pods wait", "2.5 of 80cpu requested 3 %"):
        expect(totals).to_contain_text(told)
    waiting = page.get_by_role("complementary", name="Pods that wait")
    expect(waiting.get_by_role("listitem")).to_have_count(8)
    expect(waiting).to_contain_text(re.compile("unschedulable for 12[0-9]m: NodeResourcesFit"))
    expect(waiting.get_by_role("link", name="and 4 more")).to_have_attribute("href", "#/queue")
    room = page.locator(".map").bounding_box()
    assert room is not None
    below = page.viewport_size["height"] - room["y"] if page.viewport_size else 0
    assert room["height"] > 0.6 * max(below, 370)
    # The last node's cell reaches to the right edge, or the cells lie below each other.
    page.locator(".map canvas").click(position={"x": room["width"] - 6, "y": room["height"] - 6})
    expect(page.get_by_role("heading", level=1)).to_have_text("Node node-2")


def test_in_a_narrow_window_the_header_is_low_and_rows_are_cards(
    served: Serve, open_page: OpenPage
) -> None:
    page = open_page(served(CannedApi()), "#/queue", width=400)
    header = page.locator("header").bounding_box()
    assert header is not None
    assert header["height"] < 140
    row = page.get_by_role("row").filter(has_text="harbour/tug")
    cell = row.get_by_role("cell", name="0/20 nodes are available")
    places = [shown(row.get_by_role("rowheader")), shown(cell)]
    assert [place["x"] for place in places] == [places[0]["x"]] * 2, "one below the other"
    label = cell.evaluate("cell => getComputedStyle(cell, '::before').content")
    assert label == '"Message "'
    page.set_viewport_size({"width": 1280, "height": 860})
    assert shown(cell)["x"] > 600


def shown(at: Locator) -> Any:
    expect(at).to_be_visible()
    return at.bounding_box()


def test_scores_that_are_the_same_for_all_nodes_are_folded(served: Serve, window: OpenPage) -> None:
    page = window(served(CannedApi()), "#/pods/harbour/tug")
    region = page.get_by_role("region", name="Scores", exact=True)
    different, *same = SCORERS
    told = ", ".join(f"{plugin} 100" for plugin in same)
    expect(region.get_by_text(f"The same for all: {told}", exact=True)).to_be_visible()
    expect(region.locator(".chart[data-drawn] .legendtext")).to_have_text([different])
    region.get_by_text("Scores as a table").click()
    titles = region.locator("thead th")
    assert titles.all_text_contents() == ["Node", "Total", different]


def test_where_all_scores_are_the_same_there_is_no_chart(
    served: Serve, open_page: OpenPage
) -> None:
    api = CannedApi()
    part = {"plugin": "Fit", "raw": 1, "normalized": 1, "weight": 1, "weighted": 7}
    api.more = {"scores": [{"node": name, "total": 7, "parts": [part]} for name in ("a", "b")]}
    page = open_page(served(api), "#/pods/harbour/tug")
    expect(page.get_by_text("The same for all: Fit 7", exact=True)).to_be_visible()
    expect(page.locator(".chart")).to_be_hidden()


def test_where_there_is_no_pod_there_is_no_form_either(
    served: Serve, window: OpenPage, watch: Watch
) -> None:
    watch.refused = (404,)
    api = CannedApi(missing=True)
    page = window(served(api), "#/pods/harbour/jetsam")
    expect(page.get_by_role("alert")).to_have_text("nothing here")
    main = page.locator("main")
    expect(main.get_by_text("There is nothing to explain")).to_be_visible()
    for element in ("form", "input", "details", "h2"):
        expect(main.locator(f"{element}:visible")).to_have_count(0)
    link = main.get_by_role("link", name="the ledger")
    expect(link).to_have_attribute("href", "#/decisions?pod=harbour%2Fjetsam")
    # It comes by itself when the pod is made.
    api.missing = False
    expect(main.get_by_role("button", name="Compare")).to_be_visible()
    expect(main.get_by_text("There is nothing to explain")).to_be_hidden()


def test_pods_and_decisions_of_one_namespace_can_be_shown(served: Serve, window: OpenPage) -> None:
    api = CannedApi(pods=2)
    page = window(served(api), "#/queue")
    for view in ("queue", "decisions"):
        settled(page, view)
        page.get_by_label("Namespace").select_option("vision")
        expect(page.locator("tbody tr")).to_have_count(0)
        assert page.url.endswith(f"#/{view}?namespace=vision")
        page.reload()
        expect(page.get_by_label("Namespace")).to_have_value("vision")
        expect(page.locator("tbody tr")).to_have_count(0)
        if view == "decisions":
            expect(page.locator("main")).to_contain_text("Live. 0 decisions shown.")
            api.decide(4)  # of a pod in another namespace
        page.get_by_label("Namespace").select_option("all")
        expect(page.locator("tbody tr")).to_have_count(2 if view == "queue" else 4)


@pytest.mark.parametrize("view", ["pods/harbour/tug", "nodes/node-1"])
def test_an_object_has_its_events_and_what_is_known_of_it_as_yaml(
    served: Serve, window: OpenPage, view: str
) -> None:
    page = window(served(CannedApi()), f"#/{view}")
    events = page.get_by_role("region", name="Events").get_by_role("row")
    expect(events.filter(has_text="Adrift")).to_contain_text("no quay")
    expect(events.filter(has_text="Adrift").locator("time")).to_have_text(re.compile("^5m"))
    region = page.get_by_role("region", name="YAML")
    region.get_by_text("Show what the scheduler knows of it").click()
    expect(region.get_by_role("group", name="the YAML")).to_have_text("kind: Ship")
    named = "pod tug -n harbour" if "pods" in view else "node node-1"
    command = region.get_by_role("group", name="the command for the whole object")
    expect(command).to_have_text(f"kubectl get {named} -o yaml")


def test_throughput_is_shown_over_the_whole_ledger_or_of_late(
    served: Serve, window: OpenPage
) -> None:
    page = window(served(CannedApi()), "#/throughput")
    expect(page.locator(".chart[data-drawn]")).to_have_count(2)
    expect(page.get_by_text(re.compile("^From .* on, in spans of 30s.$"))).to_be_visible()
    page.get_by_text("The same as a table").click()
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(120)  # an hour
    expect(page.locator("caption")).to_contain_text("Spans of 30 seconds")
    page.get_by_label("Show").select_option("the last two minutes")
    expect(page.locator("caption")).to_contain_text("Spans of 1 second ")
    assert page.url.endswith("#/throughput?reach=minutes")
    page.reload()
    expect(page.get_by_label("Show")).to_have_value("minutes")
    expect(page.locator(".chart[data-drawn]")).to_have_count(2)


def test_a_cluster_without_nodes_says_so(served: Serve, window: OpenPage) -> None:
    page = window(served(CannedApi(nodes=0)))
    expect(page.get_by_text("There are no nodes yet.")).to_be_visible()
    expect(page.get_by_role("application")).to_be_hidden()
    expect(page.get_by_role("list", name="The cluster")).to_contain_text("0nodes")
