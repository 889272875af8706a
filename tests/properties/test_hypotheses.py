"""A node as it would be without some pods and with others, against one that really is so."""

from hypothesis import assume, given
from hypothesis import strategies as st

from framework.asking import plain
from framework.building import make_profile
from moorage.cluster.pod_query import PodQuery
from moorage.cluster.view import NodeView
from moorage.framework.runner import TrialNode
from moorage.model.pod import HostPort, Pod
from properties import strategies
from properties.clusters import clusters, sociable_clusters
from properties.harness import Twin, ask, effort, fresh_cycle, rebuilt
from properties.strategies import PORTS, RESOURCES, named
from reference.answers import Skip
from reference.cluster import NaiveCluster, Port
from reference.node_plugins import port_taken
from reference.objects import HOSTNAME, ZONE
from reference.scheduler import NaiveScheduler, Prepared, change

picks = st.integers(0, 2**16)


def chosen(twin: Twin, pick: int, keep: list[bool]) -> tuple[str, int, list[Pod]]:
    """A node, its row, and some of its pods."""
    names = sorted(twin.naive.nodes)
    name = names[pick % len(names)]
    pods = list(twin.naive.infos[name].pods.values())
    removed = [pod for pod, kept in zip(pods, keep, strict=False) if not kept]
    return name, twin.state.nodes.row_of[name], removed


@effort(120)
@given(
    clusters(),
    picks,
    st.lists(st.booleans(), min_size=10, max_size=10),
    st.lists(strategies.pods, max_size=3),
    st.lists(st.booleans(), min_size=10, max_size=10),
)
def test_columns_of_a_what_if_view_are_those_of_the_changed_node(
    twin: Twin, pick: int, keep: list[bool], bodies: list[Pod], back: list[bool]
) -> None:
    name, row, removed = chosen(twin, pick, keep)
    added = [named(body, 2000 + i) for i, body in enumerate(bodies)]
    added += [pod for pod, again in zip(removed, back, strict=False) if again]
    expected = twin.naive.infos[name].copy()
    for pod in removed:
        expected.remove(pod)
    for pod in added:
        expected.add(pod)

    view = NodeView(twin.state).what_if({row: added}, {row: removed})

    assert view.names() == [name]
    for resource in RESOURCES:
        assert view.requested(resource).tolist() == [expected.requested(resource)]
    for resource in ("cpu", "memory"):
        with_defaults = [expected.requested_with_defaults(resource)]
        assert view.requested_with_defaults(resource).tolist() == with_defaults
    assert view.pod_count.tolist() == [len(expected.pods)]
    assert {pod.uid: pod for pod in view.pods_on(0)} == expected.pods
    for port in PORTS:
        ip, protocol = port.host_ip or "0.0.0.0", port.protocol or "TCP"
        taken = port_taken(Port(ip, protocol, port.host_port), expected.ports)
        assert view.with_taken_ports([HostPort(protocol, port.host_port, ip)]).tolist() == [taken]


@effort(80)
@given(
    sociable_clusters(),
    picks,
    st.lists(st.booleans(), min_size=10, max_size=10),
    st.lists(strategies.social_pods, max_size=3),
)
def test_counts_across_nodes_follow_the_pods_that_come_and_go(
    twin: Twin, pick: int, keep: list[bool], bodies: list[Pod]
) -> None:
    name, row, removed = chosen(twin, pick, keep)
    added = [named(body, 2000 + i) for i, body in enumerate(bodies)]
    really = twin.naive.copy()
    real_change(really, name, removed, added)
    expected = NodeView(rebuilt(really))

    view = NodeView(twin.state).changed({row: added}, {row: removed})

    for terminating in (True, False):
        query = PodQuery((), terminating)
        counts = dict(zip(view.names(), view.pods_matching(query).tolist(), strict=True))
        wanted = zip(expected.names(), expected.pods_matching(query).tolist(), strict=True)
        assert counts == dict(wanted)
        for key in (ZONE, HOSTNAME):
            assert by_value(view, query, key) == by_value(expected, query, key)


