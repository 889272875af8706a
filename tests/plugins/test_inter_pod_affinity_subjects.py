"""Pods that come are told only to pods that may want them as company: none may miss its turn."""

from collections.abc import Mapping

from hypothesis import given, settings
from hypothesis import strategies as st

from moorage.model.pod import Pod
from moorage.plugins.inter_pod_affinity.hints import FRIENDS, after_pod_change
from moorage.testing import make_pod

values = st.sampled_from(["x", "y"])
labels = st.dictionaries(st.sampled_from(["app", "tier"]), values)
expressions: st.SearchStrategy[tuple[str, str, list[str]]] = st.one_of(
    st.tuples(st.just("app"), st.just("In"), st.lists(values, min_size=1, max_size=2)),
    st.tuples(st.just("app"), st.sampled_from(["Exists", "DoesNotExist"]), st.just([])),
    st.tuples(st.just("tier"), st.just("NotIn"), st.lists(values, min_size=1, max_size=2)),
)
selectors = st.none() | st.tuples(labels, st.lists(expressions, max_size=2))
Wanted = tuple[Mapping[str, str], list[tuple[str, str, list[str]]]] | None
sides = st.sampled_from(["podAffinity", "podAntiAffinity"])


def _waiting(wanted: list[tuple[str, Wanted]]) -> Pod:
    affinity: dict[str, dict[str, list[object]]] = {}
    for side, selector in wanted:
        term: dict[str, object] = {"topologyKey": "zone"}
        if selector is not None:
            term["labelSelector"] = {
                "matchLabels": selector[0],
                "matchExpressions": [
                    {"key": key, "operator": operator, "values": list(dict.fromkeys(those))}
                    for key, operator, those in selector[1]
                ],
            }
        terms = affinity.setdefault(side, {})
        terms.setdefault("requiredDuringSchedulingIgnoredDuringExecution", []).append(term)
    return make_pod("waiting", spec={"affinity": affinity})


def _placed(with_labels: Mapping[str, str]) -> Pod:
    return make_pod("other", labels=with_labels, spec={"nodeName": "n"})


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(sides, selectors), max_size=3), labels, st.none() | labels)
def test_a_pod_without_a_subject_of_the_event_is_one_that_the_hint_would_skip(
    wanted: list[tuple[str, Wanted]], after: dict[str, str], before: dict[str, str] | None
) -> None:
    waiting = _waiting(wanted)
    old, new = None if before is None else _placed(before), _placed(after)
    about, of_pod = FRIENDS.of_event(old, new), FRIENDS.of_pod(waiting)
    if about is not None and of_pod is not None and not set(about) & set(of_pod):
        assert after_pod_change(waiting, old, new) is False


def test_a_newcomer_is_told_to_few_of_many_that_wait() -> None:
    pods = [
        _waiting([("podAffinity", ({"colour": f"yellow-{number}"}, []))]) for number in range(9)
    ]
    about = FRIENDS.of_event(None, _placed({"colour": "yellow-4"}))
    assert about is not None
    concerned = [pod for pod in pods if set(about) & set(FRIENDS.of_pod(pod) or about)]
    assert concerned == [pods[4]]


def test_one_that_changes_or_goes_may_concern_anybody() -> None:
    pod = _placed({"app": "x"})
    assert FRIENDS.of_event(pod, pod) is None
    assert FRIENDS.of_event(pod, None) is None
