"""An API below /explain/v1 with made-up answers, every text of which may hold a hostile value.

The API server would not take such names; whether the page could bear them is tested nevertheless.
"""

import asyncio
import json
import time
from typing import Any
from urllib.parse import unquote

from aiohttp import web

from moorage.explain.report import SCHEMA
from moorage.http.endpoints import Route

PLUGINS = ("NodeName", "TaintToleration", "NodeResourcesFit", "PodTopologySpread")
SCORERS = ("NodeResourcesBalancedAllocation", "ImageLocality", "TaintToleration")
Json = dict[str, Any]


class CannedApi:
    """Answers of the right shape; `mark` is put into every text, names included."""

    def __init__(
        self,
        nodes: int = 20,
        mark: str = "",
        token: str = "",
        missing: bool = False,
        pods: int = 1,
        decisions: int = 3,
    ) -> None:
        self._nodes = nodes
        self._mark = mark
        self._token = token
        self.missing = missing
        self._pods = pods
        self._begun = time.time()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._news = asyncio.Event()
        self._cuts = 0
        self.seen_tokens: set[str] = set()
        self.asked: list[str] = []
        """Paths with their parameters, below the root."""
        self.stream_ids: list[str] = []
        """What those who opened the stream said that they know."""
        self.silent: set[str] = set()
        """Paths that are never answered."""
        self.more: Json = {}
        """Fields of the answer about a pod or a node that are other than usual."""
        self.decisions = [self._summary(number) for number in range(1, decisions + 1)]

    def decide(self, *numbers: int) -> None:
        """Make decisions."""
        self.decisions += [self._summary(number) for number in numbers]
        self._tell()

    def begin_anew(self, decisions: int) -> None:
        """As a scheduler does that remembers nothing: numbers begin at 1, streams are cut."""
        self._begun += 1000
        self._cuts += 1
        self.decisions = [self._summary(number) for number in range(1, decisions + 1)]
        self._tell()

    def _tell(self) -> None:
        def wake() -> None:
            self._news.set()
            self._news = asyncio.Event()

        if self._loop is not None:
            self._loop.call_soon_threadsafe(wake)

    def routes(self) -> tuple[Route, ...]:
        """To be mounted beside the page."""
        return (Route("/explain/v1", self._handle, prefix=True),)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self._loop = asyncio.get_running_loop()
        self.asked.append(str(request.rel_url).removeprefix("/explain/v1/"))
        given = request.headers.get("Authorization", "").removeprefix("Bearer ")
        self.seen_tokens.add(given)
        if self._token and given != self._token:
            body = {"kind": "Status", "message": f"Unauthorized{self._mark}", "code": 401}
            return web.json_response(body, status=401)
        segments = request.rel_url.raw_path.removeprefix("/explain/v1/").split("/")
        parts = [unquote(segment) for segment in segments]
        if parts == ["decisions", "stream"]:
            return await self._stream(request)
        if "/".join(parts) in self.silent:
            await asyncio.Event().wait()
        answer = None if self.missing else self._answer(parts, request)
        if answer is None:
            body = {"kind": "Status", "message": f"nothing here{self._mark}", "code": 404}
            return web.json_response(body, status=404)
        return web.json_response({"schema": SCHEMA, **answer})

    def _answer(self, parts: list[str], request: web.Request) -> Json | None:
        offset = int(request.query.get("offset", "0"))
        limit = int(request.query.get("limit", "100"))
        if request.query.get("namespace", "").startswith("vision"):
            return {"items": [], "total": 0, "continue": ""}
        match parts:
            case ["nodes"]:
                return self._node_list()
            case ["nodes", name]:
                return None if name.startswith("flotsam") else self._node(name) | self.more
            case ["pods"]:
                return self._pod_page(int(request.query.get("continue", "0")), limit)
            case ["pods", namespace, name]:
                if request.query.get("node", "").startswith("flotsam"):
                    return None
                matrix = self._matrix(offset, limit) if "matrix" in request.query else None
                found = self._pod(f"{namespace}/{name}") | self.more
                return found | ({"matrix": matrix} if matrix else {})
            case ["pods" | "nodes", *_, "object"]:
                return {"yaml": f"kind: Ship{self._mark}", "events": [self._event()]}
            case ["decisions"]:
                return self._decision_page(int(request.query.get("before", "0")), limit)
            case ["decisions", number]:
                found = self._pod("harbour/tug")
                kept = {"rejections": found["rejections"], "scores": found["scores"]}
                matrix = self._matrix(offset, limit)
                return {"decision": self._summary(int(number)), "matrix": matrix, **kept}
            case ["stats" | "throughput" | "config" as about]:
                return {
                    "stats": self._stats,
                    "throughput": self._throughput,
                    "config": self._config,
                }[about]()
        return None

    def _name(self, index: int) -> str:
        return f"node-{index}{self._mark}"

    def _node_list(self) -> Json:
        items = [
            {
                "node": self._name(index),
                "zone": f"zone-{'abc'[index % 3]}{self._mark}",
                "taints": [f"dedicated=gpu{self._mark}:NoSchedule"] if index % 5 == 0 else [],
                "unschedulable": index % 17 == 3,
                "pods": index % 30,
                "maxPods": 30,
                "utilisation": {"cpu": (index % 100) / 100, "memory": (index * 7 % 100) / 100},
            }
            for index in range(self._nodes)
        ]
        return {
            "resources": ["cpu", "memory"],
            "items": items,
            "total": len(items),
            "totals": {
                "cpu": {"requested": "2500m", "allocatable": "80"},
                "memory": {"requested": "48Gi", "allocatable": "64Gi"},
            },
        }

    def _node(self, name: str) -> Json:
        mark = self._mark
        refused = [{"plugin": f"TaintToleration{mark}", "verdict": "rejected", "reasons": [mark]}]
        return {
            "node": name,
            "source": "live",
            "labels": {f"tier{mark}": f"deep{mark}"},
            "taints": [f"dedicated{mark}:NoSchedule"],
            "allocatable": {"cpu": "4", "memory": "8Gi", f"rope{mark}": f"2{mark}"},
            "requested": {"cpu": "1500m", "memory": "1Gi"},
            "pods": 1,
            "podList": [{"pod": f"harbour/barge{mark}", "requests": {"cpu": "1"}}],
            "accepts": [f"harbour/canoe{mark}"],
            "refusals": [{"pod": f"harbour/tug{mark}", "verdicts": refused}],
        }

    def _event(self) -> Json:
        mark = self._mark
        told = {"type": "Warning", "reason": f"Adrift{mark}", "note": f"no quay{mark}"}
        seen = {"count": 3, "first": self._begun - 600, "last": self._begun - 300}
        return {**told, **seen, "controller": f"harbour-master{mark}"}

    def _pod_page(self, first: int, limit: int) -> Json:
        last = min(first + limit, self._pods)
        items = [self._pod_line(index) for index in range(first, last)]
        return {
            "items": items,
            "continue": str(last) if last < self._pods else "",
            "total": self._pods,
            "namespaces": [f"harbour{self._mark}", f"vision{self._mark}"],
        }

    def _pod_line(self, index: int) -> Json:
        """The last one is the oldest."""
        number = f"-{index:04d}" if index else ""
        return {
            "pod": f"harbour/tug{number}{self._mark}",
            "uid": "1",
            "state": "unschedulable",
            "attempts": 3,
            "added": self._begun - 200,
            "created": self._begun - 7200 - 60 * index,
            "nextRetry": self._begun + 600,
            "message": f"0/20 nodes are available{self._mark}",
            "plugins": [f"NodeResourcesFit{self._mark}"],
            "priority": 5,
            "node": "",
        }

    def _pod(self, key: str) -> Json:
        mark = self._mark

        def part(name: str, weighted: int) -> Json:
            score = {"raw": 10, "normalized": weighted // 2, "weight": 2, "weighted": weighted}
            return {"plugin": f"{name}{mark}", **score}

        def parts(index: int) -> list[Json]:
            first, *others = SCORERS
            return [part(first, 100 - 10 * index), *(part(name, 100) for name in others)]

        patch = [{"op": "add", "path": "/spec/tolerations/-", "value": {"key": f"it's{mark}"}}]
        resize = [{"op": "replace", "path": "/spec/containers/0/resources", "value": mark}]
        fix = {
            "change": f"Tolerate the taint{mark}",
            "kind": "tolerateTaint",
            "nodesGained": 4,
            "verified": True,
            "plugins": [f"TaintToleration{mark}"],
            "examples": [self._name(0)],
            "victims": [f"harbour/skiff{mark}"],
            "edits": [
                {"kind": "Pod", "name": key, "patch": patch},
                {"kind": "Pod", "name": key, "patch": resize, "recreate": True},
                {"kind": "Pod", "name": key, "patch": resize, "subresource": "resize"},
                {"kind": "Node", "name": self._name(1), "create": {"kind": f"Node{mark}"}},
            ],
        }
        return {
            "pod": key,
            "schedulable": False,
            "nodes": self._nodes,
            "feasible": 0,
            "message": f"0/{self._nodes} nodes are available{mark}",
            "source": "live",
            "rejections": [
                {
                    "plugin": f"{plugin}{mark}",
                    "reason": f"node(s) refuse{mark}",
                    "nodes": self._nodes,
                    "examples": [self._name(2)],
                }
                for plugin in PLUGINS
            ],
            "scores": [
                {
                    "node": self._name(index),
                    "total": 300 - 10 * index,
                    "chosen": index == 0,
                    "parts": parts(index),
                }
                for index in range(3)
            ],
            "queue": {
                "state": "unschedulable",
                "attempts": 3,
                "added": time.time() - 200,
                "message": f"waits{mark}",
                "waitsFor": [{"event": f"NodeAdd{mark}", "plugins": [f"NodeResourcesFit{mark}"]}],
            },
            "preemption": {
                "helps": False,
                "message": f"no victims{mark}",
                "refusals": [{"reason": mark, "nodes": 3, "examples": [self._name(3)]}],
                "candidates": [{"node": self._name(4), "victims": [f"harbour/skiff{mark}"]}],
            },
            "fixes": [fix],
            "decision": 1,
        }

    def _matrix(self, offset: int, limit: int) -> Json:
        names = [f"{plugin}{self._mark}" for plugin in PLUGINS]
        rows = [
            {
                "node": self._name(index),
                "feasible": False,
                "verdicts": [
                    {"plugin": name, "verdict": "rejected", "reasons": [f"no{self._mark}"]}
                    for name in names
                ],
            }
            for index in range(offset, min(offset + limit, self._nodes))
        ]
        return {"plugins": names, "rows": rows, "total": self._nodes, "offset": offset}

    def _decision_page(self, before: int, limit: int) -> Json:
        found = [one for one in reversed(self.decisions) if not before or one["number"] < before]
        return {"items": found[:limit], "continue": "more" if len(found) > limit else ""}

    def _summary(self, number: int) -> Json:
        return {
            "number": number,
            "time": self._begun + number / 1000,
            "pod": f"harbour/tug{self._mark}",
            "result": "unschedulable",
            "profile": f"default-scheduler{self._mark}",
            "nodes": self._nodes,
            "attempts": number,
            "seconds": 0.001,
            "message": f"0/{self._nodes} nodes are available{self._mark}, run {self._cuts}",
        }

    def _stats(self) -> Json:
        now = int(time.time())
        seconds = [
            {"time": now - 120 + at, "scheduled": at % 7, "p50": 0.001, "p99": 0.004}
            for at in range(120)
        ]
        pending = {"active": 0, "backoff": 1, "unschedulable": 2, "gated": 3}
        counts = {"scheduled": 10, "unschedulable": 2, "errors": 0, "nodes": 20, "pods": 10}
        return {"now": now, "pending": pending, "seconds": seconds, **counts}

    def _throughput(self) -> Json:
        spans = [
            {"time": int(self._begun) - 3600 + 30 * at, "scheduled": 60, "p50": 0.001, "p99": 0.004}
            for at in range(120)
        ]
        return {"width": 30, "spans": spans}

    def _config(self) -> Json:
        plugins = {"filter": {"enabled": [{"name": f"NodeName{self._mark}"}]}}
        profile = {"schedulerName": f"default-scheduler{self._mark}", "plugins": plugins}
        ledger = {"on": True, "bytes": 1, "limitBytes": 1 << 26, "directory": self._mark}
        return {"configuration": {"profiles": [profile]}, "ledger": ledger}

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        known = request.headers.get("Last-Event-ID", "")
        self.stream_ids.append(known)
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await answer.prepare(request)
        newest, cuts = self.decisions[-1]["number"], self._cuts
        seen = min(newest, int(known or newest))
        while cuts == self._cuts:
            news = self._news
            for decision in [one for one in self.decisions if one["number"] > seen]:
                seen = decision["number"]
                data = json.dumps(decision)
                await answer.write(f"id: {seen}\nevent: decision\ndata: {data}\n\n".encode())
            await news.wait()
        return answer
