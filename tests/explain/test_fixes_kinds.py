"""What is proposed for the usual reasons why a pod has no place, word for word."""

import pytest

from explain.asked_fixes import changes, fixes_for, obj, of_kind
from moorage.explain.report import Edit
from moorage.model.meta import Json
from moorage.model.node import HOSTNAME_LABEL, ZONE_LABEL
from moorage.model.pod import Pod
from moorage.testing import make_node, make_pod

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def test_a_taint_is_named_with_the_toleration_that_answers_it() -> None:
    tainted = [make_node(f"n{i}", taints=["dedicated=gpu:NoSchedule"]) for i in range(3)]

    (fix, *_) = fixes_for(make_pod(), [*tainted, make_node("full", pods=0)])

    assert fix.change == "tolerate the taint dedicated=gpu:NoSchedule (3 nodes)"
    assert (fix.kind, fix.nodes_gained, fix.verified) == ("tolerateTaint", 3, True)
    assert fix.plugins == ("TaintToleration",)
    assert fix.examples == ("n0", "n1", "n2")
    toleration = {
        "key": "dedicated",
        "operator": "Equal",
        "value": "gpu",
        "effect": "NoSchedule",
    }
    operation: Json = {"op": "add", "path": "/spec/tolerations", "value": [toleration]}
    assert fix.edits == (Edit("Pod", "default/pod", (operation,)),)


def test_tolerations_are_added_to_those_there_are() -> None:
    pod = make_pod(spec={"tolerations": [{"key": "x", "operator": "Exists"}]})

    fixes = fixes_for(pod, [make_node(taints=["a:NoSchedule", "b=c:NoExecute", "x:NoSchedule"])])

    (fix,) = of_kind(fixes, "tolerateTaint")
    assert fix.change == "tolerate the taints a:NoSchedule and b=c:NoExecute (1 node)"
    assert [one["path"] for one in fix.edits[0].patch] == ["/spec/tolerations/-"] * 2


def test_a_cordoned_node_is_to_be_opened_rather_than_tolerated() -> None:
    cordon = "node.kubernetes.io/unschedulable:NoSchedule"
    fixes = fixes_for(make_pod(), [make_node("n1", unschedulable=True, taints=[cordon])])

    first, second, *_ = fixes
    assert first.change == "uncordon the node n1 (1 node)"
    assert first.edits == (
        Edit(
            "Node",
            "n1",
            (
                {"op": "add", "path": "/spec/unschedulable", "value": False},
                {"op": "remove", "path": "/spec/taints/0"},
            ),
        ),
    )
    assert second.change == f"tolerate the taint {cordon} (1 node)"


def test_a_request_is_lowered_to_what_the_roomiest_node_has_and_to_what_more_nodes_have() -> None:
    nodes = [make_node("large", cpu="6"), *[make_node(f"n{i}", cpu="4") for i in range(5)]]

    fixes = fixes_for(make_pod(cpu="8"), nodes)

    assert changes(of_kind(fixes, "lowerRequest")) == [
        "lower the cpu request of container main from 8 to 6 (1 node)",
        "lower the cpu request of container main from 8 to 4 (6 nodes)",
    ]
    path = "/spec/containers/0/resources/requests/cpu"
    operation: Json = {"op": "add", "path": path, "value": "6"}
    assert fixes[0].edits == (Edit("Pod", "default/pod", (operation,), subresource="resize"),)


def test_two_resources_are_lowered_together_if_one_is_not_enough() -> None:
    fixes = fixes_for(make_pod(cpu="8", memory="32Gi"), [make_node(cpu="4", memory="16Gi")])

    assert changes(fixes) == [
        "lower the cpu request of container main from 8 to 4 and "
        "lower the memory request of container main from 32Gi to 16Gi (1 node)"
    ]


def test_a_node_selector_is_changed_met_or_dropped() -> None:
    pod = make_pod(spec={"nodeSelector": {"disk": "nvme"}})
    nodes = [make_node("n0", labels={"disk": "ssd"}), make_node("n1")]

    fixes = fixes_for(pod, nodes)

    assert changes(fixes) == [
        "change the nodeSelector entry disk=nvme to disk=ssd (1 node)",
        "drop the nodeSelector entry disk=nvme (2 nodes)",
        "label the node n0 with disk=nvme (1 node)",
    ]
    assert fixes[2].edits[0].patch == (
        {"op": "add", "path": "/metadata/labels/disk", "value": "nvme"},
    )
    assert [edit.recreate for fix in fixes for edit in fix.edits] == [True, True, False]


