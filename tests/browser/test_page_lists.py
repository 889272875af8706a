"""Long lists, comparisons and narrow windows: everything is found, nothing loses its place."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from browser.canned_api import CannedApi
from browser.conftest import OpenPage, Watch

Serve = Callable[[CannedApi], str]


def part(plugin: str, weighted: int) -> dict[str, object]:
    return {"plugin": plugin, "raw": weighted, "normalized": 1, "weight": 1, "weighted": weighted}


def test_the_queue_s_search_and_order_see_every_pod(served: Serve, open_page: OpenPage) -> None:
    page = open_page(served(CannedApi(pods=12_000)), "#/queue")
    expect(page.locator("caption")).to_have_text("100 of 12,000 pods")
    page.get_by_label("Search pods").fill("tug-11")
    expect(page.locator("caption")).to_have_text("100 of 1,100 that match, of 12,000 pods")
    page.get_by_label("Search pods").fill("tug-11999")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.get_by_label("Search pods").fill("")
    page.get_by_label("Order by").select_option("age")
    first = page.locator("tbody tr").first
    expect(first).to_contain_text("harbour/tug-11999")  # the oldest
    expect(first.locator("time").first).to_have_text("8d")
    assert page.url.endswith("#/queue?order=age")


def test_show_more_leads_to_the_end_and_leaves_the_focus_in_the_list(
    served: Serve, open_page: OpenPage
) -> None:
    page = open_page(served(CannedApi(pods=250)), "#/queue")
    more = page.get_by_role("button", name="Show more")
    more.press("Enter")
    expect(page.locator("tbody tr")).to_have_count(200)
    expect(more).to_be_focused()
    more.press("Enter")
    expect(page.locator("tbody tr")).to_have_count(250)
    expect(more).to_be_hidden()
    expect(page.get_by_role("link", name="harbour/tug-0200")).to_be_focused()


def test_more_than_the_api_gives_at_once_can_be_shown(served: Serve, open_page: OpenPage) -> None:
    api = CannedApi(pods=10_150)
    page = open_page(served(api), "#/queue")
    more = page.get_by_role("button", name="Show more")
    expect(more).to_be_visible()
    page.evaluate(
        """() => {
             const more = [...document.querySelectorAll("main button")].at(-1);
             for (let click = 0; click < 101; click += 1) more.click();
           }"""
    )
    expect(page.locator("caption")).to_have_text("10,150 of 10,150 pods")
    assert all(int(limit) <= 10_000 for limit in re.findall(r"limit=(\d+)", " ".join(api.asked)))


def test_older_decisions_leave_the_focus_in_the_list(served: Serve, open_page: OpenPage) -> None:
    page = open_page(served(CannedApi(decisions=150)), "#/decisions")
    page.get_by_role("button", name="Show older").press("Enter")
    expect(page.get_by_role("link", name="50", exact=True)).to_be_focused()


@pytest.mark.parametrize(
    ("total", "sentence"),
    [
        (313, "node-9 takes the pod and scores 13 more than node-0."),
        (300, "node-9 takes the pod and scores as much as node-0."),
        (290, "node-9 takes the pod, but scores 10 less than node-0."),
    ],
)
def test_a_node_is_compared_with_the_chosen_one_whichever_scores_more(
    served: Serve, open_page: OpenPage, total: int, sentence: str
) -> None:
    api = CannedApi()
    other = {"node": "node-9", "feasible": True, "total": total, "parts": [part("Fit", total)]}
    api.more = {"asked": [other]}
    page = open_page(served(api), "#/pods/harbour/tug")
    field = page.get_by_label("Why not node")
    field.scroll_into_view_if_needed()
    field.fill("node-9")
    place = page.evaluate("scrollY")
    assert place > 0
    field.press("Enter")
    region = page.get_by_role("region", name="Compare with another node")
    expect(region.locator("p").first).to_have_text(sentence)
    # Where the question was asked, there the answer is read.
    expect(field).to_be_focused()
    assert page.evaluate("scrollY") >= place
    expect(page.locator("#said")).to_have_text(sentence)
    assert page.url.endswith("?node=node-9")
    page.reload()
    expect(region.locator("p").first).to_have_text(sentence)


def test_a_node_that_is_not_there_is_told_beside_the_field(
    served: Serve, open_page: OpenPage, watch: Watch
) -> None:
    watch.refused = (404,)
    page = open_page(served(CannedApi()), "#/pods/harbour/tug?node=flotsam")
    region = page.get_by_role("region", name="Compare with another node")
    expect(region).to_contain_text("nothing here")
    expect(page.get_by_text("Waiting: no node takes it.")).to_be_visible()
    expect(page.locator("article.fix")).to_have_count(1)
    expect(page.get_by_role("alert")).to_be_hidden()
    page.get_by_label("Why not node").fill("node-1")
    page.get_by_role("button", name="Compare").click()
    expect(region).not_to_contain_text("nothing here")


def test_a_pod_is_as_old_as_it_is_however_often_it_was_tried(
    served: Serve, open_page: OpenPage
) -> None:
    api = CannedApi()
    page = open_page(served(api), "#/queue")
    expect(page.locator("tbody time").first).to_have_text(re.compile("^12[0-9]m$"))
    page.goto(page.url.split("#")[0] + "#/pods/harbour/tug")
    since = page.get_by_role("region", name="Queue").locator("time").first
    expect(since).to_have_text(re.compile(r"^3m2\ds$"))
    shown = since.inner_text()
    expect(since).not_to_have_text(shown)  # it ticks


def test_a_pod_on_a_node_has_no_attempts(served: Serve, open_page: OpenPage) -> None:
    class Placed(CannedApi):
        def _pod_line(self, index: int) -> dict[str, object]:
            return {**super()._pod_line(index), "state": "placed", "attempts": 0}

    page = open_page(served(Placed()), "#/queue?state=all")
    expect(page.locator("tbody tr td").nth(2)).to_have_text("")


def test_the_matrix_is_turned_with_the_keyboard_to_its_last_page(
    served: Serve, open_page: OpenPage
) -> None:
    page = open_page(served(CannedApi(nodes=120)), "#/pods/harbour/tug?matrix=0")
    further = page.get_by_role("button", name="Next")
    for shown in ("51 to 100 of 120", "101 to 120 of 120"):
        further.press("Enter")
        expect(page.locator("nav.controls")).to_contain_text(shown)
        expect(further).to_be_focused()
    expect(further).to_have_attribute("aria-disabled", "true")
    further.press("Enter")
    expect(page.locator("nav.controls")).to_contain_text("101 to 120 of 120")


def test_a_node_tells_how_many_of_the_waiting_pods_it_was_asked_about(
    served: Serve, open_page: OpenPage
) -> None:
    api = CannedApi()
    page = open_page(served(api), "#/nodes/node-1")
    region = page.get_by_role("region", name="Waiting pods")
    expect(region.locator("caption")).to_have_text("1 waiting pod is refused")
    api.more = {"waiting": 1000}
    expect(region).to_contain_text("1,000 pods wait; the most important 2 were asked about.")
    expect(region.locator("caption")).to_have_text("1 of these 2 are refused")


def test_the_name_of_a_pod_without_its_namespace_leads_to_the_pod(
    served: Serve, open_page: OpenPage, watch: Watch
) -> None:
    class Ashore(CannedApi):
        """Pods that have the names of things that are no nodes."""

        def _pod_line(self, index: int) -> dict[str, object]:
            return {**super()._pod_line(index), "pod": f"harbour/flotsam-{index}"}

    watch.refused = (404,)
    page = open_page(served(Ashore(pods=3)), "#/queue")
    page.get_by_label("Pod or node").fill("flotsam-2")
    page.get_by_role("button", name="Go").click()
    expect(page.get_by_role("alert")).to_have_text("nothing here")
    page.get_by_role("link", name="harbour/flotsam-2").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Pod harbour/flotsam-2")
    page.get_by_label("Pod or node").fill("flotsam-7")
    page.get_by_role("button", name="Go").click()
    expect(page.locator("main")).to_contain_text("a pod is looked for as namespace/name")


def test_the_tip_of_the_map_goes_with_the_focus(served: Serve, open_page: OpenPage) -> None:
    page = open_page(served(CannedApi()), "#/map")
    expect(page.locator("main")).to_contain_text("20nodes")
    page.get_by_role("application").focus()
    expect(page.locator(".tip")).to_be_visible()
    page.keyboard.press("Shift+Tab")
    expect(page.locator(".tip")).to_be_hidden()


def _overflow(page: Page) -> int:
    """By how many pixels the page is wider than the window."""
    found: int = page.evaluate(
        "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )
    return found


def test_on_a_telephone_nothing_but_the_matrix_moves_sideways(
    served: Serve, open_page: OpenPage
) -> None:
    api = CannedApi(mark=" because of " + ", ".join(f"reason {index}" for index in range(9)))
    api.more["queue"] = {"state": "gated", "message": "waits for " + "Pod/Update/" * 30}
    page = open_page(served(api), "#/queue")
    page.set_viewport_size({"width": 390, "height": 800})
    for view in ("queue", "decisions", "map?table=true"):
        page.goto(f"{page.url.split('#')[0]}#/{view}")
        expect(page.locator("main table tbody tr").first).to_be_visible()
        assert _overflow(page) == 0, view
    page.goto(f"{page.url.split('#')[0]}#/pods/harbour/tug?matrix=0")
    expect(page.locator("table.matrix")).to_be_visible()
    expect(page.get_by_text("waits for Pod/Update/")).to_be_visible()
    assert _overflow(page) == 0
    scroller = page.get_by_role("region", name="Every plugin's verdict on every node")
    scroller.focus()
    page.keyboard.press("ArrowRight")
    expect(scroller).not_to_have_js_property("scrollLeft", 0)
    expect(scroller).to_be_focused()
