"""Events of claims are told only to pods that share a claim with them: no pod may miss its turn."""

from hypothesis import given, settings
from hypothesis import strategies as st

from moorage.framework.cluster_events import ActionType, EventResource
from moorage.model.devices import ResourceClaim
from moorage.model.meta import Json
from moorage.model.pod import Pod
from moorage.testing import cluster, make_pod
from plugins.devices.device_objects import allocated, claim, plugin

NAMES = ("a", "b")
STATUSES: tuple[Json, ...] = (
    {},
    allocated(("p", "d")),
    allocated(("p", "d"), users=["somebody"]),
)

references = st.tuples(st.sampled_from(["by name", "template", "unknown"]), st.sampled_from(NAMES))
versions = st.tuples(st.sampled_from(NAMES), st.sampled_from(STATUSES), st.booleans())


def _pod(wanted: list[tuple[str, str]], namespace: str) -> Pod:
    asked = []
    known = []
    for number, (how, name) in enumerate(wanted):
        reference = {"name": f"r{number}"}
        if how == "by name":
            asked.append({**reference, "resourceClaimName": name})
            continue
        asked.append({**reference, "resourceClaimTemplateName": "template"})
        if how == "template":
            known.append({**reference, "resourceClaimName": name})
    return make_pod(
        namespace=namespace,
        spec={"resourceClaims": asked},
        status={"resourceClaimStatuses": known},
    )


def _claim(name: str, status: Json, *, owned: bool) -> ResourceClaim:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "pod", "uid": make_pod().uid}
    owners = [{**owner, "controller": True}] if owned else []
    return claim(name, status=status, ownerReferences=owners)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(references, max_size=2),
    st.sampled_from(["default", "other"]),
    st.sampled_from(STATUSES),
    versions,
    st.booleans(),
)
def test_a_pod_without_a_subject_of_the_event_is_one_that_the_hint_would_skip(
    wanted: list[tuple[str, str]],
    namespace: str,
    before: Json,
    after: tuple[str, Json, bool],
    is_new: bool,
) -> None:
    name, status, owned = after
    changed = _claim(name, status, owned=owned)
    old = None if is_new else _claim(name, before, owned=owned)
    rest = [_claim(other, {}, owned=True) for other in NAMES if other != name]
    asked = plugin(cluster([], others=[changed, *rest]).listers)
    pod = _pod(wanted, namespace)
    one = next(
        found
        for found in asked.events_to_register()
        if found.event.resource is EventResource.RESOURCE_CLAIM
    )
    assert one.event.action == ActionType.ADD | ActionType.UPDATE | ActionType.DELETE
    assert one.hint is not None
    assert one.subjects is not None
    about, concerns = one.subjects.of_event(old, changed), one.subjects.of_pod(pod)
    if about is not None and concerns is not None and not set(about) & set(concerns):
        assert one.hint(pod, old, changed) is False


def test_a_claim_that_changes_is_no_news_for_pods_with_other_claims() -> None:
    asked = plugin(cluster([]).listers)
    (subjects,) = [one.subjects for one in asked.events_to_register() if one.subjects is not None]
    changed = claim("a", status=allocated(("p", "d")))
    assert subjects.of_event(None, changed) == ("default/a",)
    assert subjects.of_event(changed, claim("a")) is None
    assert subjects.of_event(changed, None) is None
    waiting = _pod([("unknown", "a"), ("template", "b")], "default")
    assert subjects.of_pod(waiting) == ["default/b"]
