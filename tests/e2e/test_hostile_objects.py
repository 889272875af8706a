"""Objects that any tenant may create on a real API server: nobody else has to wait for them.

To add one, put what creates it into `HOSTILE`.
"""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial

import pytest

from e2e.client import Api, Json, wait_for
from e2e.cluster import ControlPlane, empty
from e2e.instance import Instance, instance, let_read
from e2e.objects import node, pod
from e2e.schedulers import Scheduler, subject

NAMESPACE = "hostile"
LEVELS = 4_500
"""kube-apiserver takes up to 10,000 levels in a request, and some more around what is stored."""
BOUND_WITHIN = 2.0
DRIVER = "device.example.com"
MANY = str([0] * 50)
DEEP = '"deep"'  # stands for a value that Python's encoder could not write


def deep(levels: int = LEVELS) -> str:
    return '{"f:a":' * levels + "{}" + "}" * levels


def send(api: Api, body: Json, value: str | None = None) -> None:
    """Create an object; `value` takes the place of what says "deep"."""
    # Without blanks: a patch would remove them, and a claim's specification must not change.
    text = json.dumps(body, separators=(",", ":")).replace(DEEP, value or deep())
    api.create_text(body["kind"], NAMESPACE, text)


def in_managed_fields(api: Api) -> None:
    body = pod("deep-managed-fields")
    entry = {"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1"}
    body["metadata"]["managedFields"] = [entry | {"fieldsV1": "deep"}]
    send(api, body)


def in_parameters(api: Api) -> None:
    opaque = {"opaque": {"driver": DRIVER, "parameters": {"a": "deep"}}}
    request = {"name": "one", "exactly": {"deviceClassName": "device"}}
    body = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "deep-parameters"},
        "spec": {"devices": {"requests": [request], "config": [opaque]}},
    }
    # The API server takes parameters of at most 10 KiB.
    send(api, body, deep(1_200).replace("f:a", ""))
    claim = {"name": "d", "resourceClaimName": "deep-parameters"}
    send(api, pod("deep-claim", resourceClaims=[claim]))


def in_annotations(api: Api) -> None:
    body = pod("deep-annotation")
    body["metadata"]["annotations"] = {"a": deep() + "\x1b[2J\n\u0000\ufffd"}
    send(api, body)


def with_odd_numbers(api: Api) -> None:
    body = pod("odd-numbers", cpu="9223372036854775807", memory="9E")
    send(api, body)


def claiming(name: str, *requests: Json) -> Callable[[Api], None]:
    """A pod and its claim for devices."""

    def create(api: Api) -> None:
        asked = [
            {"name": f"r{number}", "exactly": {"deviceClassName": "device", **request}}
            for number, request in enumerate(requests)
        ]
        body = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": name},
            "spec": {"devices": {"requests": asked}},
        }
        send(api, body)
        send(api, pod(name, resourceClaims=[{"name": "d", "resourceClaimName": name}]))

    return create


def selected_by(expression: str) -> Json:
    return {"selectors": [{"cel": {"expression": expression}}]}


HOSTILE: dict[str, Callable[[Api], None]] = {
    "a pattern that makes others backtrack": claiming(
        "pattern", selected_by(f"device.attributes['{DRIVER}'].text.matches('(a+)+$') && false")
    ),
    "an expression just below the limit on costs": claiming(
        "costly",
        selected_by(
            f"{MANY}.all(a, {MANY}.all(b, {MANY}.all(c, device.driver != ''))) && false",
        ),
    ),
    "millions of choices, none of which will do": claiming(
        "hopeless", {"count": 10}, selected_by("false")
    ),
    "managed fields": in_managed_fields,
    "parameters of a claim": in_parameters,
    "an annotation": in_annotations,
    "numbers": with_odd_numbers,
}
SCHEDULED = ("deep-managed-fields", "deep-claim", "deep-annotation")
"""These are odd but mean something, so that kube-scheduler finds a node for them."""


@pytest.fixture
def api(server: ControlPlane) -> Iterator[Api]:
    with closing(Api(server.admin)) as opened:
        empty(opened)
        if opened.find("Namespace", NAMESPACE) is None:
            name = {"metadata": {"name": NAMESPACE}}
            opened.create({"apiVersion": "v1", "kind": "Namespace", **name})
        opened.create(node("n1"))
        text = {"string": "a" * 50 + "!"}
        devices = [
            {"name": f"dev-{number}", "attributes": {"text": text, "number": {"int": number}}}
            for number in range(60)
        ]
        group = "resource.k8s.io/v1"
        opened.create(
            {"apiVersion": group, "kind": "DeviceClass", "metadata": {"name": "device"}, "spec": {}}
        )
        pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": DRIVER, "nodeName": "n1", "pool": pool, "devices": devices}
        opened.create(
            {"apiVersion": group, "kind": "ResourceSlice", "metadata": {"name": "n1"}, "spec": spec}
        )
        yield opened
        empty(opened)


def check_ordinary(api: Api, running: Instance, name: str, usual: float) -> float:
    """An ordinary pod is bound in time, and the scheduler says that it is well.

    `usual` is what that takes on this machine at this moment without anything hostile.
    """
    body = pod(name)
    body["metadata"]["namespace"] = NAMESPACE
    api.create(body)
    started = time.monotonic()
    wait_for(f"{name} to be bound", lambda: node_of(api, name), pause=0.02)
    took = time.monotonic() - started
    assert took < BOUND_WITHIN + usual
    assert running.ask("/livez").status == 200
    return took


def check_lease(api: Api) -> None:
    """The lease is renewed."""

    def renewed() -> str:
        lease = api.find("Lease", "kube-scheduler", "kube-system") or {"spec": {}}
        return str(lease["spec"].get("renewTime", ""))

    before = renewed()
    wait_for("the lease to be renewed", lambda: renewed() != before, pause=0.1)


def node_of(api: Api, name: str) -> str:
    found: str = api.get("Pod", name, NAMESPACE)["spec"].get("nodeName", "")
    return found


def test_ordinary_pods_are_bound_beside_hostile_objects_before_and_after_a_restart(
    server: ControlPlane, api: Api, scheduler: Callable[[str], Scheduler]
) -> None:
    who = scheduler(subject())
    let_read(server)
    with instance(who, server, "hostile-before") as running:
        wait_for("a leader", running.leads)
        usual = max(check_ordinary(api, running, f"first-{n}", BOUND_WITHIN) for n in range(3))
        for number, (what, create) in enumerate(HOSTILE.items()):
            create(api)
            check_ordinary(api, running, f"beside-{number}", usual)
            assert running.process.running, what
        check_lease(api)
        for name in SCHEDULED:
            wait_for(f"{name} to be bound", partial(node_of, api, name))
    with instance(who, server, "hostile-after") as running:
        wait_for("a new leader", running.leads)
        for number in range(3):
            check_ordinary(api, running, f"after-{number}", usual)
        check_lease(api)
        assert "Traceback" not in running.log()
