"""Whatever objects say is shown as text: in no view does it become markup or a script."""

from collections.abc import Callable
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from browser.canned_api import CannedApi
from browser.conftest import OpenPage, Watch
from browser.harbours import patch_in
from moorage.http import explain_page

Serve = Callable[[CannedApi], str]

MARK = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'&amp;<b>"
VIEWS = {
    "#/map": "canvas",
    "#/map?by=zone": "canvas",
    "#/map?by=taints": "canvas",
    "#/map?table=true": "table",
    "#/queue": "table",
    "#/decisions": "table",
    "#/decisions/1": ".chart[data-drawn]",
    "#/throughput": ".chart[data-drawn]",
    "#/configuration": "pre",
    "#/nodes/" + quote(f"node-0{MARK}", safe=""): "table",
    "#/pods/harbour/" + quote(f"tug{MARK}", safe=""): ".chart[data-drawn]",
    "#/pods/harbour/" + quote(f"tug{MARK}", safe="") + "?matrix=0": ".matrix",
    "#/nowhere/" + quote(MARK, safe=""): "h1",
}


@pytest.mark.parametrize("view", VIEWS)
def test_hostile_values_stay_text_in_every_view(
    served: Serve, open_page: OpenPage, view: str
) -> None:
    page = open_page(served(CannedApi(mark=MARK)), view)
    expect(page.locator(f"main {VIEWS[view]}").first).to_be_visible()
    assert _made_from_text(page) == 0
    if VIEWS[view] == "table":
        expect(page.locator("main table").first).to_contain_text(MARK)


def _made_from_text(page: Page) -> int:
    """How many elements the mark became."""
    found: int = page.locator("main script, main img, main b, main iframe, #trouble *").count()
    return found


def test_the_tip_of_the_map_shows_a_hostile_name_as_text(
    served: Serve, open_page: OpenPage
) -> None:
    page = open_page(served(CannedApi(mark=MARK)), "#/map?by=taints")
    _point_at_the_first_node(page)
    expect(page.locator(".tip strong")).to_have_text(f"node-0{MARK}")
    assert _made_from_text(page) == 0


def _point_at_the_first_node(page: Page) -> None:
    """Until the tip shows: what comes in while the page settles moves the map under the pointer."""
    for turn in range(100):
        page.locator(".map canvas").hover(position={"x": 5 + turn % 2, "y": 5})
        if page.locator(".tip strong").is_visible():
            return


def test_a_chart_names_plugins_and_nodes_as_they_are(served: Serve, open_page: OpenPage) -> None:
    page = open_page(served(CannedApi(mark=MARK)), "#/decisions/1")
    chart = page.locator(".chart[data-drawn]")
    expect(chart).to_be_visible()
    # Plotly joins runs of text; what it must not do is to read the tags.
    expect(chart.locator(".legend")).to_contain_text("<script>alert(1)</script>")
    expect(chart.locator(".yaxislayer-above")).to_contain_text("<img src=x onerror=alert(2)>")
    assert chart.locator("a, script, img").count() == 0


def test_without_the_chart_library_the_page_says_what_to_install(
    served: Serve, open_page: OpenPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(explain_page, "find_spec", lambda name: None)
    page = open_page(served(CannedApi()), "#/decisions/1")
    expect(page.locator(".chart")).to_have_text(explain_page.NO_CHARTS)


def test_a_hostile_sentence_of_the_api_is_shown_as_text(
    served: Serve, open_page: OpenPage, watch: Watch
) -> None:
    watch.refused = (404,)
    page = open_page(served(CannedApi(mark=MARK, missing=True)), "#/nodes/flotsam")
    expect(page.get_by_role("alert")).to_have_text(f"nothing here{MARK}")
    assert _made_from_text(page) == 0


def test_a_command_to_copy_holds_the_patch_in_quotes_that_a_shell_reads(
    served: Serve, open_page: OpenPage
) -> None:
    page = open_page(served(CannedApi(mark=MARK)), "#/pods/harbour/tug")
    commands = page.locator(".fix pre")
    expect(commands).to_have_count(4)
    in_place, anew, resized, created = commands.all_inner_texts()
    assert in_place.startswith("kubectl patch pod tug -n harbour --type=json -p ")
    assert patch_in(in_place)[0]["value"]["key"] == f"it's{MARK}"
    assert patch_in(anew)[0]["value"] == MARK
    assert anew.endswith("| kubectl replace --force -f -")
    assert resized.startswith("kubectl patch pod tug -n harbour --subresource=resize --type=json ")
    assert created.startswith("kubectl create -f - <<'EOF'\n{")


def test_a_token_is_asked_for_once_and_kept_in_the_tab(
    served: Serve, open_page: OpenPage, watch: Watch
) -> None:
    watch.refused = (401,)
    api = CannedApi(token="open sesame", mark=MARK)
    page = open_page(served(api), "#/queue")
    dialog = page.get_by_role("dialog", name="Who are you?")
    expect(dialog).to_be_visible()
    expect(dialog).to_contain_text(f"The scheduler answered: Unauthorized{MARK}")
    field = page.get_by_label("Bearer token")
    expect(field).to_be_focused()
    field.fill("wrong")
    field.press("Enter")
    expect(field).to_have_value("")
    expect(dialog).to_be_visible()
    field.fill("open sesame")
    page.get_by_role("button", name="Sign in").click()
    expect(dialog).to_be_hidden()
    expect(page.locator("main table")).to_contain_text("harbour/tug")
    page.reload()
    expect(page.locator("main table")).to_contain_text("harbour/tug")
    expect(dialog).to_be_hidden()
    assert page.evaluate("[localStorage.length, document.cookie]") == [0, ""]
    assert api.seen_tokens == {"", "wrong", "open sesame"}