def test_a_zone_is_never_put_on_a_node_by_a_label() -> None:
    pod = make_pod(spec={"nodeSelector": {ZONE_LABEL: "north"}})

    fixes = fixes_for(pod, [make_node(zone="south")])

    assert not of_kind(fixes, "labelNode")
    assert fixes[0].change == (
        f"change the nodeSelector entry {ZONE_LABEL}=north to {ZONE_LABEL}=south (1 node)"
    )


def test_a_node_affinity_is_widened_or_one_requirement_of_it_dropped() -> None:
    zone = {"key": ZONE_LABEL, "operator": "In", "values": ["north"]}
    disk = {"key": "disk", "operator": "Exists"}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [disk, zone]}]}
    pod = make_pod(spec={"affinity": {"nodeAffinity": {REQUIRED: terms}}})

    fixes = fixes_for(pod, [make_node(zone="south", labels={"disk": "ssd"})])

    assert changes(fixes)[0] == (
        f"allow {ZONE_LABEL}=south, too, in the node affinity requirement "
        f"{ZONE_LABEL} In [north] (1 node)"
    )
    (operation,) = fixes[0].edits[0].patch
    assert str(operation["path"]).endswith("/nodeSelectorTerms/0/matchExpressions/1/values/-")


def test_skew_is_allowed_only_as_far_as_needed() -> None:
    web = {"app": "web"}
    pods = [make_pod(f"p{i}", labels=web, node_name="n0") for i in range(3)]
    constraint = {
        "maxSkew": 1,
        "topologyKey": ZONE_LABEL,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": web},
    }
    pod = make_pod(labels=web, spec={"topologySpreadConstraints": [constraint]})
    nodes = [make_node("n0", zone="north"), make_node("n1", zone="south", pods=0)]

    fixes = fixes_for(pod, nodes, pods)

    text = f"raise maxSkew of the topology spread over {ZONE_LABEL} from 1 to 4 (1 node)"
    assert text in changes(fixes)


def test_a_spread_over_a_label_that_no_node_has_can_only_be_a_wish() -> None:
    constraint = {
        "maxSkew": 1,
        "topologyKey": "rack",
        "whenUnsatisfiable": "DoNotSchedule",
        "minDomains": 2,
        "labelSelector": {},
    }
    pod = make_pod(spec={"topologySpreadConstraints": [constraint]})

    fixes = fixes_for(pod, [make_node()])

    assert changes(fixes) == ["make the topology spread over rack ScheduleAnyway (1 node)"]
    assert [one["op"] for one in fixes[0].edits[0].patch] == ["remove", "add"]


def test_a_profile_s_default_spread_gives_way_to_a_constraint_of_the_pod() -> None:
    profile: Json = {
        "pluginConfig": [
            {
                "name": "PodTopologySpread",
                "args": {
                    "defaultingType": "List",
                    "defaultConstraints": [
                        {
                            "maxSkew": 1,
                            "topologyKey": "rack",
                            "whenUnsatisfiable": "DoNotSchedule",
                        }
                    ],
                },
            }
        ]
    }
    service = obj("Service", "v1", "web", spec={"selector": {"app": "web"}})

    fixes = fixes_for(
        make_pod(labels={"app": "web"}), [make_node()], others=[service], profile=profile
    )

    assert changes(fixes) == [
        "give the pod a topology spread of its own, ScheduleAnyway, "
        "instead of the profile's default (1 node)"
    ]


def anti_affinity(app: str, key: str = HOSTNAME_LABEL) -> Json:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
    return {"affinity": {"podAntiAffinity": {REQUIRED: [term]}}}


def test_the_pod_s_own_anti_affinity_can_be_dropped() -> None:
    pods = [make_pod("p", labels={"app": "db"}, node_name="n0")]

    fixes = fixes_for(make_pod(spec=anti_affinity("db")), [make_node("n0")], pods)

    assert f"drop the required pod anti-affinity (app=db per {HOSTNAME_LABEL}) (1 node)" in changes(
        fixes
    )


