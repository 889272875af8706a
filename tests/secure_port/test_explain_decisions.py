"""/explain/v1/decisions: what was decided, page by page and as it happens, at any pace."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from moorage.explain.report import SCHEMA, DecisionSummary
from moorage.http import explain_api
from moorage.http.endpoints import Endpoints
from moorage.http.explain_api import NOT_CONTINUED, explain_routes, token
from moorage.kube import decision_feed
from moorage.kube import explainer as explainer_module
from moorage.kube.explainer import Explainer
from secure_port.explained import Stage, run_stage, until
from secure_port.port import Port, client_context, open_port


@asynccontextmanager
async def served(stage: Stage) -> AsyncIterator[Port]:
    async with open_port(Endpoints(extra=explain_routes(stage.explainer))) as port:
        try:
            yield port
        finally:
            # As a process does: a port that closes waits for those who follow.
            stage.explainer.close()


async def told(port: Port, path: str, expected: int = 200) -> Any:
    status, body, _ = await port.ask(f"/explain/v1/{path}")
    assert status == expected, body
    return json.loads(body)


class Client:
    """One who follows the stream."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self.answer = answer

    async def event(self) -> dict[str, str]:
        """The fields of the next event; empty at the end. Comments are passed over."""
        found: dict[str, str] = {}
        while line := (await self.answer.content.readline()).decode():
            name, colon, value = line.rstrip("\n").partition(": ")
            if colon and name:
                found[name] = value
            elif not line.strip() and "data" in found:
                return found
        return {}

    async def comment(self) -> str:
        """The next comment."""
        while line := (await self.answer.content.readline()).decode():
            if line.startswith(":"):
                return line[2:].rstrip("\n")
        return ""


@asynccontextmanager
async def following(port: Port, last: int | str | None = None) -> AsyncIterator[Client]:
    headers = {} if last is None else {"Last-Event-ID": str(last)}
    connector = aiohttp.TCPConnector(ssl=client_context(), force_close=True)
    async with (
        aiohttp.ClientSession(connector=connector) as session,
        session.get(f"{port.url}/explain/v1/decisions/stream", headers=headers) as answer,
    ):
        yield Client(answer)


def decision(number: int, pod: str = "default/p") -> DecisionSummary:
    return DecisionSummary(number, 0.0, pod, "scheduled", "default-scheduler")


async def three_decisions(stage: Stage) -> None:
    await stage.create_node("quay")
    for name in ("a", "b"):
        await stage.create_pod(name)
        await stage.bound(name)
    await stage.create_pod("large", cpu="8")
    await stage.refused("large")


def test_decisions_are_listed_newest_first_and_explained_by_number() -> None:
    async def scenario(stage: Stage) -> None:
        await three_decisions(stage)
        async with served(stage) as port:
            page = await told(port, "decisions?limit=2")
            assert page["schema"] == SCHEMA
            assert [one["pod"] for one in page["items"]] == ["default/large", "default/b"]
            rest = await told(port, f"decisions?limit=2&continue={page['continue']}")
            assert [one["pod"] for one in rest["items"]] == ["default/a"]
            assert rest["continue"] == ""
            newest = page["items"][0]["number"]
            before = await told(port, f"decisions?before={newest}")
            assert [one["pod"] for one in before["items"]] == ["default/b", "default/a"]
            mine = (await told(port, "decisions?pod=default/a"))["items"]
            assert [one["node"] for one in mine] == ["quay"]

            rates = await told(port, "throughput?points=2")
            assert len(rates["spans"]) <= 2
            assert sum(span["scheduled"] for span in rates["spans"]) == 2
            assert sum(span["unschedulable"] for span in rates["spans"]) >= 1

            found = await told(port, f"decisions/{newest}?matrix=true")
            assert found["decision"]["result"] == "unschedulable"
            assert found["rejections"][0]["plugin"] == "NodeResourcesFit"
            assert [row["node"] for row in found["matrix"]["rows"]] == ["quay"]
            pod = await told(port, "pods/default/large")
            assert pod["decision"] == newest

    run_stage(scenario)


