"""NeedsBerth, a filter by a custom resource: ships only moor where a Berth is long enough.

A pod labelled `ship-length` goes to nodes that a Berth of its namespace names. A Berth that comes
or changes has those pods tried again that it could help. To enable it: `--plugin berths.py`, kind
and rights of berths.yaml, and in a configuration
`profiles: [{plugins: {filter: {enabled: [{name: NeedsBerth}]}}}]`.
"""

from collections.abc import Sequence

from moorage.cluster.view import NodeRow
from moorage.framework.cluster_events import ActionType, EventRegistration, on
from moorage.framework.plugin import NodeFilterPlugin
from moorage.framework.status import Code, Reason
from moorage.model.custom import CustomObject
from moorage.model.meta import ApiObject
from moorage.model.pod import Pod

BERTHS = "berths.v1.harbour.example"


class NeedsBerth(NodeFilterPlugin):
    name = "NeedsBerth"
    looks_up = (BERTHS,)
    too_short = Reason("node(s) had no berth of this length", Code.UNRESOLVABLE)

    def filter_node(self, pod: Pod, node: NodeRow) -> Reason | None:
        if "ship-length" not in pod.labels:
            return None
        berths = self.handle.listers.of(BERTHS).in_namespace(pod.namespace)
        here = (berth for berth in berths if berth.content["spec"]["node"] == node.name)
        return None if any(fits(pod, berth) for berth in here) else self.too_short

    def events_to_register(self) -> Sequence[EventRegistration]:
        return [on(BERTHS, ActionType.ADD | ActionType.UPDATE, after_berth_changed)]


def fits(pod: Pod, berth: CustomObject) -> bool:
    """Is the berth long enough for the ship?"""
    length: int = berth.content["spec"]["length"]
    return length >= int(pod.labels["ship-length"])


def after_berth_changed(pod: Pod, old: ApiObject | None, new: ApiObject | None) -> bool:
    """Could this pod have been refused for want of this berth?"""
    return isinstance(new, CustomObject) and new.namespace == pod.namespace and fits(pod, new)