def test_pods_whose_anti_affinity_is_in_the_way_are_named() -> None:
    hermit = make_pod("hermit", spec=anti_affinity("web", ZONE_LABEL), node_name="n1")
    nodes = [make_node("n0", zone="a"), make_node("n1", zone="a")]

    fixes = fixes_for(make_pod(labels={"app": "web"}), nodes, [hermit])

    (fix,) = of_kind(fixes, "movePod")
    assert fix.change == (
        "move default/hermit from n1, whose anti-affinity keeps the pod out (2 nodes)"
    )
    assert fix.victims == ("default/hermit",)
    assert fix.edits == (Edit("Pod", "default/hermit", delete=True),)


def with_port(name: str, port: int, node_name: str = "", *, host_network: bool = False) -> Pod:
    ports = [{"containerPort": port, "hostPort": port}]
    return make_pod(
        name,
        node_name=node_name,
        spec={"containers": [{"name": "web", "ports": ports}], "hostNetwork": host_network},
    )


def test_a_host_port_that_is_taken_is_exchanged_given_up_or_freed() -> None:
    holders = [with_port("a", 80, "n0"), with_port("b", 81, "n0")]

    fixes = fixes_for(with_port("pod", 80), [make_node("n0")], holders)

    assert changes(fixes)[:2] == [
        "use another port than host port 80/TCP of container web, such as 82 (1 node)",
        "move default/a from n0, which holds host port 80 (1 node)",
    ]
    assert of_kind(fixes, "freePort")[0].victims == ("default/a",)


def test_on_the_host_s_network_both_ports_change_together() -> None:
    pod = with_port("pod", 80, host_network=True)

    (fix, *_) = fixes_for(pod, [make_node("n0")], [with_port("a", 80, "n0")])

    assert [str(one["path"]).rpartition("/")[2] for one in fix.edits[0].patch] == [
        "hostPort",
        "containerPort",
    ]


def test_one_more_node_of_a_kind_that_is_large_enough_would_do() -> None:
    nodes = [make_node("small", cpu="1"), make_node("large", cpu="8", labels={"role": ""})]
    pods = [make_pod("p", cpu="7", node_name="large")]

    fixes = fixes_for(make_pod(cpu="4"), nodes, pods)

    (fix,) = of_kind(fixes, "addNode")
    assert fix.change == "add a node like large (1 node)"
    (edit,) = fix.edits
    assert edit.create is not None
    assert edit.name == "large-like-1"
    labels = {HOSTNAME_LABEL: "large-like-1", "role": ""}
    assert edit.create["metadata"] == {"name": "large-like-1", "labels": labels}


def test_a_higher_priority_is_the_lowest_that_helps_and_says_who_would_go() -> None:
    nodes = [make_node("n0", cpu="4"), make_node("n1", cpu="4")]
    pods = [
        make_pod("low", cpu="4", node_name="n0", priority=10),
        make_pod("high", cpu="4", node_name="n1", priority=500),
    ]
    classes = [
        obj("PriorityClass", "scheduling.k8s.io/v1", "mid", value=100),
        obj("PriorityClass", "scheduling.k8s.io/v1", "top", value=1000),
    ]

    fixes = fixes_for(make_pod(cpu="4", priority=0), nodes, pods, classes)

    (fix,) = of_kind(fixes, "raisePriority")
    assert fix.change == (
        "raise the priority above 10 by the PriorityClass mid (100); "
        "default/low would have to leave n0 (1 node)"
    )
    assert fix.victims == ("default/low",)
    assert [one["value"] for one in fix.edits[-1].patch] == [100, "mid"]


def test_a_priority_that_no_class_has_needs_a_new_class() -> None:
    pods = [make_pod("low", cpu="4", node_name="n0", priority=-5)]

    fixes = fixes_for(make_pod(cpu="4", priority=-10), [make_node("n0", cpu="4")], pods)

    (fix,) = of_kind(fixes, "raisePriority")
    assert fix.change == (
        "raise the priority above -5 by a new PriorityClass above-minus-5 (-4); "
        "default/low would have to leave n0 (1 node)"
    )
    created, gone, pod = fix.edits
    assert [one["value"] for one in pod.patch] == [-4, "above-minus-5"]
    assert created.create == {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "above-minus-5"},
        "value": -4,
    }
    assert (gone.name, gone.delete) == ("default/low", True)