@pytest.mark.parametrize(
    ("path", "code", "message"),
    [
        ("decisions/99", 404, "There is no decision 99"),
        ("decisions/first", 404, 'there is no decision "first": decisions have numbers'),
        ("decisions?pod=large", 400, 'parameter pod is "large", expected namespace/name'),
        ("decisions?before=x", 400, 'parameter before is "x", expected a number from 0'),
        ("decisions/1?offset=1&matrix=on", 400, 'parameter matrix is "on", expected true or false'),
        (f"decisions?continue={token('decisions', 'x')}", 400, NOT_CONTINUED),
        (f"decisions?continue={token('decisions', '²')}", 400, NOT_CONTINUED),
        (f"decisions?continue={token('decisions', '9' * 5000)}", 400, NOT_CONTINUED),
        ("throughput?points=0", 400, 'parameter points is "0", expected a number from 1 to 1000'),
        ("decisions/stream?from=1", 400, 'unknown parameter "from": there are none'),
    ],
)
def test_what_was_never_decided_is_one_sentence(path: str, code: int, message: str) -> None:
    async def scenario(stage: Stage) -> None:
        await three_decisions(stage)
        async with served(stage) as port:
            assert (await told(port, path, code))["message"].startswith(message)

    run_stage(scenario)


def test_without_a_ledger_there_are_no_decisions() -> None:
    async def scenario(stage: Stage) -> None:
        bare = Explainer(stage.live)
        async with open_port(Endpoints(extra=explain_routes(bare))) as port:
            for path in ("decisions", "decisions/1", "decisions/stream"):
                message = (await told(port, path, 404))["message"]
                assert message == "This scheduler keeps no ledger: --ledger-memory is 0."
            assert (await told(port, "stats"))["seconds"] == []
            assert (await told(port, "config"))["ledger"]["on"] is False

    run_stage(scenario)


def test_stats_count_decisions_and_config_tells_of_the_ledger() -> None:
    async def scenario(stage: Stage) -> None:
        await three_decisions(stage)
        async with served(stage) as port:
            stats = await told(port, "stats")
            assert stats["scheduled"] == 2
            assert stats["unschedulable"] >= 1
            assert len(stats["seconds"]) == 120
            assert sum(second["scheduled"] for second in stats["seconds"]) == 2
            assert max(second["p99"] for second in stats["seconds"]) > 0
            assert (stats["nodes"], stats["pods"], stats["leading"]) == (1, 2, True)
            assert sum(stats["pending"].values()) == 1
            ledger = (await told(port, "config"))["ledger"]
            assert (ledger["on"], ledger["limitBytes"], ledger["directory"]) == (True, 1 << 20, "")
            assert ledger["decisions"] >= 3
            assert 0 < ledger["bytes"] <= 1 << 20

    run_stage(scenario)


def test_who_comes_back_from_another_scheduler_is_told_everything() -> None:
    async def scenario(stage: Stage) -> None:
        await three_decisions(stage)
        async with served(stage) as port, following(port, 804) as client:
            found = [json.loads((await client.event())["data"])["pod"] for _ in range(3)]
            assert found == ["default/a", "default/b", "default/large"]

    run_stage(scenario)


def test_the_stream_tells_decisions_as_they_are_made() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.create_node("quay")
        async with served(stage) as port, following(port) as client:
            headers = client.answer.headers
            assert headers["Content-Type"] == "text/event-stream"
            assert headers["X-Content-Type-Options"] == "nosniff"
            assert headers["Cache-Control"] == "no-store"
            await stage.create_pod("a")
            event = await client.event()
            told = json.loads(event["data"])
            assert event["event"] == "decision"
            assert event["id"] == str(told["number"])
            assert (told["pod"], told["node"]) == ("default/a", "quay")
        await until(lambda: stage.explainer.feed.followers == 0 or _poke(stage))

    run_stage(scenario)


def _poke(stage: Stage) -> bool:
    """Who went away is noticed when there is something to tell."""
    stage.explainer.feed.tell(decision(10**6))
    return False


