"""The pods that `bound` finds in the cluster: many apps, each with a selector of its own."""

from collections import Counter

from moorage.benchmarks.app_workloads import BOUND_PODS_PER_NODE, bound_pods, shaped_node

NODES = 1000


def test_every_node_has_about_its_share_of_bound_pods() -> None:
    names = {shaped_node(index)["metadata"]["name"] for index in range(NODES)}
    pods = list(bound_pods(NODES, 0))
    assert len({pod["metadata"]["uid"] for pod in pods}) == NODES * BOUND_PODS_PER_NODE
    per_node = Counter(pod["spec"]["nodeName"] for pod in pods)
    assert per_node.keys() == names
    assert all(abs(count - BOUND_PODS_PER_NODE) <= 1 for count in per_node.values())


def test_apps_of_bound_pods_have_selectors_of_their_own_and_keep_apart() -> None:
    nodes_of: dict[str, list[str]] = {}
    for pod in bound_pods(NODES, 0):
        spec, labels = pod["spec"], pod["metadata"]["labels"]
        (term,) = spec["affinity"]["podAntiAffinity"][
            "requiredDuringSchedulingIgnoredDuringExecution"
        ]
        app = labels["app.kubernetes.io/name"]
        assert term["labelSelector"]["matchLabels"] == {"app.kubernetes.io/name": app}
        nodes_of.setdefault(app, []).append(spec["nodeName"])
    assert len(nodes_of) == NODES // 2
    assert all(len(set(names)) == len(names) == 40 for names in nodes_of.values())
