"""Failures on purpose."""

from apiserver.serving import PODS, Client, Serving, pod
from moorage.apiserver import Fault
from moorage.apiserver.errors import ApiStatusError


def test_bindings_fail_before_or_after_their_effect(serving: Serving, api: Client) -> None:
    faults = serving.server.faults
    api.create_pod("a")
    faults.fail_bindings(1.0, times=1)
    assert api.bind("a").code == 500
    assert "nodeName" not in api.get(f"{PODS}/a").body["spec"]
    faults.fail_bindings(1.0, times=1, after=True)
    assert api.bind("a").code == 500
    assert api.get(f"{PODS}/a").body["spec"]["nodeName"] == "n1"
    assert api.bind("a").code == 409


def test_a_share_of_requests_is_throttled(serving: Serving, api: Client) -> None:
    fault = serving.server.faults.throttle(0.5, retry_after=3)
    answers = [api.get(PODS) for _ in range(60)]
    struck = [answer for answer in answers if answer.code == 429]
    assert 10 < len(struck) == fault.hits < 50
    assert struck[0].headers["Retry-After"] == "3"
    assert struck[0].body["details"]["retryAfterSeconds"] == 3
    serving.server.faults.clear()
    assert api.get(PODS).code == 200


def test_any_request_can_be_made_to_conflict(serving: Serving, api: Client) -> None:
    error = ApiStatusError(409, "Conflict", "injected")
    serving.server.faults.add(Fault(error, methods=("POST",), plural="pods", times=1))
    assert api.post(PODS, pod("a")).message == "injected"
    assert api.post(PODS, pod("a")).code == 201


def test_watches_are_cut_in_the_middle(serving: Serving, api: Client) -> None:
    version = api.get(PODS).version
    with api.watch(f"{PODS}?watch=1&resourceVersion={version}") as watch:
        assert serving.call(serving.server.faults.cut_watches) == 1
        assert watch.ended()
    created = api.create_pod("a")
    with api.watch(f"{PODS}?watch=1&resourceVersion={version}") as watch:
        assert watch.next() == ("ADDED", created)


def test_compaction_ends_old_watches_with_410(serving: Serving, api: Client) -> None:
    version = api.get(PODS).version
    api.create_pod("a")
    serving.call(serving.server.faults.compact)
    with api.watch(f"{PODS}?watch=1&resourceVersion={version}") as watch:
        kind, status = watch.next()
    assert (kind, status["code"]) == ("ERROR", 410)
