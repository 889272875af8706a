"""Fifty pods whose fates are certain, to compare what two schedulers log of them.

Each step waits until the one before it has come to its end, so that nothing is left to chance: who
is tried when, what is in flight then, and which node is the best.
"""

from typing import Any

from e2e.client import ApiError, Json, wait_for
from e2e.objects import HOSTNAME, ZONE, priority_class
from e2e.trial import Trial

CONFIG: Json = {"podInitialBackoffSeconds": 600, "podMaxBackoffSeconds": 600}
"""Who could not be bound is not tried again while the story lasts."""
_ADMISSION = "/apis/admissionregistration.k8s.io/v1"
_TAINTS = [{"key": "dedicated", "value": "x", "effect": "NoSchedule"}]
_SSD = {"disk": "ssd"}
_QUIET_LOOKS = 4


def fifty_pods(trial: Trial) -> None:
    """Place, refuse, cure, hold back, preempt and fail to bind fifty pods."""
    story = _Story(trial)
    trial.add_node("small", cpu="2", zone="a")
    trial.add_node("large", cpu="8", zone="b", labels=_SSD)
    trial.add_node("tainted", cpu="4", taints=_TAINTS)
    trial.add_node("ring", cpu="2", labels={"ring": "yes"})
    trial.add_node("cordoned", cpu="64", unschedulable=True)
    for name, value in (("story-low", 1), ("story-high", 1000)):
        trial.add(priority_class(name, value))
    trial.add(priority_class("story-polite", 1001, preemptionPolicy="Never"))
    story.placed()
    story.cured()
    story.gated()
    story.preempting()
    story.not_bound()
    story.refused()
    story.woken_in_vain()
    assert len(story.pods) == 50, len(story.pods)


class _Story:
    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        self.pods: set[str] = set()

    def _place(self, name: str, **fields: Any) -> None:
        self.pods.add(name)
        self._trial.place(name, **fields)
        self._settle()

    def _refuse(self, name: str, **fields: Any) -> None:
        self.pods.add(name)
        self._trial.add_pod(name, **fields)
        self._trial.refused(name)
        self._settle()

    def _settle(self) -> None:
        """Wait until the scheduler has nothing more to say."""
        seen = [""] * _QUIET_LOOKS

        def quiet() -> bool:
            seen.append(self._trial.log())
            return len(set(seen[-_QUIET_LOOKS:])) == 1

        wait_for("the scheduler to fall silent", quiet)

    def placed(self) -> None:
        """One, two or more nodes will do."""
        for number in range(9):
            self._place(f"selects-{number}", cpu="100m", nodeSelector=_SSD)
        for number in range(10):
            self._place(f"prefers-{number}", cpu="50m", affinity=_preferred("large"))
        everything = [{"operator": "Exists"}]
        for number in range(3):
            name, affinity = f"tolerates-{number}", _preferred("tainted")
            self._place(name, cpu="50m", tolerations=everything, affinity=affinity)
        self._place("ports", ports=[8080], nodeSelector=_SSD)
        self._place("lonely", labels={"app": "lonely"}, nodeSelector=_SSD)
        self._place("zone-a", labels={"app": "spread"}, nodeSelector={ZONE: "a"})

    def cured(self) -> None:
        """What keeps them out goes away."""
        trial = self._trial
        self._refuse("same-port", ports=[8080], nodeSelector=_SSD)
        trial.delete_pod("ports")
        self._bound("same-port")
        self._refuse("apart", nodeSelector=_SSD, affinity=_affinity("podAntiAffinity", "lonely"))
        trial.delete_pod("lonely")
        self._bound("apart")
        self._refuse("lone", affinity=_affinity("podAffinity", "friend"))
        self._place("friend", labels={"app": "friend"}, nodeSelector=_SSD)
        self._bound("lone")
        self._refuse("greedy", cpu="32", nodeSelector={HOSTNAME: "cordoned"})
        trial.change_node("cordoned", {"spec": {"unschedulable": False}})
        self._bound("greedy")
        trial.change_node("cordoned", {"spec": {"unschedulable": True}})
        self._settle()
        self._refuse("labelled", nodeSelector={"disk": "hdd"})
        trial.change_node("small", {"metadata": {"labels": {"disk": "hdd"}}})
        self._bound("labelled")
        self._refuse("bigger", cpu="3", nodeSelector={ZONE: "a"})
        trial.set_allocatable("small", cpu="6")
        self._bound("bigger")

    def _bound(self, name: str) -> None:
        self._trial.bound(name)
        self._settle()

    def gated(self) -> None:
        """A gate keeps them out, and is opened for one."""
        for name in ("opened", "closed"):
            self.pods.add(name)
            self._trial.add_pod(name, cpu="10m", schedulingGates=[{"name": "g"}], nodeSelector=_SSD)
        self._settle()
        self._trial.change_pod("opened", {"spec": {"schedulingGates": None}})
        self._bound("opened")

    def preempting(self) -> None:
        """A more important pod takes the place of others."""
        trial, here = self._trial, {"ring": "yes"}
        for number in range(2):
            name, low = f"victim-{number}", "story-low"
            self._place(name, cpu="900m", nodeSelector=here, priorityClassName=low)
        self.pods.add("preemptor")
        trial.add_pod("preemptor", cpu="1500m", nodeSelector=here, priorityClassName="story-high")
        trial.nominated("preemptor")
        for number in range(2):
            trial.preempted(f"victim-{number}")
        self._settle()
        trial.delete_pod("victim-0")
        self._settle()
        trial.delete_pod("victim-1")
        self._bound("preemptor")

    def not_bound(self) -> None:
        """The API server refuses the binding."""
        _forbid_bindings(self._trial)
        try:
            for number in range(3):
                self._refuse(f"unbindable-{number}", cpu="10m", nodeSelector=_SSD)
        finally:
            _allow_bindings(self._trial)

    def refused(self) -> None:
        """No node will do, and none ever will."""
        self._refuse("selective", nodeSelector={"disk": "none"})
        self._refuse("elsewhere", nodeSelector={HOSTNAME: "nowhere"})
        self._refuse("far", affinity=_at_node("nowhere"))
        self._refuse("friendless", affinity=_affinity("podAffinity", "nobody"))
        self._refuse("even", labels={"app": "spread"}, nodeSelector={ZONE: "a"}, **_spread())
        polite = {"priorityClassName": "story-polite", "nodeSelector": {"ring": "yes"}}
        self._refuse("polite", cpu="1500m", **polite)
        for number in range(3):
            self._refuse(f"huge-{number}", memory="1Ti")

    def woken_in_vain(self) -> None:
        """What happens does not help those that wait."""
        trial = self._trial
        self._place("newcomer", cpu="10m", nodeSelector=_SSD)
        for change in (
            lambda: trial.change_node("tainted", {"spec": {"taints": None}}),
            lambda: trial.change_node("cordoned", {"spec": {"unschedulable": False}}),
            lambda: trial.change_node("large", {"metadata": {"labels": {"disk": "nvme"}}}),
            lambda: trial.set_allocatable("small", cpu="7"),
            lambda: trial.change_pod("huge-0", {"metadata": {"labels": {"x": "y"}}}),
            lambda: trial.change_pod("newcomer", {"metadata": {"labels": {"x": "y"}}}),
            lambda: trial.delete_pod("selects-0"),
            lambda: trial.delete_pod("selective"),
            lambda: trial.delete_pod("closed"),
            lambda: trial.add_node("late", cpu="1"),
        ):
            change()
            self._settle()


