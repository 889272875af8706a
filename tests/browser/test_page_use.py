"""The page for everybody: keyboard, screen readers, light and dark, addresses to keep."""

import re
from collections.abc import Callable
from typing import Any

from playwright.sync_api import Page, expect

from browser.canned_api import CannedApi
from browser.conftest import OpenPage, Watch
from browser.harbours import Harbour

Serve = Callable[[CannedApi], str]


def focused(page: Page) -> str:
    told: str = page.evaluate("document.activeElement.textContent.trim()")
    return told


def tab_to(page: Page, text: str, most: int = 60) -> None:
    """Press Tab until an element with this text has the focus."""
    for _ in range(most):
        page.keyboard.press("Tab")
        if focused(page) == text:
            return
    raise AssertionError(f"{text!r} cannot be reached with the keyboard")


def test_everything_can_be_reached_with_the_keyboard_alone(
    small_harbour: Harbour, open_page: OpenPage
) -> None:
    page = open_page(small_harbour.page)
    expect(page.locator(".map canvas")).to_be_visible()
    page.keyboard.press("Tab")
    assert focused(page) == "Skip to the content"
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    assert page.url.endswith("#/map")
    for _ in range(6):  # past the link to the queue and the map's controls
        page.keyboard.press("Tab")
    expect(page.get_by_role("application")).to_be_focused()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1, name="Node quay-0001")).to_be_focused()
    expect(page.get_by_role("link", name="harbour/dinghy")).to_be_visible()
    tab_to(page, "harbour/dinghy")
    page.keyboard.press("Enter")
    title = page.get_by_role("heading", level=1, name="Pod harbour/dinghy")
    expect(title).to_be_focused()
    assert page.title() == "Pod harbour/dinghy · Moorage"
    expect(page.locator("article.fix").first).to_be_visible()
    tab_to(page, "Copy")
    tab_to(page, "Show every plugin's verdict on every node")
    page.keyboard.press("Enter")
    expect(page.locator("table.matrix")).to_be_visible()
    page.go_back()
    expect(page.get_by_role("heading", level=1, name="Node quay-0001")).to_be_focused()


def test_the_page_has_landmarks_and_every_field_a_name(served: Serve, open_page: OpenPage) -> None:
    page = open_page(served(CannedApi()), "#/map")
    roles: tuple[Any, ...] = ("banner", "main", "search")
    for role in roles:
        expect(page.get_by_role(role)).to_have_count(1)
    views = page.get_by_role("navigation", name="Views")
    expect(views.get_by_role("link", name="Map")).to_have_attribute("aria-current", "page")
    assert page.locator("html").get_attribute("lang") == "en"
    url = page.url.split("#")[0]
    for view in ("map", "queue", "decisions", "throughput", "configuration", "pods/harbour/tug"):
        page.goto(f"{url}#/{view}")
        expect(page.locator("main [data-loading]")).to_have_count(0)
        assert page.locator("h1").count() == 1
        nameless = page.evaluate(
            """() => [...document.querySelectorAll('input, select, button, [tabindex="0"]')]
                 .filter((field) => !(field.labels?.length || field.getAttribute('aria-label')
                                      || field.textContent.trim()))
                 .map((field) => field.outerHTML)"""
        )
        assert nameless == []
        skipped = page.evaluate(
            """() => [...document.querySelectorAll('h1, h2, h3')].map((one) => +one.tagName[1])
                 .filter((level, at, all) => at && level > all[at - 1] + 1)"""
        )
        assert skipped == []


def shade(page: Page) -> str:
    """The colour of the ground."""
    told: str = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return told


def test_dark_follows_the_system_and_the_switch_outlasts_a_reload(
    served: Serve, open_page: OpenPage
) -> None:
    page = open_page(served(CannedApi()), "#/throughput", dark=True)
    chart = page.locator(".chart[data-drawn]").first
    expect(chart).to_be_visible()
    dark = shade(page)
    label = chart.locator("text").first
    light_text = label.evaluate("node => getComputedStyle(node).fill")
    page.get_by_label("Theme").select_option("Light")
    assert shade(page) != dark
    expect(label).not_to_have_css("fill", light_text)  # the chart was drawn anew
    page.reload()
    expect(page.get_by_label("Theme")).to_have_value("light")
    assert shade(page) == "rgb(255, 255, 255)"
    page.get_by_label("Theme").select_option("System")
    assert shade(page) == dark
    page.emulate_media(color_scheme="light")
    expect(page.locator("html")).to_have_attribute("data-shade", "light")


