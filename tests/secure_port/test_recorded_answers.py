"""The port answers as kube-scheduler v1.37.1 did: status, headers and body of recorded requests."""

import asyncio
import json
import re
from datetime import datetime
from pathlib import Path

import pytest
import yaml

from kube.fake_api import run
from moorage.http.delegation import DelegatedAuthentication, DelegatedAuthorization
from moorage.http.endpoints import Endpoints, HealthCheck, ProcessStatus
from moorage.http.options import AuthenticationOptions, AuthorizationOptions
from secure_port.port import Reviews, client_context, open_port
from secure_port.recording import ASKS, FLAGZ, STATUSZ, TOKENS, Answer, Ask, ask, recorded

RECORDED = recorded()


def _endpoints() -> Endpoints:
    """What that kube-scheduler had to tell, as far as it told it in a form that can be read."""
    status = json.loads(
        RECORDED[Ask("reader", "/statusz", accept=STATUSZ.format("json", "v1beta1"))].body
    )
    flags = json.loads(
        RECORDED[Ask("reader", "/flagz", accept=FLAGZ.format("json", "v1beta1"))].body
    )
    configuration = json.loads(RECORDED[Ask("reader", "/configz")].body)
    leader, shutdown, synced = (
        HealthCheck(name, lambda: None)
        for name in ("leaderElection", "shutdown", "sched-handler-sync")
    )
    return Endpoints(
        healthz=[leader],
        readyz=[leader, shutdown, synced],
        configz=lambda: configuration,
        flags=lambda: flags["flags"],
        statusz=ProcessStatus(
            datetime.fromisoformat(status["startTime"]).timestamp(),
            status["goVersion"],
            status["binaryVersion"],
            status["emulationVersion"],
        ),
        profiling=True,
    )


async def _all_answers(folder: Path) -> dict[Ask, Answer]:
    async with Reviews() as reviews:
        for user in ("reader", "norights"):
            reviews.users[TOKENS[user]] = {"username": user, "groups": ["system:authenticated"]}
        reviews.allowed = lambda spec: {"allowed": spec["user"] == "reader"}
        kubeconfig = reviews.kubeconfig(folder)
        async with (
            DelegatedAuthentication(AuthenticationOptions(kubeconfig=kubeconfig)) as who,
            DelegatedAuthorization(AuthorizationOptions(kubeconfig=kubeconfig)) as may,
            open_port(_endpoints(), who.authenticator, may.authorizer) as port,
        ):
            context = client_context()
            return {asked: await asyncio.to_thread(ask, port.url, asked, context) for asked in ASKS}


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[Ask, Answer]:
    return run(_all_answers(tmp_path_factory.mktemp("recorded")))


def _timeless(answer: Answer) -> Answer:
    """Without how long the process has been running, and with one separator for all."""
    body = re.sub(r"(Up\W+)\d+ hr \d+ min \d+ sec", "Up: <time>", answer.body)
    body = re.sub(r'("?uptimeSeconds"?: ?)\d+', r"\1<time>", body)
    body = re.sub(
        r"(?m)^(Started|Go version|Binary version|Emulation version|Paths)(: |:|=| ) ?",
        r"\1: ",
        body,
    )
    if "yaml" in answer.headers.get("Content-Type", ""):
        body = repr(yaml.safe_load(body))  # what needs quotes is the same, which quotes is not
    return answer._replace(body=body)


@pytest.mark.parametrize(
    "asked", ASKS, ids=lambda a: " ".join(filter(None, (a.who or "anybody", *a[1:])))
)
def test_the_answer_is_the_recorded_one(asked: Ask, answers: dict[Ask, Answer]) -> None:
    assert _timeless(answers[asked]) == _timeless(RECORDED[asked])