def _preferred(name: str) -> Json:
    field = {"key": "metadata.name", "operator": "In", "values": [name]}
    term = {"weight": 100, "preference": {"matchFields": [field]}}
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}


def _at_node(name: str) -> Json:
    field = {"key": "metadata.name", "operator": "In", "values": [name]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def _affinity(which: str, app: str) -> Json:
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": HOSTNAME}
    return {which: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def _spread() -> Json:
    constraint = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "spread"}},
        "nodeAffinityPolicy": "Ignore",
    }
    return {"topologySpreadConstraints": [constraint]}


def _forbid_bindings(trial: Trial) -> None:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"]}
    policy = {
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "unbindable"},
        "spec": {
            "matchConstraints": {"resourceRules": [{**rule, "resources": ["pods/binding"]}]},
            "validations": [{"expression": "!object.metadata.name.startsWith('unbindable')"}],
        },
    }
    binding = {
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "unbindable"},
        "spec": {"policyName": "unbindable", "validationActions": ["Deny"]},
    }
    for plural, body in _policies(policy, binding):
        body["apiVersion"] = "admissionregistration.k8s.io/v1"
        trial.api.call("POST", f"{_ADMISSION}/{plural}", body)

    def forbidden() -> bool:
        try:
            trial.api.bind("unbindable", trial.namespace, "large")
        except ApiError as failure:
            return "ValidatingAdmissionPolicy" in str(failure)
        return False

    wait_for("the policy to take effect", forbidden)


def _allow_bindings(trial: Trial) -> None:
    for plural, _ in _policies({}, {}):
        trial.api.call("DELETE", f"{_ADMISSION}/{plural}/unbindable")


def _policies(policy: Json, binding: Json) -> list[tuple[str, Json]]:
    return [
        ("validatingadmissionpolicies", policy),
        ("validatingadmissionpolicybindings", binding),
    ]
