"""What kube-scheduler logs on a pod's way: words, verbosity and fields, as in v1.37.1.

Lines of single plugins are in the plugins' modules. Must not decide when a line is written, nor
import anything but `moorage.log_fields`.
"""

from logging import ERROR

from moorage.log_fields import UNHANDLED, Line, V

_PREEMPTION = "PostFilter.DefaultPreemption"

# The start: which kinds are followed, and when everything is known

STARTING_REFLECTOR = Line(V(3), "Starting reflector", "type", "resyncPeriod")
LISTING = Line(V(3), "Listing and watching", "type")
CACHES_POPULATED = Line(V(2), "Caches populated", "type")
HANDLERS_SYNCED = Line(V(3), "Handlers synced")
STARTING_INFORMERS = Line(V(0), "Starting informers and waiting for sync...")
SYNC_COMPLETED = Line(V(0), "Sync completed")

# What the API says

NODE_ADDED = Line(V(2), "Added node to NodeTree", "node", "zone")
NODE_REMOVED = Line(V(2), "Removed node from NodeTree", "node", "zone")

ADD_NODE = Line(V(3), "Add event for node", "node")
UPDATE_NODE = Line(V(4), "Update event for node", "node")
DELETE_NODE = Line(V(3), "Delete event for node", "node")
ADD_PENDING = Line(V(3), "Add event for unscheduled pod", "pod")
UPDATE_PENDING = Line(V(4), "Update event for unscheduled pod", "pod")
DELETE_PENDING = Line(V(3), "Delete event for unscheduled pod", "pod")
ADD_ASSIGNED = Line(V(3), "Add event for scheduled pod", "pod")
UPDATE_ASSIGNED = Line(V(4), "Update event for scheduled pod", "pod")
DELETE_ASSIGNED = Line(V(3), "Delete event for scheduled pod", "pod")
CACHE_ADD_FAILED = Line(ERROR, "Scheduler cache AddPod failed", "err", "pod", logger=UNHANDLED)
CACHE_UPDATE_FAILED = Line(
    ERROR, "Scheduler cache UpdatePod failed", "err", "pod", logger=UNHANDLED
)
CACHE_REMOVE_FAILED = Line(
    ERROR, "Scheduler cache RemovePod failed", "err", "pod", logger=UNHANDLED
)
CACHE_REMOVE_NODE_FAILED = Line(ERROR, "Scheduler cache RemoveNode failed", "err", logger=UNHANDLED)

ADD_GROUP = Line(V(3), "Add event for pod group", "podGroup")
UPDATE_GROUP = Line(V(4), "Update event for pod group", "podGroup")
DELETE_GROUP = Line(V(3), "Delete event for pod group", "podGroup")

# The queue

_MOVED = "Entity moved to an internal scheduling queue"
MOVED = Line(V(5), _MOVED, "type", "entity", "event", "queue")
MOVED_AFTER_ATTEMPT = Line(V(5), _MOVED, *("pod", "type", "entity", "event", "queue"))
MOVED_GATED = Line(V(5), f"{_MOVED}, because it is gated", *("type", "entity", "event", "queue"))
MOVED_UPDATED = Line(
    V(5),
    f"{_MOVED} because the Pod is updated",
    *("type", "entity", "pod", "event", "queue"),
)
MOVED_BACK = Line(
    V(3),
    "Pod moved to an internal scheduling queue",
    *("pod", "event", "queue", "schedulingCycle", "hint", "unschedulable plugins"),
)
GROUP_MOVED_BACK = Line(
    V(3),
    "Pod group moved to an internal scheduling queue",
    *("podGroup", "event", "queue", "schedulingCycle", "unschedulable plugins"),
)
GATED = Line(V(4), "Status after running PreEnqueue plugin", "pod", "plugin", "status")
GATE_FAILED = Line(
    ERROR,
    "Unexpected error running PreEnqueue plugin",
    *("err", "pod", "plugin"),
    logger=UNHANDLED,
)
NOT_HELPED = Line(V(5), "Event is not making entity schedulable", "type", "entity", "event")
EVENT_IN_FLIGHT = Line(V(5), "Event received while entities are in flight", "event")
CHECKING_EVENTS = Line(
    V(5),
    "Checking events for in-flight pod",
    *("pod", "unschedulablePlugins", "inFlightEventsSize", "inFlightPodsSize"),
)
CHECKING_EVENT = Line(V(5), "Checking event for in-flight pod", "pod", "event")
HINT_FAILED = Line(
    ERROR,
    "QueueingHintFn returns error",
    *("err", "event", "plugin", "pod", "oldObj", "newObj"),
    logger=UNHANDLED,
)
NO_HINTS = Line(
    ERROR, "No QueueingHintMap is registered for this profile", "profile", "pod", logger=UNHANDLED
)
NO_EVENTS = Line(ERROR, "Error getting cluster events for pod", "err", "pod", logger=UNHANDLED)
ENTITY_DISCARDED = Line(
    ERROR, "Discarding the popped entity", "err", "type", "entity", logger=UNHANDLED
)
MEMBER_DISCARDED = Line(
    ERROR,
    "Discarding the popped pod group member. It's tracked in multiple places in the scheduler",
    *("pod", "podGroup"),
)
QUEUE_CLOSED = Line(V(2), "Scheduling queue is closed")
NOMINATED_POD_GONE = Line(
    V(4), "Pod doesn't exist in podLister, aborted adding it to the nominator", "pod"
)
NOMINATED_POD_PLACED = Line(
    V(4), "Pod is already scheduled to a node, aborted adding it to the nominator", "pod", "node"
)

