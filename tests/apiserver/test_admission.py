"""Defaults, admission and validation of what clients send."""

from typing import Any

import pytest

from apiserver.serving import PODS, Answer, Client, Json, pod

GROUPS = "/apis/scheduling.k8s.io/{}/namespaces/default/podgroups"
SCHEDULING = "/apis/scheduling.k8s.io/v1/priorityclasses"


def test_a_pod_gets_upstreams_defaults(api: Client) -> None:
    created = api.create_pod("a")
    spec = created["spec"]
    assert spec["schedulerName"] == "default-scheduler"
    assert spec["restartPolicy"] == "Always"
    assert spec["dnsPolicy"] == "ClusterFirst"
    assert spec["terminationGracePeriodSeconds"] == 30
    assert (spec["priority"], spec["preemptionPolicy"]) == (0, "PreemptLowerPriority")
    assert spec["containers"][0]["imagePullPolicy"] == "IfNotPresent"
    assert created["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    keys = [(t["key"], t["effect"], t["tolerationSeconds"]) for t in spec["tolerations"]]
    assert keys == [
        ("node.kubernetes.io/not-ready", "NoExecute", 300),
        ("node.kubernetes.io/unreachable", "NoExecute", 300),
    ]


def test_a_pod_that_tolerates_everything_gets_no_more_tolerations(api: Client) -> None:
    everything = [{"operator": "Exists"}]
    assert api.create_pod("a", tolerations=everything)["spec"]["tolerations"] == everything


def resources(**amounts: Any) -> list[Json]:
    return [{"name": "c", "image": "i:1", "resources": amounts}]


@pytest.mark.parametrize(
    ("amounts", "expected"),
    [
        ({}, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
        (
            {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1000m"}},
            "Guaranteed",
        ),
        (
            {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}},
            "Burstable",
        ),
    ],
)
def test_quality_of_service(api: Client, amounts: Json, expected: str) -> None:
    created = api.create_pod("a", containers=resources(**amounts))
    assert created["status"]["qosClass"] == expected


def test_requests_follow_from_limits(api: Client) -> None:
    created = api.create_pod("a", containers=resources(limits={"cpu": "2"}))
    assert created["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "2"}


def test_a_gated_pod_says_so_from_the_beginning(api: Client) -> None:
    created = api.create_pod("a", schedulingGates=[{"name": "wait"}])
    condition = created["status"]["conditions"][0]
    assert (condition["status"], condition["reason"]) == ("False", "SchedulingGated")


def test_priority_comes_from_the_class(api: Client) -> None:
    api.post(SCHEDULING, {"metadata": {"name": "high"}, "value": 1000, "preemptionPolicy": "Never"})
    spec = api.create_pod("a", priorityClassName="high")["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (1000, "Never")
    critical = api.create_pod("b", priorityClassName="system-node-critical")["spec"]
    assert critical["priority"] == 2_000_001_000


def test_the_global_default_class_counts_for_new_pods(api: Client) -> None:
    api.post(SCHEDULING, {"metadata": {"name": "usual"}, "value": 7, "globalDefault": True})
    spec = api.create_pod("a")["spec"]
    assert (spec["priority"], spec["priorityClassName"]) == (7, "usual")


def test_an_unknown_class_or_a_contradicting_priority_is_forbidden(api: Client) -> None:
    answer = api.post(PODS, pod("a", priorityClassName="nope"))
    assert (answer.code, answer.reason) == (403, "Forbidden")
    assert answer.message == ('pods "a" is forbidden: no PriorityClass with name nope was found')
    assert "must not be provided in pod spec" in api.post(PODS, pod("a", priority=5)).message


def test_a_pod_group_gets_its_priority_likewise(api: Client) -> None:
    api.post(SCHEDULING, {"metadata": {"name": "high"}, "value": 1000})

    def create(name: str, **spec: Any) -> Answer:
        spec = {"schedulingPolicy": {"basic": {}}, **spec}
        return api.post(GROUPS.format("v1beta1"), {"metadata": {"name": name}, "spec": spec})

    created = create("a", priorityClassName="high").body["spec"]
    assert (created["priority"], created["disruptionMode"]) == (1000, {"single": {}})
    other = api.get(f"{GROUPS.format('v1alpha3')}/a").body
    assert (other["apiVersion"], other["spec"]) == ("scheduling.k8s.io/v1alpha3", created)
    assert create("b").body["spec"]["priority"] == 0
    contradicting = create("c", priority=5)
    assert contradicting.code == 403
    assert "priority set in the pod group (5) must match" in contradicting.message
    unknown = create("d", priorityClassName="none")
    assert unknown.code == 403
    assert "no PriorityClass with name none was found" in unknown.message


def test_match_label_keys_become_selectors(api: Client) -> None:
    selector = {"matchLabels": {"app": "web"}}
    constraint = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": selector,
        "matchLabelKeys": ["hash"],
    }
    term = {"topologyKey": "zone", "labelSelector": selector, "mismatchLabelKeys": ["hash"]}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    created = api.create_pod(
        "a",
        metadata={"labels": {"app": "web", "hash": "x1"}},
        topologySpreadConstraints=[constraint],
        affinity=affinity,
    )["spec"]
    spread = created["topologySpreadConstraints"][0]["labelSelector"]["matchExpressions"]
    assert spread == [{"key": "hash", "operator": "In", "values": ["x1"]}]
    side = created["affinity"]["podAntiAffinity"]
    against = side["requiredDuringSchedulingIgnoredDuringExecution"][0]["labelSelector"]
    assert against["matchExpressions"][0]["operator"] == "NotIn"


def test_other_kinds_get_their_defaults(api: Client) -> None:
    node = api.create_node("n1")
    assert node["status"]["allocatable"] == node["status"]["capacity"]
    namespace = api.post("/api/v1/namespaces", {"metadata": {"name": "team"}}).body
    assert namespace["metadata"]["labels"] == {"kubernetes.io/metadata.name": "team"}
    assert namespace["status"]["phase"] == "Active"
    storage = "/apis/storage.k8s.io/v1/storageclasses"
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"}
    body = {"metadata": {"name": "fast", "annotations": annotations}, "provisioner": "p"}
    assert api.post(storage, body).body["volumeBindingMode"] == "Immediate"
    claims = "/api/v1/namespaces/default/persistentvolumeclaims"
    claim = api.post(claims, {"metadata": {"name": "c"}, "spec": {}}).body
    assert (claim["spec"]["storageClassName"], claim["status"]["phase"]) == ("fast", "Pending")


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"containers": []}, "spec.containers"),
        ({"containers": [{"image": "i"}]}, "spec.containers[0].name"),
        ({"containers": [{"name": "c"}]}, "spec.containers[0].image"),
        ({"containers": [{"name": "C_", "image": "i"}]}, "spec.containers[0].name"),
        ({"nodeSelector": {"a b": "c"}}, "spec.nodeSelector[a b]"),
        ({"tolerations": [{"key": "a", "effect": "Never"}]}, "spec.tolerations[0].effect"),
        ({"restartPolicy": "Sometimes"}, "spec.restartPolicy"),
        ({"nodeName": "n", "schedulingGates": [{"name": "g"}]}, "spec.nodeName"),
        (
            {
                "topologySpreadConstraints": [
                    {"maxSkew": 0, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}
                ]
            },
            "spec.topologySpreadConstraints[0].maxSkew",
        ),
        (
            {
                "affinity": {
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [
                                {"matchExpressions": [{"key": "a", "operator": "Near"}]}
                            ]
                        }
                    }
                }
            },
            "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
            ".nodeSelectorTerms[0].matchExpressions[0].operator",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_pod_that_means_nothing_is_invalid(api: Client, spec: Json, field: str) -> None:
    answer = api.post(PODS, pod("a", **spec))
    assert (answer.code, answer.reason) == (422, "Invalid")
    assert field in answer.fields
    assert answer.message.startswith('Pod "a" is invalid: ')


