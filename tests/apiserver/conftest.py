"""A fresh server per test."""

from collections.abc import Iterator

import pytest

from apiserver.serving import Client, Serving, served
from moorage.apiserver import ApiServer


@pytest.fixture
def serving() -> Iterator[Serving]:
    with served(lambda: ApiServer(seed=1)) as (running, _):
        yield running


@pytest.fixture
def api(serving: Serving) -> Client:
    return Client(serving.url)