# An attempt

ABOUT_TO_TRY = Line(V(4), "About to try and schedule pod", "pod")
ATTEMPTING = Line(V(3), "Attempting to schedule pod", "pod")
ATTEMPTING_GROUP = Line(V(3), "Attempting to schedule pod group", "podGroupType", "podGroup")
ATTEMPTING_MEMBER = Line(
    V(4), "Attempting to schedule a pod belonging to a pod group", "podGroup", "pod"
)
SKIPPED_DELETION = Line(V(3), "Skip schedule deleting pod", "pod")
NODE_REJECTIONS = Line(V(4), "")
"""Not a line, but what plugins say of single nodes (`FilterPlugin.log_rejections`)."""
PRE_FILTERED = Line(V(5), "Status after running PreFilter plugins for pod", "pod", "status")
POST_FILTERED = Line(V(5), "Status after running PostFilter plugins for pod", "pod", "status")
POST_FILTER_FAILED = Line(
    ERROR, "Status after running PostFilter plugins for pod", "pod", "status", logger=UNHANDLED
)
NO_POST_FILTER = Line(
    V(3), "No PostFilter plugins are registered, so no preemption will be performed", "pod"
)
NO_NODE_SELECTED = Line(ERROR, "Error selecting node for pod", "err", "pod")
NO_NODES = Line(
    V(2), "Unable to schedule pod; no nodes are registered to the cluster; waiting", "pod"
)
NO_FIT = Line(V(2), "Unable to schedule pod; no fit; waiting", "pod", "err")
NO_FIT_FOR_GROUP = Line(
    V(2), "Unable to schedule pod belonging to a pod group; waiting", "pod", "err"
)
GROUP_SCHEDULED = Line(
    V(2), "Successfully scheduled a pod group", "podGroup", "scheduledPods", "unschedulablePods"
)
GROUP_WAITS = Line(
    V(2), "Pod group is waiting for preemption", "podGroup", "unschedulablePods", "err"
)
GROUP_UNSCHEDULABLE = Line(
    V(2), "Unable to schedule a pod group", "podGroup", "unschedulablePods", "err"
)
GROUP_FAILED = Line(
    ERROR, "Error scheduling pod group", "err", "podGroup", "errorPods", logger=UNHANDLED
)
ATTEMPT_FAILED = Line(ERROR, "Error scheduling pod; retrying", "err", "pod", logger=UNHANDLED)
ATTEMPT_BROKEN = Line(ERROR, "Error occurred", "err", "pod")
FORGET_FAILED = Line(ERROR, "ForgetPod failed", "err", "pod", logger=UNHANDLED)
POD_GONE = Line(V(0), "Pod doesn't exist in informer cache", "pod", "err")
POD_PLACED = Line(
    V(0), "Pod has been assigned to node. Abort adding it back to queue.", "pod", "node"
)
POD_RECREATED = Line(
    V(2),
    "Pod was recreated while handling scheduling failure. Skip requeueing and status updates.",
    *("pod", "oldUID", "newUID"),
)
_UPDATING = "Updating pod condition and nominated node name"
UPDATING_CONDITION = Line(
    V(3),
    _UPDATING,
    *("pod", "conditionType", "conditionStatus", "conditionReason"),
    *("nominatedNodeName", "nominatingMode"),
)
UPDATE_FAILED = Line(ERROR, "Error updating pod", "err", "pod", logger=UNHANDLED)
UPDATING_NOMINATION = Line(V(3), _UPDATING, "pod", "nominatedNodeName", "nominatingMode")

