"""From the map to a pod that waits, to its fix, to its node, with a real cluster behind it."""

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from browser.conftest import OpenPage, Watch
from browser.harbours import DOCKS, Harbour, patch_in


@pytest.fixture(params=[20, 5000], ids=["20-nodes", "5000-nodes"])
def harbour(request: pytest.FixtureRequest) -> Harbour:
    name = "small_harbour" if request.param == 20 else "large_harbour"
    found: Harbour = request.getfixturevalue(name)
    found.nodes = request.param
    return found


def heading(page: Page, text: str) -> None:
    expect(page.get_by_role("heading", level=1)).to_have_text(text)


def test_a_pending_pod_is_followed_from_the_map_to_its_fix_and_binds_when_it_is_applied(
    harbour: Harbour, open_page: OpenPage
) -> None:
    page = open_page(harbour.page)
    heading(page, "Cluster map")
    expect(page.locator("main")).to_contain_text(f"{harbour.nodes:,}nodes")
    # Down to a node, by a click on its cell.
    page.get_by_label("Search nodes").fill("quay-0001")
    page.locator(".map canvas").click(position=_cell_of(page, "quay-0001"))
    heading(page, "Node quay-0001")
    refused = page.get_by_role("row").filter(has_text="harbour/tug")
    expect(refused).to_contain_text("TaintToleration: node(s) had untolerated taint(s)")
    # To the pod that it refuses.
    refused.get_by_role("link", name="harbour/tug").click()
    heading(page, "Pod harbour/tug")
    expect(page.get_by_text("Waiting: no node takes it.")).to_be_visible()
    expect(page.locator(".sentence")).to_contain_text(f"0/{harbour.nodes} nodes are available: ")
    rejections = page.get_by_role("region", name="Who rejects which nodes")
    expect(rejections.get_by_role("row").filter(has_text="NodeAffinity")).to_be_visible()
    # To the fix, which is applied through the API server.
    fix = page.locator("article[data-kind=tolerateTaint]")
    expect(fix.get_by_role("heading")).to_contain_text("dedicated=dock:NoSchedule")
    expect(fix).to_contain_text(f"Verified: {DOCKS} nodes would take it")
    command = fix.locator("pre").inner_text()
    assert command.startswith("kubectl patch pod tug -n harbour --type=json -p ")
    harbour.patch_pod("harbour", "tug", patch_in(command))
    # It binds, and the page tells so by itself.
    expect(page.get_by_text("On a node:")).to_be_visible()
    expect(page.locator("main p").get_by_role("link")).to_have_text(re.compile("quay-000[012]"))
    expect(page.locator("article.fix")).to_have_count(0)
    expect(page.get_by_role("region", name="Scores")).to_be_visible()
    expect(page.locator("#said")).to_contain_text("harbour/tug is on quay-000")


def _cell_of(page: Page, node: str) -> Any:
    """Where a node's cell is drawn, found with the keyboard's cursor."""
    page.get_by_label("Search nodes").press("Enter")
    tip = page.locator(".tip")
    expect(tip.locator("strong")).to_have_text(node)
    place = tip.evaluate("tip => [tip.offsetLeft, tip.offsetTop]")
    return {"x": place[0] - 9, "y": place[1] - 9}  # the tip is six pixels away from the cell


def test_a_pod_that_is_too_large_is_resized_as_the_page_proposes_and_binds(
    harbour: Harbour, open_page: OpenPage
) -> None:
    page = open_page(harbour.page, "#/pods/harbour/leviathan")
    fix = page.locator("article[data-kind=lowerRequest]").first
    expect(fix).to_contain_text("cpu request of container hold from 40 to ")
    command = fix.locator("pre").inner_text()
    assert command.startswith("kubectl patch pod leviathan -n harbour --subresource=resize ")
    harbour.resize_pod("harbour", "leviathan", patch_in(command))
    expect(page.get_by_text("On a node:")).to_be_visible()


def test_a_pod_that_must_be_made_anew_is_followed_to_its_node(
    harbour: Harbour, open_page: OpenPage, watch: Watch
) -> None:
    watch.refused = (404,)  # while the pod is made anew there is none
    page = open_page(harbour.page, "#/pods/harbour/skiff")
    fix = page.locator("article[data-kind=relaxConstraint]").first
    expect(fix).to_contain_text("so the pod is made anew")
    command = fix.locator("pre").inner_text()
    assert command.endswith("| kubectl replace --force -f -")
    harbour.replace_pod("harbour", "skiff", patch_in(command))
    expect(page.get_by_text("On a node:")).to_be_visible()


