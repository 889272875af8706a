"""/explain behind the port's guards: without rights nobody learns anything of a cluster."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from moorage.http.delegation import DelegatedAuthentication, DelegatedAuthorization
from moorage.http.endpoints import Endpoints
from moorage.http.explain_api import explain_routes
from moorage.http.options import AuthenticationOptions, AuthorizationOptions
from secure_port.explained import Stage, run_stage
from secure_port.port import Json, Port, Reviews, open_port

SECRET = "merger-with-globex"
PATHS = [
    *("pods", "pods?state=all", f"pods/default/{SECRET}", "pods/default/nothing", "pods?limit=x"),
    *(
        "nodes",
        f"nodes/{SECRET}",
        "decisions",
        "decisions/1",
        "decisions/stream",
        "stats",
        "config",
    ),
    *("", "nothing"),
]


def _may(spec: Json) -> Json:
    path: str = spec["nonResourceAttributes"]["path"]
    reads = spec["nonResourceAttributes"]["verb"] == "get"
    return {"allowed": spec["user"] == "reader" and reads and path.startswith("/explain/")}


@asynccontextmanager
async def guarded(stage: Stage, reviews: Reviews, folder: Path) -> AsyncIterator[Port]:
    """A port whose API server knows a reader and somebody without rights."""
    reviews.users |= {"r": {"username": "reader"}, "n": {"username": "nobody"}}
    reviews.allowed = _may
    kubeconfig = reviews.kubeconfig(folder)
    known = AuthenticationOptions(kubeconfig=kubeconfig, skip_lookup=True)
    async with (
        DelegatedAuthentication(known) as who,
        DelegatedAuthorization(AuthorizationOptions(kubeconfig=kubeconfig)) as may,
        open_port(
            Endpoints(extra=explain_routes(stage.explainer)), who.authenticator, may.authorizer
        ) as port,
    ):
        yield port


@pytest.mark.parametrize(("token", "expected"), [("", 403), ("n", 403), ("wrong", 401)])
def test_without_rights_every_path_is_refused_and_nothing_is_told(
    token: str, expected: int, tmp_path: Path
) -> None:
    async def scenario(stage: Stage) -> None:
        await stage.create_node(SECRET)
        await stage.create_pod(SECRET)
        await stage.bound(SECRET)
        async with Reviews() as reviews, guarded(stage, reviews, tmp_path) as port:
            for path in PATHS:
                status, body, _ = await port.ask(f"/explain/v1/{path}", token=token)
                assert status == expected, path
                told = json.loads(body)
                assert told["kind"] == "Status"
                # But for what whoever asks has said.
                assert SECRET not in body.replace(f"/explain/v1/{path}", ""), path
            assert stage.explainer.feed.followers == 0

    run_stage(scenario)


def test_with_rights_to_get_explain_it_is_answered_and_only_get_is(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        await stage.create_node("quay")
        await stage.create_pod("ship")
        await stage.bound("ship")
        async with Reviews() as reviews, guarded(stage, reviews, tmp_path) as port:
            for path in ("pods?state=all", "pods/default/ship", "nodes", "stats", "config"):
                status, body, _ = await port.ask(f"/explain/v1/{path}", token="r")
                assert status == 200, body
            for method in ("POST", "PUT", "DELETE", "HEAD"):
                status, _, _ = await port.ask("/explain/v1/pods", token="r", method=method)
                assert status == 403

    run_stage(scenario)