# Reserve, Permit and the binding cycle

_REJECTED = (V(4), "Pod rejected by plugin", "pod", "plugin", "status")
_FAILED = (ERROR, "Plugin failed", "err", "plugin", "pod")
RESERVE_REJECTED = Line(*_REJECTED, logger="Reserve")
RESERVE_FAILED = Line(*_FAILED, logger="Reserve")
PERMIT_REJECTED = Line(*_REJECTED, logger="Permit")
PERMIT_FAILED = Line(*_FAILED, logger="Permit")
ASKED_TO_WAIT = Line(
    V(4), "One or more plugins asked to wait and no plugin rejected pod", "pod", logger="Permit"
)
WAITING = Line(V(4), "Pod waiting on permit", "pod")
REJECTED_WAITING = Line(V(4), "Pod rejected while waiting on permit", "pod", "status")
WAITING_FAILED = Line(ERROR, "Failed waiting on permit for pod", "err", "pod")
PRE_BIND_REJECTED = Line(
    V(4), "Pod rejected by PreBind plugin", "pod", "node", "plugin", "status", logger="PreBind"
)
PRE_BIND_FAILED = Line(*_FAILED, "node", logger="PreBind")
BIND_REJECTED = Line(
    V(4), "Pod rejected by Bind plugin", "pod", "node", "plugin", "status", logger="Bind"
)
BIND_FAILED = Line(ERROR, "Plugin Failed", "err", "plugin", "pod", "node", logger="Bind")
NOT_BOUND = Line(V(1), "Failed to bind pod", "pod")
BOUND = Line(
    V(2), "Successfully bound pod to node", "pod", "node", "evaluatedNodes", "feasibleNodes"
)
BOUND_AFTER_FLUSH = Line(
    V(4),
    "Pod scheduled after flush from unschedulableEntities",
    *("pod", "unschedulablePlugins", "pendingPlugins"),
)

# Preemption

NOT_ELIGIBLE = Line(V(5), "Pod is not eligible for preemption", "pod", "reason", logger=_PREEMPTION)
NO_CANDIDATE = Line(
    V(2),
    "No preemption candidate is found; preemption is not helpful for scheduling",
    "pod",
    logger=_PREEMPTION,
)
WILL_NOT_HELP = Line(
    V(3), "Preemption will not help schedule pod on any node", "pod", logger=_PREEMPTION
)
TARGET_CHOSEN = Line(
    V(2), "the target node for the preemption is determined", "node", "pod", logger=_PREEMPTION
)
DRY_RUN = Line(
    V(5),
    "Dry run the preemption",
    *("pod", "potentialNodesNumber", "pdbsNumber", "offset", "candidatesNumber"),
    logger=_PREEMPTION,
)
CHECKING_NODE = Line(
    V(5), "Check the potential node for preemption", "pod", "node", logger=_PREEMPTION
)
POTENTIAL_VICTIMS = Line(
    V(5),
    "Pods are potential preemption victims on node",
    *("pod", "pods", "node"),
    logger=_PREEMPTION,
)
PREEMPTION_BEGINS = Line(
    V(2),
    "Start the preemption asynchronously",
    *("preemptor", "node", "numVictims", "numVictimsToDelete"),
)
PREEMPTION_ENDS = Line(V(2), "Async Preemption finished completely", "preemptor", "node", "result")
PREEMPTION_FAILED = Line(
    ERROR, "Error occurred during async preemption", "err", "preemptor", logger=UNHANDLED
)
VICTIM_LEAVING = Line(
    V(2),
    "Victim Pod is already being deleted, skipping the API call for it",
    *("preemptor", "node", "victim"),
)
VICTIM_GONE = Line(V(2), "Victim Pod is already deleted", "preemptor", "victim", "node")
VICTIM_PREEMPTED = Line(V(2), "Preemptor Pod preempted victim Pod", "preemptor", "victim", "node")
WAITING_PREEMPTED = Line(
    V(2),
    "Preemptor preempted a waiting pod",
    *("preemptorType", "preemptor", "waitingPod", "node"),
)
PREPARING_PREEMPTED = Line(
    V(2),
    "Preemptor rejected a pod in preBind",
    *("preemptorType", "preemptor", "podInPreBind", "node"),
)
