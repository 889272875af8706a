"""/explain/v1: what is told of pods, nodes and the scheduler, or one sentence why it is not."""

import asyncio
import gzip
import json
import time
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import aiohttp
import msgspec
import pytest
import yaml

from moorage.errors import NotReadyError
from moorage.explain.listing import NodePage, PodPage
from moorage.explain.pods import explain_pod
from moorage.explain.report import SCHEMA, PodExplanation
from moorage.framework.extenders import Extender, FilterReply, MetaVictims
from moorage.framework.plugin import Candidate
from moorage.http.endpoints import Endpoints, ProcessStatus
from moorage.http.explain_api import explain_routes
from moorage.kube import explainer as explainer_module
from moorage.kube.explainer import Explainer
from moorage.kube.resources import resource_for
from moorage.model.node import Node
from moorage.model.pod import Pod
from moorage.testing import make_pod
from secure_port.explained import Stage, run_stage
from secure_port.port import Port, client_context, open_port


def served(stage: Stage) -> Any:
    return open_port(Endpoints(extra=explain_routes(stage.explainer)))


async def told(port: Port, path: str, expected: int = 200, **asked: Any) -> Any:
    """What the API says as JSON, after a look at the status and the headers."""
    status, body, headers = await port.ask(f"/explain/v1/{path}", **asked)
    assert status == expected, body
    assert headers["Content-Type"] == "application/json"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cache-Control"] == "no-store"
    return json.loads(body)


async def sentence(port: Port, path: str, expected: int, **asked: Any) -> str:
    """Why something cannot be told."""
    status = await told(port, path, expected, **asked)
    assert (status["kind"], status["code"]) == ("Status", expected)
    assert "\n" not in status["message"]
    return str(status["message"])


def test_a_waiting_pod_is_explained_with_queue_and_fixes() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.create_node("quay")
        await stage.create_node("berth", cpu="2")
        await stage.create_pod("large", cpu="8")
        await stage.refused("large")
        async with served(stage) as port:
            found = await told(port, "pods/default/large?matrix=true&limit=1&offset=1")
            assert "fixes" not in found
            assert [row["node"] for row in found["matrix"]["rows"]] == ["quay"]
            assert found["matrix"]["total"] == 2
            found = await told(port, "pods/default/large")
            assert (found["schema"], found["source"]) == (SCHEMA, "live")
            assert (found["schedulable"], found["feasible"], found["nodes"]) == (False, 0, 2)
            (rejection,) = found["rejections"]
            assert (rejection["plugin"], rejection["nodes"]) == ("NodeResourcesFit", 2)
            assert found["queue"]["state"] in ("unschedulable", "backoff")
            assert {fix["kind"] for fix in found["fixes"]} >= {"lowerRequest"}
            assert all(fix["verified"] for fix in found["fixes"])
            assert "fixes" not in await told(port, "pods/default/large?fixes=false")
            again = msgspec.json.decode(json.dumps(found), type=PodExplanation)
            assert again.pod == "default/large"

    run_stage(scenario)


def test_a_placed_pod_and_a_node_are_explained() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.create_node("quay")
        await stage.create_node("berth", cpu="2")
        await stage.create_pod("small", cpu="1")
        await stage.bound("small")
        await stage.create_pod("large", cpu="8")
        await stage.refused("large")
        async with served(stage) as port:
            found = await told(port, "pods/default/small?node=berth&top=1")
            assert (found["placed"], found["schedulable"], found["node"]) == (True, True, "quay")
            assert {node["node"] for node in found["scores"]} == {"quay", "berth"}
            assert "queue" not in found
            node = await told(port, "nodes/quay")
            assert [pod["pod"] for pod in node["podList"]] == ["default/small"]
            assert [refusal["pod"] for refusal in node["refusals"]] == ["default/large"]

    run_stage(scenario)


def test_lists_are_paged_with_tokens_that_only_their_own_list_takes() -> None:
    async def scenario(stage: Stage) -> None:
        for name in ("c", "a", "b"):
            await stage.create_node(name)
            await stage.create_pod(name)
            await stage.bound(name)
        async with served(stage) as port:
            names: list[str] = []
            tokens = [""]
            while not names or tokens[-1]:
                page = await told(port, f"nodes?limit=2&continue={tokens[-1]}")
                assert (page["schema"], page["total"]) == (SCHEMA, 3)
                names += [line["node"] for line in page["items"]]
                tokens.append(page["continue"])
            assert names == ["a", "b", "c"]
            pods = await told(port, "pods?state=all&limit=2")
            assert [pod["pod"] for pod in pods["items"]] == ["default/a", "default/b"]
            last = await told(port, f"pods?state=all&continue={pods['continue']}")
            assert [pod["pod"] for pod in last["items"]] == ["default/c"]
            assert last["continue"] == ""
            assert (await told(port, "pods"))["items"] == []
            wrong = await sentence(port, f"pods?continue={tokens[1]}", 400)
            assert wrong == "parameter continue is not what the page before gave"
            assert msgspec.json.decode(json.dumps(page), type=NodePage).total == 3
            assert msgspec.json.decode(json.dumps(pods), type=PodPage).continue_ != ""

    run_stage(scenario)


