"""Errors of Reserve, Permit, PreBind and Bind: upstream's words before them once, and logged."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from framework.building import make_state, profile_of
from moorage.errors import ApiError
from moorage.framework.binding import bind_pod, prepare
from moorage.framework.plugin import (
    ApiPort,
    BindPlugin,
    PermitPlugin,
    Plugin,
    PreBindPlugin,
    ReservePlugin,
)
from moorage.framework.profile import Profile
from moorage.framework.reserving import permit, reserve
from moorage.framework.status import Code, Status
from moorage.framework.waiting_pods import WaitingPod
from moorage.model.pod import Pod
from reference.objects import make_node, make_pod

BROKEN = Status(Code.ERROR, ("the tide is out",))
Refused = Status | WaitingPod | None
Ask = Callable[[Profile, Pod, Any], Awaitable[Refused]]


class Reserves(ReservePlugin):
    name = "Reserves"

    def reserve(self, pod: Pod, node_name: str) -> Status | None:
        return BROKEN

    def unreserve(self, pod: Pod, node_name: str) -> None:
        raise AssertionError("nothing was reserved")


class Permits(PermitPlugin):
    name = "Permits"

    def permit(self, pod: Pod, node_name: str) -> tuple[Status | None, float]:
        return BROKEN, 0.0


class Prepares(PreBindPlugin):
    name = "Prepares"

    async def pre_bind(self, pod: Pod, node_name: str, api: ApiPort) -> Status | None:
        return BROKEN


class PreparesInVain(PreBindPlugin):
    name = "PreparesInVain"

    async def pre_bind(self, pod: Pod, node_name: str, api: ApiPort) -> Status | None:
        raise ApiError(500, "InternalError", "the tide is out")


class Binds(BindPlugin):
    name = "Binds"

    async def bind(self, pod: Pod, node_name: str, api: ApiPort) -> Status | None:
        return BROKEN


class BindsInVain(BindPlugin):
    name = "BindsInVain"

    async def bind(self, pod: Pod, node_name: str, api: ApiPort) -> Status | None:
        raise ApiError(500, "InternalError", "the tide is out")


async def _reserve(profile: Profile, pod: Pod, api: Any) -> Refused:
    return reserve(profile, pod, "a")


async def _permit(profile: Profile, pod: Pod, api: Any) -> Refused:
    return permit(profile, pod, "a", 0.0)


async def _prepare(profile: Profile, pod: Pod, api: Any) -> Refused:
    return await prepare(profile, pod, "a", api)


async def _bind(profile: Profile, pod: Pod, api: Any) -> Refused:
    return await bind_pod(profile, pod, "a", api)


async def _asked(ask: Ask, profile: Profile) -> Refused:
    return await ask(profile, make_pod("p"), None)


@pytest.mark.parametrize(
    ("plugin", "point", "ask"),
    [
        (Reserves, "Reserve", _reserve),
        (Permits, "Permit", _permit),
        (Prepares, "PreBind", _prepare),
        (PreparesInVain, "PreBind", _prepare),
        (Binds, "Bind", _bind),
        (BindsInVain, "Bind", _bind),
    ],
)
def test_an_error_bears_point_and_plugin_once_and_is_logged_without_them(
    plugin: type[Plugin],
    point: str,
    ask: Ask,
    caplog: pytest.LogCaptureFixture,
) -> None:
    state = make_state([make_node("a")])
    profile = profile_of(state, plugin)
    if plugin in (Binds, BindsInVain):
        profile.bind = profile.bind[-1:]  # not DefaultBinder, which comes first
    answer = asyncio.run(_asked(ask, profile))
    assert isinstance(answer, Status)
    assert answer.code is Code.ERROR
    assert answer.message == f'running {point} plugin "{plugin.name}": the tide is out'
    assert '"Plugin ' in caplog.text
    assert 'err="the tide is out"' in caplog.text
    assert f'plugin="{plugin.name}" pod="default/p"' in caplog.text
