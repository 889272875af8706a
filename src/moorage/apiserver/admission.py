"""Admission: what a new object takes from, and owes to, the rest of the cluster.

Namespaces must exist, pods and pod groups get their priority, pods their merged selectors and what
their RuntimeClass adds, claims their storage class. Reads the store, never writes it.
Upstream: kubernetes@v1.37.1 plugin/pkg/admission/{namespace/lifecycle,priority,
defaulttolerationseconds,podtopologylabels,storage/storageclass/setdefault}.
"""

import msgspec

from moorage.apiserver.defaults import default_tolerations, mappings
from moorage.apiserver.errors import Json, forbidden, not_found
from moorage.apiserver.limit_ranges import LimitRanges
from moorage.apiserver.resources import ApiResource
from moorage.apiserver.runtime_classes import RuntimeClass, take_over
from moorage.apiserver.runtime_classes import not_found as runtime_class_not_found
from moorage.apiserver.storage import Storage
from moorage.model.affinity import PodAffinity, PodAffinityTerm
from moorage.model.decode import decode_json
from moorage.model.defaulting import Classes, default_pod, with_defaults
from moorage.model.labels import LabelSelector
from moorage.model.meta import ApiObject
from moorage.model.pod import Pod
from moorage.model.pod_group import PodGroup
from moorage.model.storage import PersistentVolumeClaim, StorageClass
from moorage.model.workloads import PriorityClass

_PRIORITIES = "priorityclasses.scheduling.k8s.io"
_RUNTIME_CLASSES = "runtimeclasses.node.k8s.io"
_STORAGE_CLASSES = "storageclasses.storage.k8s.io"
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
_TOPOLOGY_LABELS = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")


class Admission:
    """Rules that need to see other objects."""

    def __init__(self, store: Storage) -> None:
        self._store = store
        self._limit_ranges = LimitRanges(store)
        self.free_priorities = False
        """Let pods and groups keep the priority they come with, as without upstream's plugin."""
        self._classes = Classes.among(())
        self._classes_as_of = (-1, -1)

    def check_namespace(self, resource: ApiResource, namespace: str, name: str) -> None:
        """Refuse content for a namespace that is missing or on its way out."""
        stored = self._store.namespaces.get("", namespace)
        if stored is None:
            raise not_found("namespaces", "", namespace)
        if stored.fields[0] == "Terminating":
            why = (
                f"unable to create new content in namespace {namespace} "
                "because it is being terminated"
            )
            cause = {
                "reason": "NamespaceTerminating",
                "message": f"namespace {namespace} is being terminated",
                "field": "metadata.namespace",
            }
            raise forbidden(resource.plural, resource.group, name, why, [cause])

    def mutate(self, resource: ApiResource, obj: Json) -> None:
        """Fill in what comes before validation."""
        if resource.storage == "pods":
            self._limit_ranges.fill_in(obj)
            default_tolerations(obj["spec"])
        elif resource.storage == "persistentvolumeclaims":
            self._default_storage_class(obj)

    def admit(self, resource: ApiResource, obj: Json, model: ApiObject) -> None:
        """Fill in what needs the validated object."""
        if isinstance(model, Pod):
            self._admit_pod(obj, model)
            self._limit_ranges.check_pod(obj, model)
        elif isinstance(model, PersistentVolumeClaim):
            self._limit_ranges.check_claim(obj)
        elif isinstance(model, PodGroup):
            self._admit_group(obj, model)

    def topology_labels(self, node: str) -> dict[str, str]:
        """The labels a pod takes over from the node it is bound to."""
        stored = self._store.nodes.get("", node)
        if stored is None:
            return {}
        return {key: stored.labels[key] for key in _TOPOLOGY_LABELS if key in stored.labels}

    def classes(self) -> Classes:
        """The priority and storage classes, decoded again only when one has changed."""
        priorities = self._store.collection(_PRIORITIES)
        storage = self._store.collection(_STORAGE_CLASSES)
        as_of = (priorities.history.end, storage.history.end)
        if as_of != self._classes_as_of:
            objects: list[ApiObject] = [
                decode_json(PriorityClass, item.data) for item in priorities.all()
            ]
            objects += [decode_json(StorageClass, item.data) for item in storage.all()]
            self._classes = Classes.among(objects)
            self._classes_as_of = as_of
        return self._classes

    def _admit_pod(self, obj: Json, pod: Pod) -> None:
        classes = self.classes()
        spec = obj["spec"]
        self._check_class("pods", "", pod.name, pod.spec.priority_class_name)
        bare = msgspec.structs.replace(
            pod, spec=msgspec.structs.replace(pod.spec, priority=None, preemption_policy=None)
        )
        ready = default_pod(bare, classes)
        if not (self.free_priorities and pod.spec.priority is not None):
            self._check_priority(pod, ready)
            spec["priority"] = ready.spec.priority
        spec["preemptionPolicy"] = ready.spec.preemption_policy
        if ready.spec.priority_class_name:
            spec["priorityClassName"] = ready.spec.priority_class_name
        if ready.spec.resources is not None:
            spec["resources"] = {
                **spec["resources"],
                **{
                    part: amounts
                    for part, amounts in (
                        ("limits", ready.spec.resources.limits),
                        ("requests", ready.spec.resources.requests),
                    )
                    if amounts
                },
            }
        _merge_label_keys(spec, ready)
        take_over(obj, self._runtime_class(obj))
        if spec.get("nodeName"):
            labels = self.topology_labels(spec["nodeName"])
            if labels:
                metadata = obj["metadata"]
                metadata["labels"] = {**(metadata.get("labels") or {}), **labels}

    def _runtime_class(self, pod: Json) -> RuntimeClass | None:
        name = pod["spec"].get("runtimeClassName")
        if name is None:
            return None
        stored = self._store.collection(_RUNTIME_CLASSES).get("", name)
        if stored is None:
            raise runtime_class_not_found(pod, name)
        return msgspec.json.decode(stored.data, type=RuntimeClass)

    def _admit_group(self, obj: Json, group: PodGroup) -> None:
        spec = group.spec
        plural, api_group = "podgroups", "scheduling.k8s.io"
        self._check_class(plural, api_group, group.name, spec.priority_class_name)
        bare = msgspec.structs.replace(group, spec=msgspec.structs.replace(spec, priority=None))
        computed = with_defaults(bare, self.classes()).spec
        if self.free_priorities and spec.priority is not None:
            return
        if spec.priority not in (None, computed.priority):
            why = (
                f"priority set in the pod group ({spec.priority}) must match the priority computed "
                f"({computed.priority}) based on the priority class set in the spec"
            )
            raise forbidden(plural, api_group, group.name, why)
        obj["spec"]["priority"] = computed.priority
        if computed.priority_class_name:
            obj["spec"]["priorityClassName"] = computed.priority_class_name

    def _check_class(self, plural: str, group: str, name: str, wanted: str) -> None:
        if wanted and wanted not in self.classes().priorities:
            why = f"no PriorityClass with name {wanted} was found"
            raise forbidden(plural, group, name, why)

    def _check_priority(self, given: Pod, computed: Pod) -> None:
        priority, policy = given.spec.priority, given.spec.preemption_policy
        if priority is not None and priority != computed.spec.priority:
            why = (
                f"the integer value of priority ({priority}) must not be provided in pod spec; "
                f"priority admission controller computed {computed.spec.priority} from the given "
                "PriorityClass name"
            )
            raise forbidden("pods", "", given.name, why)
        if policy is not None and policy != computed.spec.preemption_policy:
            why = (
                f"the string value of PreemptionPolicy ({policy}) must not be provided in pod "
                f"spec; priority admission controller computed {computed.spec.preemption_policy} "
                "from the given PriorityClass name"
            )
            raise forbidden("pods", "", given.name, why)

    def _default_storage_class(self, obj: Json) -> None:
        spec = obj["spec"]
        annotations = obj["metadata"].get("annotations") or {}
        if (
            spec.get("storageClassName") is None
            and "volume.beta.kubernetes.io/storage-class" not in annotations
        ):
            default = self.classes().default_storage
            if default is not None:
                spec["storageClassName"] = default.name