@pytest.mark.parametrize("name", ["Upper", "-a", "a_b", "a" * 254, "a..b"])
def test_names_follow_dns(api: Client, name: str) -> None:
    answer = api.post(PODS, pod(name))
    assert (answer.code, answer.fields[0]) == (422, "metadata.name")


def test_labels_follow_their_syntax(api: Client) -> None:
    answer = api.post(PODS, pod("a", metadata={"labels": {"ok": "not ok!"}}))
    assert (answer.code, answer.fields) == (422, ["metadata.labels"])


def test_a_wrong_type_is_a_bad_request(api: Client) -> None:
    answer = api.post(PODS, pod("a", priority="high"))
    assert (answer.code, answer.reason) == (400, "BadRequest")
    assert answer.message == (
        'Pod in version "v1" cannot be handled as a Pod: json: cannot unmarshal string '
        "into Go struct field PodSpec.spec.priority of type int32"
    )
    assert api.post(PODS, {"metadata": "a"}).code == 400
    assert api.post(PODS, pod("a", metadata={"labels": {"a": 1}})).code == 400
    assert api.post(PODS, {**pod("a"), "spec": []}).code == 400


def test_the_spec_of_a_pod_is_fixed(api: Client) -> None:
    created = api.create_pod("a")
    created["spec"]["nodeSelector"] = {"disk": "ssd"}
    answer = api.put(f"{PODS}/a", created)
    assert (answer.code, answer.fields) == (422, ["spec"])
    assert "pod updates may not change fields other than" in answer.message


def test_a_pods_image_and_more_tolerations_may_change(api: Client) -> None:
    created = api.create_pod("a")
    created["spec"]["containers"][0]["image"] = "other:2"
    created["spec"]["tolerations"].append({"key": "k", "operator": "Exists"})
    assert api.put(f"{PODS}/a", created).code == 200
    created = api.get(f"{PODS}/a").body
    created["spec"]["tolerations"].pop()
    assert api.put(f"{PODS}/a", created).fields == ["spec.tolerations"]


def test_tolerations_that_every_pod_gets_may_be_left_out_of_an_update(api: Client) -> None:
    created = api.create_pod("a")
    every = created["spec"]["tolerations"]
    created["spec"]["tolerations"] = [{"key": "k", "operator": "Exists"}]
    updated = api.put(f"{PODS}/a", created)
    assert updated.code == 200
    assert updated.body["spec"]["tolerations"] == [{"key": "k", "operator": "Exists"}, *every]


def test_gates_can_only_go(api: Client) -> None:
    created = api.create_pod("a", schedulingGates=[{"name": "x"}, {"name": "y"}])
    created["spec"]["schedulingGates"] = [{"name": "y"}]
    created["spec"]["nodeSelector"] = {"disk": "ssd"}
    assert api.put(f"{PODS}/a", created).code == 200
    created = api.get(f"{PODS}/a").body
    created["spec"]["schedulingGates"] = [{"name": "z"}]
    assert api.put(f"{PODS}/a", created).fields == ["spec.schedulingGates"]


def test_the_value_of_a_priority_class_is_fixed(api: Client) -> None:
    api.post(SCHEDULING, {"metadata": {"name": "p"}, "value": 1})
    assert api.patch(f"{SCHEDULING}/p", {"value": 2}).fields == ["value"]