def test_the_map_serves_the_keyboard_and_has_a_table_beside_it(
    harbour: Harbour, open_page: OpenPage
) -> None:
    page = open_page(harbour.page, "#/map?by=memory")
    area = page.get_by_role("application", name="Nodes of the cluster")
    expect(page.locator(".legend")).to_contain_text("memory requested")
    area.focus()
    tip = page.locator(".tip strong")
    expect(tip).to_have_text("quay-0000")
    for key, node in (("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1), ("Home", 0)):
        area.press(key)
        expect(tip).to_have_text(f"quay-{node:04d}")
    area.press("End")
    expect(tip).to_have_text(f"quay-{harbour.nodes - 1:04d}")
    area.press("ArrowUp")
    expect(tip).not_to_have_text(f"quay-{harbour.nodes - 1:04d}")
    area.press("Home")
    expect(page.locator("main [role=status]")).to_contain_text("quay-0000. memory requested: ")
    page.get_by_label("Show as table").check()
    shown = min(harbour.nodes, 100)
    expect(page.get_by_role("row")).to_have_count(shown + 1)
    if harbour.nodes > shown:
        page.get_by_role("button", name="Next").press("Enter")
        expect(page.get_by_role("link", name="quay-0100")).to_be_visible()
        expect(page.locator("main")).to_contain_text(f"101 to 200 of {harbour.nodes}")


def test_the_matrix_of_nodes_and_plugins_is_turned_a_page_at_a_time(
    harbour: Harbour, open_page: OpenPage
) -> None:
    page = open_page(harbour.page, "#/pods/harbour/dinghy")
    page.get_by_text("Show every plugin's verdict on every node").click()
    matrix = page.locator("table.matrix")
    expect(matrix.locator("tbody tr")).to_have_count(min(harbour.nodes, 50))
    dock = matrix.get_by_role("row").filter(has_text="quay-0000")
    expect(dock).to_contain_text("TaintToleration: node(s) had untolerated taint(s)")
    expect(dock.get_by_role("cell", name="rejected")).to_have_count(1)
    if harbour.nodes > 50:
        page.get_by_role("navigation", name="Pages of nodes").get_by_text("Next").click()
        expect(matrix).to_contain_text("quay-0050")
        page.reload()
        expect(matrix).to_contain_text("quay-0050")


def test_a_decision_appears_when_it_is_made_unless_the_stream_is_paused(
    harbour: Harbour, open_page: OpenPage
) -> None:
    page = open_page(harbour.page, "#/decisions")
    expect(page.locator("main")).to_contain_text("Live.")
    harbour.create_pod("fleet", "latecomer")
    first = page.locator("tbody tr").first
    expect(first).to_contain_text("fleet/latecomer")
    expect(first).to_contain_text("scheduled")
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("button", name="Resume")).to_have_attribute("aria-pressed", "true")
    harbour.create_pod("fleet", "straggler")
    expect(page.locator("main")).to_contain_text("Paused, 1 new.")
    expect(page.locator("tbody")).not_to_contain_text("fleet/straggler")
    page.get_by_role("button", name="Resume").click()
    expect(first).to_contain_text("fleet/straggler")
    first.get_by_role("rowheader").get_by_role("link").click()
    heading(page, f"Decision {page.url.rsplit('/', 1)[1]}")
    expect(page.locator("main .sentence")).to_contain_text("fleet/straggler scheduled on quay-")
    expect(page.get_by_role("region", name="Scores")).to_contain_text("The same for all: ")


def test_the_queue_tells_ages_attempts_and_reasons(harbour: Harbour, open_page: OpenPage) -> None:
    page = open_page(harbour.page, "#/queue")
    row = page.get_by_role("row").filter(has_text="harbour/dinghy")
    expect(row).to_contain_text("unschedulable")
    expect(row).to_contain_text("TaintToleration")
    expect(row).to_contain_text(f"0/{harbour.nodes} nodes are available: ")
    expect(row.locator("time").first).to_have_text(re.compile(r"^\d+(s|m|m\d+s)$"))
    waiting = page.get_by_role("list", name="Waiting pods by queue")
    expect(waiting).to_contain_text(re.compile(r"[1-9]\d*unschedulable"))
    page.get_by_label("Search pods").fill("no such pod")
    expect(page.get_by_text("No pod of these matches.")).to_be_visible()


def test_throughput_and_configuration_are_shown(harbour: Harbour, open_page: OpenPage) -> None:
    page = open_page(harbour.page, "#/throughput")
    expect(page.locator(".chart[data-drawn]")).to_have_count(2)
    expect(page.get_by_role("list", name="Since the start")).to_contain_text("errors")
    page.get_by_role("link", name="Configuration").click()
    heading(page, "Configuration")
    expect(page.get_by_role("region", name="Profile default-scheduler")).to_contain_text(
        "NodeResourcesFit"
    )
    expect(page.get_by_role("group", name="the configuration")).to_contain_text(
        '"kind": "KubeSchedulerConfiguration"'
    )