def test_a_new_class_gets_a_name_that_is_free() -> None:
    taken = obj("PriorityClass", "scheduling.k8s.io/v1", "above-0", value=-7)
    pods = [make_pod("low", cpu="4", node_name="n0")]

    fixes = fixes_for(make_pod(cpu="4"), [make_node("n0", cpu="4")], pods, [taken])

    (fix,) = of_kind(fixes, "raisePriority")
    created = fix.edits[0].create
    assert created is not None
    assert created["metadata"] == {"name": "above-0-2"}
    assert [one["value"] for one in fix.edits[-1].patch] == [1, "above-0-2"]


def test_a_spread_that_is_demanded_and_wished_for_stays_a_wish() -> None:
    def constraint(what: str) -> Json:
        return {
            "maxSkew": 1,
            "topologyKey": "rack",
            "whenUnsatisfiable": what,
            "labelSelector": {},
        }

    both = [constraint("ScheduleAnyway"), constraint("DoNotSchedule")]

    (fix,) = fixes_for(make_pod(spec={"topologySpreadConstraints": both}), [make_node()])

    assert fix.change == (
        "drop the topology spread over rack as a demand, as it is a wish as well (1 node)"
    )
    assert fix.edits[0].patch == ({"op": "remove", "path": "/spec/topologySpreadConstraints/1"},)


def test_a_pod_that_may_not_preempt_gains_nothing_by_priority() -> None:
    pods = [make_pod("low", cpu="4", node_name="n0", priority=10)]
    pod = make_pod(cpu="4", spec={"preemptionPolicy": "Never", "priority": 5})

    assert not of_kind(fixes_for(pod, [make_node("n0")], pods), "raisePriority")


@pytest.mark.parametrize(
    ("resources", "subresource"),
    [
        ({"requests": {"cpu": "8"}}, "resize"),
        ({"requests": {"cpu": "8"}, "limits": {"cpu": "8"}}, "resize"),
        # Without an equal request the pod would leave its class of service.
        (
            {
                "requests": {"cpu": "8", "memory": "1Gi"},
                "limits": {"cpu": "8", "memory": "1Gi"},
            },
            "",
        ),
    ],
)
def test_a_request_is_lowered_in_place_where_the_api_allows_it(
    resources: Json, subresource: str
) -> None:
    pod = make_pod(spec={"containers": [{"name": "main", "resources": resources}]})

    (fix, *_) = fixes_for(pod, [make_node(cpu="4")])

    (edit,) = fix.edits
    assert (edit.subresource, edit.recreate) == (subresource, not subresource)


def test_gates_are_removed_all_together_and_without_a_new_pod() -> None:
    pod = make_pod(spec={"schedulingGates": [{"name": "a"}, {"name": "b"}]})

    (fix,) = fixes_for(pod, [make_node()])

    assert fix.change == "remove the scheduling gates a and b (1 node)"
    assert fix.edits == (
        Edit("Pod", "default/pod", ({"op": "remove", "path": "/spec/schedulingGates"},)),
    )


def test_nothing_helps_a_pod_that_is_being_deleted() -> None:
    deleted = {"deletionTimestamp": "2026-01-01T00:00:00Z"}

    assert fixes_for(make_pod(cpu="8"), [make_node(cpu="4")])
    assert not fixes_for(make_pod(cpu="8", metadata=deleted), [make_node(cpu="4")])


def test_a_missing_claim_is_made_in_a_class_that_provisions_where_pods_go() -> None:
    classes = [
        obj("StorageClass", "storage.k8s.io/v1", "fast", provisioner="csi.example.com")
        for _ in range(1)
    ]
    late = obj(
        "StorageClass",
        "storage.k8s.io/v1",
        "late",
        provisioner="csi.example.com",
        volumeBindingMode="WaitForFirstConsumer",
    )
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}

    fixes = fixes_for(make_pod(spec={"volumes": [volume]}), [make_node()], others=[*classes, late])

    assert changes(fixes) == [
        "create the PersistentVolumeClaim data in the StorageClass late (1 node)",
        "do without the volume data of PersistentVolumeClaim data (an emptyDir instead) (1 node)",
    ]
    created = fixes[0].edits[0].create
    assert created is not None
    assert (created["apiVersion"], created["kind"]) == ("v1", "PersistentVolumeClaim")