def test_of_an_object_events_and_the_parts_that_a_scheduler_reads_are_told() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.create_node("quay")
        secret = {"env": [{"name": "TOKEN", "value": "hush"}], "command": ["sh", "hush"]}
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "8"}}, **secret}
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "large", "labels": {"a": "b"}, "annotations": {"c": "hush"}},
            "spec": {"containers": [container], "volumes": [{"name": "v", "emptyDir": {}}]},
        }
        await stage.client.create(resource_for("Pod"), "default", body)
        await stage.refused("large")
        async with served(stage) as port:
            found = await told(port, "pods/default/large/object")
            assert "hush" not in json.dumps(found)
            pod = yaml.safe_load(found["yaml"])
            assert list(pod) == ["apiVersion", "kind", "metadata", "spec", "status"]
            assert (pod["kind"], pod["metadata"]["labels"]) == ("Pod", {"a": "b"})
            (known,) = pod["spec"]["containers"]
            assert known == {"name": "c", "image": "i", "resources": {"requests": {"cpu": "8"}}}
            (event,) = found["events"]
            assert (event["reason"], event["type"], event["count"]) == (
                *("FailedScheduling", "Warning"),
                1,
            )
            assert "Insufficient cpu" in event["note"]
            node = await told(port, "nodes/quay/object")
            assert yaml.safe_load(node["yaml"])["status"]["allocatable"]["cpu"] == "4"
            assert node["events"] == []
            for path in ("pods/default/gone/object", "nodes/gone/object"):
                assert 'gone" not found' in await sentence(port, path, 404)

    run_stage(scenario)


def test_nodes_are_summed_up_and_pods_of_one_namespace_are_listed_alone() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.create_node("a", cpu="1500m")
        await stage.create_node("b", cpu="4")
        await stage.create_pod("small", cpu="500m")
        await stage.bound("small")
        async with served(stage) as port:
            # The totals are of all nodes, also where a page shows some.
            nodes = await told(port, "nodes?limit=1")
            assert nodes["totals"] == {
                "cpu": {"requested": "500m", "allocatable": "5500m"},
                "memory": {"requested": "0", "allocatable": "16Gi"},
            }
            pods = await told(port, "pods?state=all&namespace=default")
            assert (pods["total"], pods["namespaces"]) == (1, ["default"])
            others = await told(port, "pods?state=all&namespace=elsewhere")
            assert (others["items"], others["total"]) == ([], 0)
            assert others["namespaces"] == ["default"]
            assert len((await told(port, "decisions?namespace=default"))["items"]) == 1
            # A namespace is a whole name, not how names begin.
            assert (await told(port, "decisions?namespace=def"))["items"] == []

    run_stage(scenario)


@pytest.mark.parametrize(
    ("path", "code", "message"),
    [
        ("pods/default/none", 404, 'pods "none" not found in namespace "default"'),
        ("pods/default/theirs", 404, 'pod "default/theirs" is for the scheduler "somebody"'),
        ("nodes/none", 404, 'nodes "none" not found'),
        ("pods/default/mine?node=none", 404, 'nodes "none" not found'),
        ("pods/default", 404, 'there is nothing at "/explain/v1/pods/default"'),
        ("", 404, 'there is nothing at "/explain/v1/"'),
        ("pods?state=lost", 400, 'parameter state is "lost", expected pending or all'),
        ("pods?limit=0", 400, 'parameter limit is "0", expected a number from 1 to 10000'),
        ("pods?limit=-1", 400, 'parameter limit is "-1", expected a number from 1 to 10000'),
        ("pods?limit=1&limit=2", 400, "parameter limit is given 2 times"),
        ("pods?continue=%F0%9F", 400, "parameter continue is not what the page before gave"),
        (
            "pods/default/mine?" + "&".join(f"node=n{index}" for index in range(101)),
            400,
            "parameter node is given 101 times, expected at most 100",
        ),
        (
            "pods?stat=all",
            400,
            'unknown parameter "stat": expected state, limit, namespace or continue',
        ),
        ("stats?x=1", 400, 'unknown parameter "x": there are none'),
        (
            "pods/default/mine?fixes=1x",
            400,
            'parameter fixes is "1x", expected true or false',
        ),
        ("pods/default/mine?top=1e9", 400, 'parameter top is "1e9", expected a number from 0'),
    ],
)
def test_what_cannot_be_told_is_one_sentence(path: str, code: int, message: str) -> None:
    async def scenario(stage: Stage) -> None:
        await stage.create_node("quay")
        await stage.create_pod("mine")
        await stage.create_pod("theirs", schedulerName="somebody")
        await stage.bound("mine")
        async with served(stage) as port:
            assert (await sentence(port, path, code)).startswith(message)

    run_stage(scenario)