def _merge_label_keys(spec: Json, ready: Pod) -> None:
    """Write the selectors that `matchLabelKeys` turned into back into the JSON."""
    constraints = mappings(spec.get("topologySpreadConstraints"))
    for given, merged in zip(constraints, ready.spec.topology_spread_constraints, strict=True):
        if given.get("matchLabelKeys"):
            _replace_selector(given, merged.label_selector)
    affinity = spec.get("affinity") or {}
    computed = ready.spec.affinity
    if computed is None:
        return
    for field, side in (
        ("podAffinity", computed.pod_affinity),
        ("podAntiAffinity", computed.pod_anti_affinity),
    ):
        if side is not None:
            _merge_terms(affinity[field], side)


def _merge_terms(given: Json, side: PodAffinity) -> None:
    required = mappings(given.get("requiredDuringSchedulingIgnoredDuringExecution"))
    preferred = mappings(given.get("preferredDuringSchedulingIgnoredDuringExecution"))
    terms: list[tuple[Json, PodAffinityTerm]] = list(zip(required, side.required, strict=True))
    terms += [
        (weighted["podAffinityTerm"], computed.pod_affinity_term)
        for weighted, computed in zip(preferred, side.preferred, strict=True)
    ]
    for term, merged in terms:
        if term.get("matchLabelKeys") or term.get("mismatchLabelKeys"):
            _replace_selector(term, merged.label_selector)


def _replace_selector(target: Json, selector: LabelSelector | None) -> None:
    if selector is not None and selector.match_expressions:
        target["labelSelector"]["matchExpressions"] = [
            {"key": expr.key, "operator": expr.operator}
            | ({"values": list(expr.values)} if expr.values else {})
            for expr in selector.match_expressions
        ]
