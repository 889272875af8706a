"""The scheduler process explains itself: its ledger, its page, its annotations, and a quick end."""

import asyncio
import json
import signal
import time
from pathlib import Path
from typing import Any

import aiohttp

from app.test_process import Stage, Started, run
from moorage.kube.annotations import PREFIX
from moorage.kube.resources import resource_for
from moorage.ledger import open_ledger


async def told(started: Started, path: str) -> Any:
    return json.loads(await started.get(f"/explain/v1/{path}"))


def test_decisions_are_told_and_stay_on_disk(tmp_path: Path) -> None:
    folder = tmp_path / "ledger"

    async def test(stage: Stage) -> None:
        stage.write()
        async with stage.scheduler(f"--ledger={folder}", "--ledger-memory=1Mi") as started:
            await started.says("Successfully acquired lease")
            await stage.bound("first")
            (decision,) = (await told(started, "decisions"))["items"]
            assert (decision["pod"], decision["node"]) == ("default/first", "first")
            explained = await told(started, "pods/default/first")
            assert (explained["placed"], explained["decision"]) == (True, decision["number"])
            settings = await told(started, "config")
            assert settings["ledger"]["directory"] == str(folder)
            assert settings["ledger"]["limitBytes"] == 1 << 20
            assert settings["configuration"]["kind"] == "KubeSchedulerConfiguration"
            assert (await told(started, "stats"))["scheduled"] == 1
            assert await started.told(signal.SIGTERM) == 0
        (kept,) = open_ledger(folder).summaries()
        assert kept.pod == "default/first"

    run(tmp_path, test)


def test_a_standby_explains_from_what_it_follows(tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        stage.write()
        async with stage.scheduler() as leader:
            await leader.says("Successfully acquired lease")
            await stage.bound("first")
            async with stage.scheduler() as standby:
                await standby.says("Serving securely")
                while "first" not in await _names(standby):
                    await asyncio.sleep(0.05)
                explained = await told(standby, "pods/default/first")
                assert (explained["node"], explained["placed"]) == ("first", True)
                assert (await told(standby, "stats"))["leading"] is False
                assert (await told(standby, "decisions"))["items"] == []

    run(tmp_path, test)


async def _names(started: Started) -> list[str]:
    connector = aiohttp.TCPConnector(ssl=False)
    async with (
        aiohttp.ClientSession(connector=connector) as session,
        session.get(f"{started.url}/explain/v1/pods?state=all") as answer,
    ):
        if answer.status == 503:  # it does not know the cluster yet
            return []
        return [pod["pod"].partition("/")[2] for pod in (await answer.json())["items"]]


def test_it_ends_within_a_second_though_somebody_follows_its_decisions(tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        stage.write()
        async with stage.scheduler() as started:
            await started.says("Successfully acquired lease")
            connector = aiohttp.TCPConnector(ssl=False)
            async with (
                aiohttp.ClientSession(connector=connector) as session,
                session.get(f"{started.url}/explain/v1/decisions/stream") as answer,
            ):
                assert (await answer.content.readline()).startswith(b"retry")
                began = time.monotonic()
                assert await started.told(signal.SIGTERM) == 0
                # The port alone would wait five seconds for it to go.
                assert time.monotonic() - began < 4.0

    run(tmp_path, test)


def test_the_page_is_served_where_it_is_asked_for(tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        stage.write()
        async with stage.scheduler("--explain-page") as started:
            await started.says("Successfully acquired lease")
            assert "<html" in await started.get("/explain/")
        async with stage.scheduler("--leader-elect=false") as started:
            await started.says("scheduling for")
            connector = aiohttp.TCPConnector(ssl=False)
            async with (
                aiohttp.ClientSession(connector=connector) as session,
                session.get(f"{started.url}/explain/") as answer,
            ):
                assert answer.status == 404

    run(tmp_path, test)


def test_annotations_are_written_where_they_are_asked_for_and_wake_nobody(tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        stage.write()

        async def annotations(name: str) -> dict[str, str]:
            pod = await stage.client.get(resource_for("Pod"), "default", name)
            found: dict[str, str] = pod["metadata"].get("annotations") or {}
            return found

        async with stage.scheduler("--explain-annotations") as started:
            await started.says("Successfully acquired lease")
            await stage.bound("first")
            container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "64"}}}
            await stage.create(
                "Pod", "default", metadata={"name": "large"}, spec={"containers": [container]}
            )
            for name in ("first", "large"):
                while not await annotations(name):
                    await asyncio.sleep(0.05)
            first, large = await annotations("first"), await annotations("large")
            assert first[f"{PREFIX}selected-node"] == "first"
            assert json.loads(first[f"{PREFIX}bind-result"]) == {"DefaultBinder": "success"}
            assert json.loads(large[f"{PREFIX}filter-result"]) == {
                "first": {**_passed(large, "first"), "NodeResourcesFit": "Insufficient cpu"}
            }
            # The change of the pod itself is no reason to try it again.
            assert (await told(started, "pods/default/large"))["queue"]["attempts"] == 1

    run(tmp_path, test)


def _passed(annotations: dict[str, str], node: str) -> dict[str, str]:
    row: dict[str, str] = json.loads(annotations[f"{PREFIX}filter-result"])[node]
    return {plugin: said for plugin, said in row.items() if said == "passed"}


def test_a_directory_that_cannot_be_used_ends_it_with_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    async def test(stage: Stage) -> None:
        stage.write()
        async with stage.scheduler(f"--ledger={tmp_path / 'file'}") as started:
            assert await started.ended() == 1
        (line,) = [line for line in "".join(started.said).splitlines() if "command failed" in line]
        assert "the ledger cannot be kept here" in line
        assert "Traceback" not in "".join(started.said)

    run(tmp_path, test)