def test_only_get_is_served() -> None:
    async def scenario(stage: Stage) -> None:
        async with served(stage) as port:
            for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS"):
                status, body, headers = await port.ask("/explain/v1/pods", method=method)
                assert (status, headers["Allow"]) == (405, "GET")
                assert json.loads(body)["reason"] == "MethodNotAllowed"
            status, body, _ = await port.ask("/explain/v1/pods", method="HEAD")
            assert (status, body) == (405, "")

    run_stage(scenario)


def test_an_instance_that_does_not_know_the_cluster_says_so() -> None:
    async def scenario(stage: Stage) -> None:
        async with served(stage) as port:
            for path in ("pods", "nodes", "pods/default/a", "nodes/a"):
                message = await sentence(port, path, 503)
                assert message.startswith("This instance does not know the whole cluster: ")
                assert "Pod" in message
            assert (await told(port, "stats"))["nodes"] == 0

    run_stage(scenario, running=False)


def test_a_standby_explains_but_leaves_the_queue_to_the_leader() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.create_node("quay")
        await stage.create_pod("large", cpu="8")
        await stage.refused("large")
        standby = Explainer(stage.live, leads=lambda: False)
        async with open_port(Endpoints(extra=explain_routes(standby))) as port:
            found = await told(port, "pods/default/large")
            assert found["queue"] == {
                "state": "absent",
                "message": "Another instance leads: the pod waits in its queue.",
            }
            assert found["fixes"]
            (line,) = (await told(port, "pods"))["items"]
            assert line["state"] == "absent"
            assert line["message"].startswith("0/1 nodes are available")
            assert (await told(port, "stats"))["leading"] is False

    run_stage(scenario)


def test_large_answers_are_compressed_for_those_who_take_it() -> None:
    async def scenario(stage: Stage) -> None:
        for index in range(600):
            await stage.create_node(f"a-node-with-a-long-name-{index:03}")
        async with served(stage) as port:
            connector = aiohttp.TCPConnector(ssl=client_context())
            async with aiohttp.ClientSession(connector=connector, auto_decompress=False) as session:
                sent = {"Accept-Encoding": "gzip"}
                async with session.get(f"{port.url}/explain/v1/nodes", headers=sent) as answer:
                    assert answer.headers["Content-Encoding"] == "gzip"
                    packed = json.loads(gzip.decompress(await answer.read()))
                sent = {"Accept-Encoding": "identity"}
                async with session.get(f"{port.url}/explain/v1/nodes", headers=sent) as answer:
                    assert "Content-Encoding" not in answer.headers
                    assert json.loads(await answer.read()) == packed

    run_stage(scenario)


def test_people_may_have_it_indented() -> None:
    async def scenario(stage: Stage) -> None:
        async with served(stage) as port:
            _, plain, _ = await port.ask("/explain/v1/nodes")
            _, pretty, _ = await port.ask("/explain/v1/nodes?pretty=true")
            assert "\n" not in plain
            assert pretty.startswith('{\n  "resources": ')
            assert json.loads(plain) == json.loads(pretty)

    run_stage(scenario)


def test_statusz_does_not_name_what_kube_scheduler_does_not_have() -> None:
    async def scenario(stage: Stage) -> None:
        endpoints = Endpoints(
            extra=explain_routes(stage.explainer),
            statusz=ProcessStatus(time.time(), "python3", "1.37.1"),
        )
        async with open_port(endpoints) as port:
            status, body, _ = await port.ask("/statusz")
            assert status == 200
            assert "explain" not in body

    run_stage(scenario)


