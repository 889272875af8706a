"""DefaultBinder: binds a pod through the API's binding subresource."""

import asyncio
from typing import cast

import pytest

from framework.building import make_plugin
from moorage.errors import ApiError
from moorage.framework.plugin import ApiPort
from moorage.model.pod import Pod
from moorage.plugins.default_binder import DefaultBinder
from reference.objects import make_pod


class Api:
    """Notes what it is asked to bind, or refuses it."""

    def __init__(self, error: Exception | None = None) -> None:
        self.bound: list[tuple[str, str]] = []
        self._error = error

    async def bind(self, pod: Pod, node_name: str) -> None:
        if self._error is not None:
            raise self._error
        self.bound.append((pod.name, node_name))


def bind(api: Api) -> object:
    plugin = make_plugin(DefaultBinder)
    return asyncio.run(plugin.bind(make_pod("p"), "n", cast(ApiPort, api)))


def test_the_pod_is_bound_to_the_chosen_node() -> None:
    api = Api()
    assert bind(api) is None
    assert api.bound == [("p", "n")]


def test_what_the_api_refuses_is_raised() -> None:
    refusal = ApiError(409, "Conflict", "already bound")
    with pytest.raises(ApiError) as raised:
        bind(Api(refusal))
    assert raised.value is refusal