def test_a_missing_claim_counts_as_one_obstacle_though_many_plugins_mind_it() -> None:
    late = obj(
        "StorageClass",
        "storage.k8s.io/v1",
        "late",
        provisioner="csi.example.com",
        volumeBindingMode="WaitForFirstConsumer",
    )
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    pod = make_pod(cpu="8", spec={"volumes": [volume]})
    lower = "lower the cpu request of container main from 8 to 4 (1 node)"

    assert changes(fixes_for(pod, [make_node(cpu="4")], others=[late])) == [
        f"create the PersistentVolumeClaim data in the StorageClass late, and {lower}"
    ]
    assert changes(fixes_for(pod, [make_node(cpu="4")])) == [
        "do without the volume data of PersistentVolumeClaim data (an emptyDir instead), "
        f"and {lower}"
    ]


def test_a_cordoned_node_counts_as_one_obstacle_with_its_taint() -> None:
    closed = make_node(
        cpu="4", unschedulable=True, taints=["node.kubernetes.io/unschedulable:NoSchedule"]
    )

    fixes = fixes_for(make_pod(cpu="8"), [closed])

    assert any("lower the cpu request" in change for change in changes(fixes))


def test_a_missing_device_class_is_made() -> None:
    claim = obj(
        "ResourceClaim",
        "resource.k8s.io/v1",
        "gpu",
        spec={"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}},
    )
    offered = obj(
        "ResourceSlice",
        "resource.k8s.io/v1",
        "slice",
        spec={
            "driver": "gpu.example.com",
            "nodeName": "n0",
            "pool": {"name": "n0", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "d0"}],
        },
    )
    claims = [{"name": "gpu", "resourceClaimName": "gpu"}]
    container = {"name": "main", "resources": {"claims": [{"name": "gpu"}]}}
    pod = make_pod(spec={"containers": [container], "resourceClaims": claims})

    fixes = fixes_for(pod, [make_node("n0")], others=[claim, offered])

    assert changes(fixes) == [
        "create the DeviceClass gpu (1 node)",
        "do without the resource claim gpu (1 node)",
    ]
    assert [one["path"] for one in fixes[1].edits[0].patch] == [
        "/spec/containers/0/resources/claims/0",
        "/spec/resourceClaims/0",
    ]


def test_two_changes_are_proposed_together_only_if_one_is_not_enough() -> None:
    pod = make_pod(cpu="8")

    fixes = fixes_for(pod, [make_node(cpu="4", taints=["a=b:NoSchedule"])])

    assert changes(fixes) == [
        "tolerate the taint a=b:NoSchedule, and "
        "lower the cpu request of container main from 8 to 4 (1 node)"
    ]
    (fix,) = fixes
    assert fix.kind == "combination"
    assert fix.plugins == ("TaintToleration", "NodeResourcesFit")
    assert [edit.subresource for edit in fix.edits] == ["", "resize"]

    fixes = fixes_for(pod, [make_node(cpu="4", taints=["a=b:NoSchedule"]), make_node("n", cpu="2")])
    assert not of_kind(fixes, "combination")


def test_options_of_mounts_are_dropped_where_no_kubelet_knows_them() -> None:
    mounts = [
        {"name": "data", "mountPath": "/a"},
        {"name": "data", "mountPath": "/b", "bindMountOptions": ["noexec"]},
    ]
    container = {"name": "main", "image": "app", "volumeMounts": mounts}

    (fix,) = fixes_for(make_pod(spec={"containers": [container]}), [make_node()])

    assert fix.change == "drop the bindMountOptions (1 node)"
    operation: Json = {
        "op": "remove",
        "path": "/spec/containers/0/volumeMounts/1/bindMountOptions",
    }
    assert fix.edits == (Edit("Pod", "default/pod", (operation,), recreate=True),)