def test_not_more_explanations_wait_than_can_be_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explainer_module, "MOST_ASKED", 2)

    async def scenario(stage: Stage) -> None:
        await stage.create_node("quay")
        await stage.create_pod("mine")
        await stage.bound("mine")
        asked = [stage.explainer.pod("default", "mine") for _ in range(10)]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        refused = [one for one in answers if isinstance(one, NotReadyError)]
        # The first is given at once, and two may wait.
        assert len(refused) == 7
        assert str(refused[0]) == "2 explanations are asked for at once; try again."
        assert isinstance(await stage.explainer.pod("default", "mine"), PodExplanation)

    run_stage(scenario)


def test_explanations_take_turns_and_leave_the_scheduler_half_of_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spans: list[tuple[float, float]] = []
    really = explain_pod

    def slow(*args: Any, **named: Any) -> PodExplanation:
        started = time.monotonic()
        time.sleep(0.02)
        found = really(*args, **named)
        spans.append((started, time.monotonic()))
        return found

    async def scenario(stage: Stage) -> None:
        await stage.create_node("quay")
        await stage.create_pod("mine")
        await stage.bound("mine")
        monkeypatch.setattr(explainer_module, "explain_pod", slow)
        await asyncio.gather(*(stage.explainer.pod("default", "mine") for _ in range(5)))
        assert len(spans) == 5
        for (started, ended), (following, _) in pairwise(spans):
            assert following >= ended + (ended - started)

    run_stage(scenario)


def test_a_node_that_is_named_often_is_told_of_once() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.create_node("quay")
        await stage.create_pod("mine")
        await stage.bound("mine")
        async with served(stage) as port:
            found = await told(port, "pods/default/mine?" + "&".join(["node=quay"] * 150))
            assert [row["node"] for row in found["asked"]] == ["quay"]

    run_stage(scenario)


def test_lists_and_decisions_take_turns_with_explanations() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.create_node("quay")
        await stage.create_pod("mine")
        await stage.bound("mine")
        explainer = stage.explainer
        number = stage.ledger.latest_about("default/mine")
        assert number is not None
        async with explainer._turn:
            pods = asyncio.create_task(explainer.pods(pending=False, limit=1))
            nodes = asyncio.create_task(explainer.nodes(limit=1))
            decisions = asyncio.create_task(explainer.decisions())
            decision = asyncio.create_task(explainer.decision(number))
            following = asyncio.create_task(explainer.follow(0))
            for _ in range(100):
                await asyncio.sleep(0)
            asked = (pods, nodes, decisions, decision, following)
            assert not any(task.done() for task in asked)
        assert ((await pods)[0].total, (await nodes)[0].total) == (1, 1)
        follower, missed = await following
        assert (await decisions)[0].items[0] == (await decision).decision == missed[-1]
        follower.leave()

    run_stage(scenario)


class Silent(Extender):
    """An extender that must not be asked anything."""

    name = "http://127.0.0.1:1"
    filters = prioritizes = preempts = True

    def filter(self, pod: Pod, nodes: Sequence[Node]) -> FilterReply:
        raise AssertionError("asked to filter")

    def prioritize(self, pod: Pod, nodes: Sequence[Node]) -> Sequence[tuple[str, int]]:
        raise AssertionError("asked to prioritize")

    def preempt(self, pod: Pod, candidates: Sequence[Candidate]) -> Mapping[str, MetaVictims]:
        raise AssertionError("asked to preempt")


def test_extenders_are_not_asked_and_a_pod_that_would_have_a_node_is_told_so() -> None:
    async def scenario(stage: Stage) -> None:
        for name in ("quay", "berth"):
            await stage.create_node(name)
        for name in ("first", "second"):
            await stage.create_pod(name, cpu="3")
            await stage.bound(name)
        # Nobody decides from here on.
        stage.live.stop()
        stage.live.scheduler.cycle.use_extenders((Silent(),))
        for name, cpu in (("small", "1"), ("large", "3")):
            stage.live.scheduler.handlers.add_pod(make_pod(name, cpu=cpu))
        small = await stage.explainer.pod("default", "small")
        assert small.schedulable
        assert small.message == (
            f"would be assigned to {small.node}; extenders were not asked: http://127.0.0.1:1"
        )
        large = await stage.explainer.pod("default", "large")
        assert not large.schedulable
        assert large.message.startswith("0/2 nodes are available")
        assert "extenders" not in large.message
        assert "raisePriority" in {fix.kind for fix in large.fixes}
        assert not any(fix.verified for fix in large.fixes)
        placed = await stage.explainer.pod("default", "first")
        assert placed.message == f"Successfully assigned default/first to {placed.node}"
        node = await stage.explainer.node("quay")
        assert "default/small" in node.accepts

    run_stage(scenario)
