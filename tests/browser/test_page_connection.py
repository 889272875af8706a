"""The page and a scheduler that is away, slow, begun anew or asks who is there; and many tabs."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from browser.canned_api import CannedApi
from browser.conftest import OpenPage, Watch
from browser.harbours import Harbour, harbour
from moorage.controlplane.processes import free_port

Serve = Callable[[CannedApi], str]

HIDDEN = """(hidden) => {
  Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


def go(page: Page, view: str) -> None:
    page.evaluate("view => { location.hash = view; }", view)


def test_more_tabs_than_a_browser_has_connections_can_be_open(
    served: Serve, open_page: OpenPage
) -> None:
    api = CannedApi()
    first = open_page(served(api), "#/decisions")
    for number in range(8):
        page = first if number == 0 else first.context.new_page()
        if number:
            page.goto(f"{first.url.split('#')[0]}#/decisions")
        expect(page.locator("main")).to_contain_text("Live. 3 decisions shown.")
        page.evaluate(HIDDEN, True)  # the next one is in front


def test_a_page_that_was_in_the_background_comes_back_with_what_it_missed(
    served: Serve, open_page: OpenPage
) -> None:
    api = CannedApi()
    page = open_page(served(api), "#/decisions")
    expect(page.locator("main")).to_contain_text("Live. 3 decisions shown.")
    with page.expect_event("requestfailed", lambda request: "stream" in request.url):
        page.evaluate(HIDDEN, True)
    api.decide(4, 5)
    page.evaluate(HIDDEN, False)
    expect(page.locator("main")).to_contain_text("Live. 5 decisions shown.")
    assert api.stream_ids == ["3", "3"]


def test_a_pod_s_view_looks_again_when_it_was_in_the_background(
    served: Serve, open_page: OpenPage
) -> None:
    api = CannedApi()
    page = open_page(served(api), "#/pods/harbour/tug")
    with page.expect_event("response", lambda response: "stream" in response.url):
        expect(page.get_by_text("Waiting: no node takes it.")).to_be_visible()
    page.evaluate(HIDDEN, True)
    api.more = {"placed": True, "node": "node-7"}
    page.evaluate(HIDDEN, False)
    expect(page.get_by_text("On a node: node-7")).to_be_visible()


@pytest.mark.parametrize("decisions", [2, 40, 41, 60])
def test_decisions_of_a_scheduler_that_began_anew_take_the_place_of_the_old(
    served: Serve, open_page: OpenPage, decisions: int
) -> None:
    """Numbers begin at 1 again, and may have passed those that are shown by now."""
    api = CannedApi(decisions=40)
    page = open_page(served(api), "#/decisions")
    expect(page.locator("main")).to_contain_text("Live. 40 decisions shown.")
    api.begin_anew(decisions)
    expect(page.locator("main")).to_contain_text(f"Live. {decisions} decisions shown.")
    expect(page.locator("tbody tr")).to_have_count(decisions)
    expect(page.locator("tbody tr").filter(has_text="run 0")).to_have_count(0)
    api.decide(decisions + 1)
    first = page.locator("tbody tr").first
    expect(first).to_have_attribute("data-number", str(decisions + 1))
    expect(page.locator("tbody tr")).to_have_count(decisions + 1)


def test_the_same_with_a_real_scheduler_which_knows_what_it_decided_as_long_as_it_runs(
    open_page: OpenPage, watch: Watch, tmp_path: Path
) -> None:
    port = free_port()
    with harbour(tmp_path, 20, "--page-port", str(port)) as running:
        page = open_page(running.page, "#/decisions")
        expect(page.locator("main")).to_contain_text("Live.")
        lists: list[str] = []
        page.on("request", lambda asked: lists.append(asked.url) if "100" in asked.url else None)
        with page.expect_event("request", lambda asked: "before=" in asked.url):
            page.evaluate(HIDDEN, True)
            page.evaluate(HIDDEN, False)
        for name in ("late", "later"):
            running.create_pod("fleet", name)
            expect(page.locator("tbody tr").first).to_contain_text(f"fleet/{name}")
        assert lists == []  # nothing was asked for that is there already
    expect(page.locator("main")).to_contain_text("Not connected; trying again.")
    with harbour(tmp_path, 20, "--page-port", str(port)) as again:
        expect(page.locator("main")).to_contain_text("Live.")
        expect(page.locator("tbody")).not_to_contain_text("fleet/late")
        again.create_pod("fleet", "last")
        expect(page.locator("tbody tr").first).to_contain_text("fleet/last")
    assert all("ERR_" in complaint for complaint in watch.complaints)
    watch.complaints.clear()


def test_what_is_read_in_the_list_stays_when_the_stream_was_away(
    served: Serve, open_page: OpenPage
) -> None:
    api = CannedApi(decisions=150)
    page = open_page(served(api), "#/decisions")
    page.get_by_role("button", name="Show older").click()
    expect(page.locator("tbody tr")).to_have_count(150)
    page.evaluate(HIDDEN, True)
    page.evaluate(HIDDEN, False)
    api.decide(*range(151, 260))
    expect(page.locator("tbody tr")).to_have_count(259)
    expect(page.locator("tbody tr").last).to_have_attribute("data-number", "1")


def test_the_time_that_signing_in_takes_does_not_count_as_slow(
    served: Serve, open_page: OpenPage, watch: Watch
) -> None:
    watch.refused = (401,)
    api = CannedApi(token="sesame")
    page = open_page(served(api), "#/configuration")
    page.clock.install()
    go(page, "#/queue")
    field = page.get_by_label("Bearer token")
    expect(field).to_be_focused()
    page.clock.fast_forward(300_000)
    field.fill("sesame")
    field.press("Enter")
    expect(page.get_by_role("row")).to_have_count(2)
    with page.expect_event("request", lambda request: "v1/pods?" in request.url, timeout=10_000):
        pass


def test_a_token_that_no_header_can_hold_is_refused_in_the_dialog(
    served: Serve, open_page: OpenPage, watch: Watch
) -> None:
    watch.refused = (401,)
    api = CannedApi(token="sesame")
    page = open_page(served(api), "#/queue")
    field = page.get_by_label("Bearer token")
    field.fill("sesame…")
    field.press("Enter")
    dialog = page.get_by_role("dialog", name="Who are you?")
    expect(dialog.get_by_role("alert")).to_contain_text("characters other than printable ASCII")
    expect(field).to_be_focused()
    assert page.evaluate("sessionStorage.length") == 0
    field.fill("sesame")
    field.press("Enter")
    expect(dialog).to_be_hidden()
    expect(page.get_by_role("row")).to_have_count(2)
    assert api.seen_tokens == {"", "sesame"}


def test_the_first_trouble_of_a_view_is_seen_at_once(
    served: Serve, open_page: OpenPage, watch: Watch
) -> None:
    watch.refused = (404,)
    page = open_page(served(CannedApi(missing=True)), "#/pods/harbour/none")
    expect(page.locator("main [data-loading]")).to_have_count(0)
    expect(page.get_by_role("alert")).to_have_text("nothing here", timeout=1000)


def test_the_same_trouble_is_told_once(served: Serve, open_page: OpenPage, watch: Watch) -> None:
    watch.refused = (404,)
    page = open_page(served(CannedApi(missing=True)), "#/queue")
    expect(page.get_by_role("alert")).to_have_text("nothing here")
    page.evaluate(
        """() => {
             globalThis.told = 0;
             new MutationObserver(() => { globalThis.told += 1; })
               .observe(document.getElementById("trouble"), { childList: true });
           }"""
    )
    for _ in range(2):
        with page.expect_event("response", lambda response: "v1/pods?" in response.url):
            pass
    assert page.evaluate("told") == 0


@pytest.mark.parametrize(
    ("view", "shown"),
    [
        ("#/decisions", "Live. 3 decisions shown."),
        ("#/decisions/2", "harbour/tug unschedulable"),
        ("#/configuration", "KubeSchedulerConfiguration in force"),
    ],
)
def test_a_view_that_was_opened_while_the_scheduler_was_down_fills_when_it_is_back(
    served: Serve, open_page: OpenPage, watch: Watch, view: str, shown: str
) -> None:
    page = open_page(served(CannedApi()), "#/throughput")
    expect(page.locator(".chart[data-drawn]")).to_have_count(2)
    page.context.set_offline(True)
    go(page, view)
    expect(page.get_by_role("alert")).to_have_text("The scheduler does not answer.")
    page.context.set_offline(False)
    expect(page.locator("main")).to_contain_text(shown)
    expect(page.get_by_role("alert")).to_be_hidden()
    assert all("ERR_INTERNET_DISCONNECTED" in complaint for complaint in watch.complaints)
    watch.complaints.clear()


def test_a_filter_that_cannot_be_read_is_told_and_nothing_claims_to_try_again(
    small_harbour: Harbour, open_page: OpenPage, watch: Watch
) -> None:
    watch.refused = (400,)
    page = open_page(small_harbour.page, "#/decisions?pod=tug")
    expect(page.get_by_role("alert")).to_contain_text("expected namespace/name")
    expect(page.locator("main")).to_contain_text("Live. 0 decisions shown.")
    page.get_by_label("Only of pod").fill("harbour/dinghy")
    page.get_by_role("button", name="Filter").click()
    expect(page.locator("tbody tr").first).to_contain_text("harbour/dinghy")
    expect(page.get_by_role("alert")).to_be_hidden()


def test_a_scheduler_that_takes_long_is_waited_for_but_not_for_ever(
    served: Serve, open_page: OpenPage
) -> None:
    api = CannedApi()
    api.silent = {"config"}
    page = open_page(served(api), "#/throughput")
    expect(page.locator(".chart[data-drawn]")).to_have_count(2)
    page.clock.install()
    go(page, "#/configuration")
    expect(page.get_by_text("Loading…")).to_be_visible()
    expect(page.locator("main [aria-busy=true]")).to_have_count(1)
    page.clock.fast_forward(31_000)
    expect(page.get_by_role("alert")).to_have_text(
        "The scheduler did not answer within 30 seconds."
    )
    expect(page.get_by_text("Loading…")).to_have_count(0)
    expect(page.locator("main [aria-busy]")).to_have_count(0)
    api.silent = set()
    page.clock.fast_forward(61_000)
    expect(page.locator("main")).to_contain_text("KubeSchedulerConfiguration in force")
    expect(page.get_by_role("alert")).to_be_hidden()


def test_decisions_that_came_in_a_pause_are_counted_all(served: Serve, open_page: OpenPage) -> None:
    api = CannedApi()
    page = open_page(served(api), "#/decisions")
    expect(page.locator("main")).to_contain_text("Live. 3 decisions shown.")
    page.get_by_role("button", name="Pause").click()
    api.decide(*range(4, 2004))
    expect(page.locator("main")).to_contain_text("Paused, 2,000 new. 3 decisions shown.")
    page.get_by_role("button", name="Resume").click()
    numbers = page.locator("tbody tr")
    expect(numbers).to_have_count(200)
    expect(numbers.first).to_have_attribute("data-number", "2003")
    page.get_by_role("button", name="Show older").click()
    expect(numbers).to_have_count(300)
    expect(numbers.nth(200)).to_have_attribute("data-number", "1803")


def test_a_decision_of_another_day_has_its_date(served: Serve, open_page: OpenPage) -> None:
    api = CannedApi()
    api.decisions[0]["time"] -= 3 * 86400
    page = open_page(served(api), "#/decisions")
    times = page.locator("tbody tr td:nth-child(2)")
    expect(times.last).to_have_text(re.compile(r"20\d\d.*:"))
    expect(times.first).not_to_have_text(re.compile(r"20\d\d.*:"))