def by_value(view: NodeView, query: PodQuery, key: str) -> dict[str | None, int]:
    """How many pods match in each domain that has any."""
    values = view.label(key).vocabulary.values
    sums = view.pods_per_domain(query, key).sums.tolist()
    return {values[code]: count for code, count in enumerate(sums) if count}


@effort(160)
@given(
    st.one_of(clusters(nominations=False), sociable_clusters()),
    st.one_of(strategies.incoming_pods, strategies.social_pods),
    picks,
    st.lists(st.booleans(), min_size=10, max_size=10),
    st.lists(strategies.pods, max_size=2),
    st.lists(st.booleans(), min_size=10, max_size=10),
)
def test_a_hypothesis_judges_as_upstream_does_when_pods_come_and_go(
    twin: Twin, body: Pod, pick: int, keep: list[bool], bodies: list[Pod], back: list[bool]
) -> None:
    pod = named(body, 1000)
    name, row, removed = chosen(twin, pick, keep)
    added = [named(other, 2000 + i) for i, other in enumerate(bodies)]
    added += [other for other, again in zip(removed, back, strict=False) if again]
    naive = NaiveScheduler(twin.naive)
    prepared = naive.prepare(pod)
    assume(prepared.rejection is None)
    changed, info = prepared.copy(), twin.naive.infos[name].copy()
    for other in removed:
        change(info, changed, pod, other, -1)
    for other in added:
        change(info, changed, pod, other, 1)
    expected = naive.first_refusal(pod, info, changed)

    attempt = twin.cycle.filter(make_profile(twin.state), pod)
    untouched = TrialNode(attempt, row)
    trial = untouched.removing(removed).adding(added)

    status = trial.rejection()
    refusal = plain(status)
    assert (status and (status.plugin, refusal)) == expected
    first = naive.first_refusal(pod, twin.naive.infos[name], prepared)
    assert plain(untouched.rejection()) == (first and first[1]), "the original must not change"


def real_change(naive: NaiveCluster, name: str, removed: list[Pod], added: list[Pod]) -> None:
    for pod in removed:
        naive.displace(pod.uid)
    for pod in added:
        naive.place(pod, name)


def quirks_apply(prepared: Prepared, pods: list[Pod]) -> bool:
    """Where upstream's counting of a change differs from counting anew.

    A terminating pod that comes or goes is counted, and an empty selector then matches.
    """
    if isinstance(prepared.spread, Skip):
        return False
    if any(pod.metadata.deletion_timestamp is not None for pod in pods):
        return True
    return any(rule.tests is not None and not rule.tests for rule in prepared.spread.rules)


@effort(160)
@given(
    st.one_of(clusters(nominations=False), sociable_clusters()),
    st.one_of(strategies.incoming_pods, strategies.social_pods),
    picks,
    st.lists(st.booleans(), min_size=10, max_size=10),
    st.lists(strategies.pods, max_size=2),
)
def test_a_hypothesis_judges_as_if_it_were_true(
    twin: Twin, body: Pod, pick: int, keep: list[bool], bodies: list[Pod]
) -> None:
    pod = named(body, 1000)
    name, row, removed = chosen(twin, pick, keep)
    added = [named(other, 2000 + i) for i, other in enumerate(bodies)]
    naive = NaiveScheduler(twin.naive)
    prepared = naive.prepare(pod)
    assume(prepared.rejection is None)
    assume(not quirks_apply(prepared, [*removed, *added]))
    attempt = twin.cycle.filter(make_profile(twin.state), pod)
    status = TrialNode(attempt, row).removing(removed).adding(added).rejection()

    really = twin.naive.copy()
    real_change(really, name, removed, added)
    state = rebuilt(really)
    asked = ask(fresh_cycle(state, twin.cycle), make_profile(state), pod)
    # A plugin that had nothing to say before the change is not asked about it.
    assume(asked.skipped == set(attempt.before.skipped))
    # A port that two pods share is free as soon as one of them has gone.
    ports = {port for other in really.infos[name].pods.values() for port in other.host_ports}
    assume(not any(set(other.host_ports) & ports for other in removed))

    really_refused = next(
        ((p, verdicts[name]) for p, verdicts in asked.by_plugin.items() if verdicts[name]), None
    )
    assert (status and (status.plugin, plain(status))) == really_refused