def test_an_address_leads_to_the_same_view_after_a_reload(
    served: Serve, open_page: OpenPage
) -> None:
    page = open_page(served(CannedApi(nodes=300)), "#/map")
    page.get_by_label("Colour by").select_option("zone")
    page.get_by_label("Order by").select_option("zone")
    page.get_by_label("Search nodes").fill("node-7")
    page.get_by_label("Show as table").check()
    kept = page.url
    assert kept.endswith("#/map?by=zone&order=zone&q=node-7&table=true")
    page.reload()
    expect(page.get_by_label("Colour by")).to_have_value("zone")
    expect(page.get_by_label("Search nodes")).to_have_value("node-7")
    expect(page.get_by_role("row")).to_have_count(1 + 11)  # node-7 and node-70 to node-79
    page.get_by_label("Pod or node").fill("harbour/tug")
    page.get_by_role("button", name="Go").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Pod harbour/tug")
    page.go_back()
    expect(page).to_have_url(kept)
    expect(page.get_by_role("row")).to_have_count(12)


def test_what_is_focused_keeps_the_focus_while_the_view_is_refreshed(
    small_harbour: Harbour, open_page: OpenPage
) -> None:
    page = open_page(small_harbour.page, "#/queue?state=all")
    link = page.get_by_role("link", name="harbour/dinghy")
    link.focus()
    small_harbour.create_pod("fleet", "aak")  # above it in the list
    expect(page.get_by_role("row").filter(has_text="fleet/aak")).to_be_visible()
    expect(link).to_be_focused()


def test_two_nodes_are_compared_plugin_by_plugin(
    small_harbour: Harbour, open_page: OpenPage
) -> None:
    page = open_page(small_harbour.page, "#/pods/fleet/ship-0000")
    expect(page.get_by_text("On a node:")).to_be_visible()
    page.get_by_label("Why not node").fill("quay-0002")
    page.get_by_role("button", name="Compare").click()
    region = page.get_by_role("region", name="Compare with another node")
    expect(region).to_contain_text("quay-0002 does not take the pod:")
    expect(region).to_contain_text("TaintToleration: node(s) had untolerated taint(s)")
    page.get_by_label("Why not node").fill("quay-0003")
    page.get_by_role("button", name="Compare").click()
    expect(region).to_contain_text("quay-0003 takes the pod, but scores ")
    # By which plugin depends on where pods of other tests went.
    expect(region.get_by_role("cell", name=re.compile(r"^-\d")).first).to_be_visible()


def test_a_command_is_copied_to_the_clipboard(served: Serve, open_page: OpenPage) -> None:
    rights = ["clipboard-read", "clipboard-write"]
    page = open_page(served(CannedApi()), "#/pods/harbour/tug", permissions=rights)
    fix = page.locator(".fix").first
    fix.get_by_role("button", name="Copy the command").first.click()
    expect(page.get_by_text("Copied", exact=True)).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == fix.locator("pre").first.inner_text()


def test_a_scheduler_that_does_not_answer_is_said_and_taken_back(
    served: Serve, open_page: OpenPage, watch: Watch
) -> None:
    page = open_page(served(CannedApi()), "#/queue")
    expect(page.get_by_role("row")).to_have_count(2)
    page.context.set_offline(True)
    expect(page.get_by_role("alert")).to_have_text("The scheduler does not answer.")
    page.context.set_offline(False)
    expect(page.get_by_role("alert")).to_be_hidden()
    assert all("ERR_INTERNET_DISCONNECTED" in complaint for complaint in watch.complaints)
    watch.complaints.clear()


def test_what_is_not_there_is_said_in_the_scheduler_s_words(
    small_harbour: Harbour, open_page: OpenPage, watch: Watch
) -> None:
    watch.refused = (404,)
    page = open_page(small_harbour.page, "#/nodes/flotsam")
    expect(page.get_by_role("alert")).to_contain_text('nodes "flotsam" not found')
    page.goto(page.url.split("#")[0] + "#/pods/harbour/jetsam")
    expect(page.get_by_role("alert")).to_contain_text('pods "jetsam" not found')
    page.goto(page.url.split("#")[0] + "#/%")
    expect(page.get_by_role("heading", level=1)).to_have_text("No such view")
