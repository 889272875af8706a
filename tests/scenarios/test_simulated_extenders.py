"""Extenders in simulations: asked over real connections, answering in no virtual time."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from moorage.errors import InputError
from scenarios.simulated import conditions, node_body, placements, pod_body, simulated

Answers = dict[str, Callable[[Any], Any]]


@contextmanager
def extender(answers: Answers) -> Iterator[str]:
    """The address of an extender that answers these verbs."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            answer = json.dumps(answers[self.path.strip("/")](asked)).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def closed_port() -> str:
    """An address where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    return f"http://127.0.0.1:{port}"


NODES = (node_body("a"), node_body("b"), node_body("c"))


def test_an_extender_filters_and_ranks() -> None:
    def refuse_a(asked: Any) -> Any:
        return {"nodeNames": [name for name in asked["NodeNames"] if name != "a"]}

    def prefer_c(asked: Any) -> Any:
        return [{"host": name, "score": 10 if name == "c" else 0} for name in asked["NodeNames"]]

    with extender({"f": refuse_a, "p": prefer_c}) as url:
        entry = {"urlPrefix": url, "filterVerb": "f", "prioritizeVerb": "p", "weight": 100}
        with simulated(*NODES, extenders=[{**entry, "nodeCacheCapable": True}]) as run:
            for number in range(3):
                run.plan(number, partial(run.come, pod_body(f"p{number}")))
            assert run.play(3600) == "nothing more could happen"
            assert placements(run) == {"p0": "c", "p1": "b", "p2": ""}
            assert conditions(run, "Pod", "p1") == {**conditions(run, "Pod", "p0")}
            assert conditions(run, "Pod", "p2")["PodScheduled"] == ("False", "Unschedulable")


def test_an_extender_sees_whole_objects_and_binds() -> None:
    seen: list[Any] = []

    def note(asked: Any) -> Any:
        seen.append(asked)
        return {"nodes": asked["Nodes"]}

    def bind(asked: Any) -> Any:
        seen.append(asked)
        return {}

    pod = pod_body("p", nodeSelector={"kubernetes.io/hostname": "b"}, hostname="of-the-pod")
    with extender({"f": note, "b": bind}) as url:
        entry = {"urlPrefix": url, "filterVerb": "f", "bindVerb": "b"}
        with simulated(*NODES, pod, extenders=[entry]) as run:
            run.play(60)
            assert placements(run) == {"p": "b"}
    asked, bound = seen
    assert asked["Pod"]["spec"]["hostname"] == "of-the-pod"
    assert [one["metadata"]["name"] for one in asked["Nodes"]["items"]] == ["b"]
    assert (bound["PodName"], bound["Node"]) == ("p", "b")


def test_an_extender_has_a_say_in_preemption() -> None:
    def only_b(asked: Any) -> Any:
        victims = asked["NodeNameToMetaVictims"]
        return {"nodeNameToMetaVictims": {"b": victims["b"]}}

    with extender({"v": only_b}) as url:
        entry = {"urlPrefix": url, "preemptVerb": "v", "nodeCacheCapable": True}
        with simulated(*NODES, extenders=[entry]) as run:
            for name in "abc":
                run.come(pod_body(f"on-{name}", nodeSelector={"kubernetes.io/hostname": name}))
            run.plan(10, lambda: run.come(pod_body("urgent", priority=10)))
            run.play(60)
            assert run.preempted == ["default/on-b"]
            assert placements(run) == {"on-a": "a", "on-c": "c", "urgent": "b"}


def test_one_that_nobody_answers_for_ends_the_run_unless_it_may_be_left_out() -> None:
    entry = {"urlPrefix": closed_port(), "filterVerb": "f"}
    refusal = pytest.raises(InputError, match=r"extenders: no answer: Post .*connection refused")
    with simulated(*NODES, pod_body("p"), extenders=[entry]) as run, refusal:
        run.play(60)
    with simulated(*NODES, pod_body("p"), extenders=[{**entry, "ignorable": True}]) as run:
        run.play(60)
        assert placements(run)["p"] in ("a", "b", "c")


def test_ties_among_nodes_that_extenders_rank_are_settled_by_the_seed() -> None:
    def all_equal(asked: Any) -> Any:
        return [{"host": name, "score": 1} for name in asked["NodeNames"]]

    outcomes = []
    with extender({"p": all_equal}) as url:
        entry = {"urlPrefix": url, "prioritizeVerb": "p", "weight": 1, "nodeCacheCapable": True}
        for _ in range(2):
            with simulated(*NODES, extenders=[entry]) as run:
                for number in range(3):
                    run.come(pod_body(f"p{number}"))
                run.play(60)
                outcomes.append(placements(run))
    assert outcomes[0] == outcomes[1]
