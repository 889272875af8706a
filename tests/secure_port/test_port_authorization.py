"""Who may see what: administrators, open paths, the API server's word, and what is remembered."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube.fake_api import run
from moorage.errors import AuthorizationFailedError, InputError
from moorage.http.authentication import ANONYMOUS, User
from moorage.http.authorization import OpenPaths
from moorage.http.delegation import DelegatedAuthentication, DelegatedAuthorization
from moorage.http.endpoints import Endpoints
from moorage.http.options import AuthenticationOptions, AuthorizationOptions
from secure_port.port import Reviews, open_port, write_kubeconfig

JANE = User("jane", "7", ("a", "system:authenticated"), {"Acme/Scope": ("s",)})


def test_the_api_server_is_asked_with_all_that_is_known_and_its_answers_are_kept(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with Reviews() as reviews:
            reviews.allowed = lambda spec: {
                "allowed": spec["nonResourceAttributes"]["path"] == "/metrics",
                "reason": "because",
            }
            options = AuthorizationOptions(kubeconfig=reviews.kubeconfig(tmp_path))
            async with DelegatedAuthorization(options) as made:
                for _ in range(2):
                    allowed = await made.authorizer.authorize(JANE, "get", "/metrics")
                    assert allowed.allowed
                    refused = await made.authorizer.authorize(JANE, "delete", "/configz")
                    assert (refused.allowed, refused.reason) == (False, "because")
            assert reviews.specs() == [
                {
                    "user": "jane",
                    "uid": "7",
                    "groups": ["a", "system:authenticated"],
                    "extra": {"acme/scope": ["s"]},
                    "nonResourceAttributes": {"path": path, "verb": verb},
                }
                for verb, path in (("get", "/metrics"), ("delete", "/configz"))
            ]

    run(scenario())


def test_answers_are_not_kept_where_no_time_is_given(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Reviews() as reviews:
            options = AuthorizationOptions(
                kubeconfig=reviews.kubeconfig(tmp_path), denied_cache_seconds=0
            )
            async with DelegatedAuthorization(options) as made:
                for _ in range(3):
                    await made.authorizer.authorize(JANE, "get", "/metrics")
            assert len(reviews.asked) == 3

    run(scenario())


def test_very_long_paths_are_not_remembered(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Reviews() as reviews:
            options = AuthorizationOptions(kubeconfig=reviews.kubeconfig(tmp_path))
            async with DelegatedAuthorization(options) as made:
                for _ in range(2):
                    await made.authorizer.authorize(JANE, "get", "/" + "x" * 10_000)
            assert len(reviews.asked) == 2

    run(scenario())


def test_administrators_and_open_paths_need_no_api_server() -> None:
    async def scenario() -> None:
        async with DelegatedAuthorization(AuthorizationOptions(), env={}) as made:
            boss = User("boss", groups=("system:masters",))
            assert (await made.authorizer.authorize(boss, "delete", "/metrics")).allowed
            assert (await made.authorizer.authorize(ANONYMOUS, "get", "/healthz")).allowed
            assert not (await made.authorizer.authorize(ANONYMOUS, "get", "/healthz/ping")).allowed
            assert not (await made.authorizer.authorize(JANE, "get", "/metrics")).allowed

    run(scenario())


def test_a_yes_and_a_no_at_once_is_an_error(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Reviews() as reviews:
            reviews.allowed = lambda spec: {"allowed": True, "denied": True}
            options = AuthorizationOptions(kubeconfig=reviews.kubeconfig(tmp_path))
            async with DelegatedAuthorization(options) as made:
                with pytest.raises(AuthorizationFailedError, match="both allow and deny"):
                    await made.authorizer.authorize(JANE, "get", "/metrics")

    run(scenario())


def test_an_api_server_that_cannot_be_reached_makes_an_internal_error(tmp_path: Path) -> None:
    async def scenario() -> None:
        kubeconfig = write_kubeconfig(tmp_path / "gone", "http://127.0.0.1:1")
        async with (
            DelegatedAuthentication(AuthenticationOptions(), env={}) as who,
            DelegatedAuthorization(AuthorizationOptions(kubeconfig=kubeconfig)) as may,
            open_port(Endpoints(), who.authenticator, may.authorizer) as port,
        ):
            status, body, headers = await port.ask("/metrics?<x>")
            assert status == 500
            assert body.startswith('Internal Server Error: "/metrics?')
            assert body.endswith("cannot be reached: connection refused\n")
            assert "<" not in body
            assert headers["X-Content-Type-Options"] == "nosniff"
            assert (await port.ask("/healthz"))[0] == 200

    run(scenario())


def test_a_refusal_tells_the_reason_of_the_api_server(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Reviews() as reviews:
            reviews.users["t"] = {"username": "jane"}
            reviews.allowed = lambda spec: {"allowed": False, "reason": "not on Sundays"}
            kubeconfig = reviews.kubeconfig(tmp_path)
            async with (
                DelegatedAuthentication(AuthenticationOptions(kubeconfig=kubeconfig)) as who,
                DelegatedAuthorization(AuthorizationOptions(kubeconfig=kubeconfig)) as may,
                open_port(Endpoints(), who.authenticator, may.authorizer) as port,
            ):
                status, body, _ = await port.ask("/metrics", token="t", method="PUT")
                assert status == 403
                message = r"forbidden: User \"jane\" cannot put path \"/metrics\": not on Sundays"
                assert f'"message":"{message}"' in body

    run(scenario())


def test_the_path_that_is_judged_is_the_path_that_is_served() -> None:
    """Whatever spelling a client finds, it must not reach a page by the name of another one."""

    async def scenario() -> None:
        options = AuthorizationOptions(always_allow_paths=("/open/*", "/healthz"))
        async with (
            DelegatedAuthentication(AuthenticationOptions(), env={}) as who,
            DelegatedAuthorization(options, env={}) as may,
            open_port(Endpoints(), who.authenticator, may.authorizer) as port,
        ):
            for path in ("/open/%2e%2e/configz", "/open/..%2fconfigz", "/open/%2Fconfigz"):
                assert (await port.ask(path))[0] == 404
            for path in ("/%63onfigz", "//healthz", "/healthz/", "/HEALTHZ", "/healthz%2f"):
                assert (await port.ask(path))[0] in (403, 404)
            assert (await port.ask("/%68ealthz"))[0] == 200

    run(scenario())


@pytest.mark.parametrize("path", ["/a*b", "/a*/b", "**", "*a"])
def test_a_star_is_allowed_at_the_end_only(path: str) -> None:
    with pytest.raises(InputError, match="only trailing \\* allowed in"):
        OpenPaths([path])


_PATHS = st.lists(st.text("ab/", max_size=4), max_size=4)


@given(_PATHS, _PATHS, st.text("ab/", max_size=5))
def test_open_paths_are_those_written_and_those_below_a_star(
    exact: list[str], prefixes: list[str], asked: str
) -> None:
    open_paths = OpenPaths([*exact, *(prefix + "*" for prefix in prefixes)])

    def bare(path: str) -> str:
        return path[1:] if path[:1] == "/" else path

    expected = any(bare(asked) == bare(path) for path in exact) or any(
        bare(asked)[: len(bare(prefix))] == bare(prefix) for prefix in prefixes
    )
    assert (asked in open_paths) == expected


def test_a_missing_kubeconfig_is_refused_as_upstream_refuses_it() -> None:
    with pytest.raises(InputError) as caught:
        DelegatedAuthorization(AuthorizationOptions(kubeconfig="/nope"), env={})
    assert str(caught.value) == (
        "failed to get delegated authorization kubeconfig: stat /nope: no such file or directory"
    )