def test_who_comes_back_is_told_what_was_decided_meanwhile() -> None:
    async def scenario(stage: Stage) -> None:
        await three_decisions(stage)
        first = stage.ledger.summaries()[-1].number
        async with served(stage) as port:
            async with following(port, first) as client:
                for expected in ("default/b", "default/large"):
                    assert json.loads((await client.event())["data"])["pod"] == expected
                await stage.create_pod("c")
                while json.loads((await client.event())["data"])["pod"] != "default/c":
                    pass
            status, body, _ = await port.ask(
                "/explain/v1/decisions/stream", headers={"Last-Event-ID": "x"}
            )
            assert status == 400
            assert 'header Last-Event-ID is "x"' in json.loads(body)["message"]

    run_stage(scenario)


def test_where_nothing_is_decided_there_is_a_sign_of_life(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(explain_api, "HEARTBEAT_SECONDS", 0.01)

    async def scenario(stage: Stage) -> None:
        async with served(stage) as port, following(port) as client:
            assert await client.comment() == "decisions as they are made"
            assert await client.comment() == "nothing new"

    run_stage(scenario)


def test_a_stream_ends_after_a_while_so_that_rights_are_asked_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(explain_api, "LONGEST_SECONDS", 0.0)

    async def scenario(stage: Stage) -> None:
        async with served(stage) as port, following(port) as client:
            assert await client.event() == {}
            assert client.answer.status == 200

    run_stage(scenario)


def test_who_falls_behind_is_sent_away_and_nothing_is_kept_for_them() -> None:
    async def scenario(stage: Stage) -> None:
        async with served(stage) as port, following(port) as client:
            assert await client.comment() == "decisions as they are made"
            for number in range(explain_api.MOST_AT_ONCE * 100):
                stage.explainer.feed.tell(decision(number))
            assert "come back for the rest" in await client.comment()
            assert await client.event() == {}
            await until(lambda: stage.explainer.feed.followers == 0)
            assert len(stage.explainer.feed._kept) == 0

    run_stage(scenario)


def test_who_does_not_read_at_all_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explain_api, "PATIENCE_SECONDS", 0.2)

    async def scenario(stage: Stage) -> None:
        async with served(stage) as port:
            # No reader behind the socket: what is sent stays in the buffers between.
            writer = await _deaf(port)
            await until(lambda: stage.explainer.feed.followers == 1)
            await until(lambda: _shout(stage) or stage.explainer.feed.followers == 0)
            writer.close()

    run_stage(scenario)


def test_closing_ends_all_streams_at_once_though_one_does_not_read() -> None:
    async def scenario(stage: Stage) -> None:
        async with served(stage) as port:
            writer = await _deaf(port)
            await until(lambda: stage.explainer.feed.followers == 1)
            # More than all buffers on the way take, and no more than a follower may be behind: it
            # must wait for its client, and cannot be sent away for being too slow.
            for number in range(decision_feed.LENGTH):
                stage.explainer.feed.tell(decision(number, "default/" + "x" * 4000))
            async with following(port) as client:
                assert await client.comment() == "decisions as they are made"
                stage.explainer.close()
                # It takes no time; left alone, the one who does not read would stay for longer.
                async with asyncio.timeout(explain_api.PATIENCE_SECONDS / 2):
                    assert await client.event() == {}
                    await until(lambda: stage.explainer.feed.followers == 0)
                    await port.server.stop(explain_api.PATIENCE_SECONDS)
            writer.close()

    run_stage(scenario)


def test_there_are_no_more_followers_than_can_be_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explainer_module, "MOST_FOLLOWERS", 1)

    async def scenario(stage: Stage) -> None:
        async with served(stage) as port, following(port):
            message = (await told(port, "decisions/stream", 503))["message"]
            assert message == "1 clients follow the decisions already."

    run_stage(scenario)


def _shout(stage: Stage) -> bool:
    for number in range(200):
        stage.explainer.feed.tell(decision(number, "default/" + "x" * 4000))
    return False


async def _deaf(port: Port) -> asyncio.StreamWriter:
    """Ask for the stream and never read it."""
    sock = socket.socket()
    # Set before connecting, or the kernel would make room for tens of megabytes.
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
    sock.setblocking(False)
    await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port.server.port))
    _, writer = await asyncio.open_connection(
        sock=sock, ssl=client_context(), server_hostname="localhost", limit=1
    )
    writer.write(b"GET /explain/v1/decisions/stream HTTP/1.1\r\nHost: x\r\n\r\n")
    return writer
