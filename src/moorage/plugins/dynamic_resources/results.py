"""A found choice of devices written down as an allocation, as claims store it."""

from collections.abc import Callable, Sequence
from uuid import uuid4

from moorage.model.devices import (
    AllocationResult,
    DeviceAllocationConfiguration,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    ResourceClaim,
)
from moorage.model.node_selector import (
    NAME_FIELD,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
)
from moorage.plugins.dynamic_resources.allocator import Chosen

FROM_CLASS = "FromClass"
FROM_CLAIM = "FromClaim"

MakeShareId = Callable[[], str]


def random_share_id() -> str:
    """A name for one share of a device."""
    return str(uuid4())


def allocation_result(
    claim: ResourceClaim,
    chosen: Sequence[Chosen],
    node_name: str,
    make_share_id: MakeShareId = random_share_id,
) -> AllocationResult:
    """The allocation of a claim whose devices were chosen for a node."""
    return AllocationResult(
        devices=DeviceAllocationResult(
            results=tuple(_result(choice, make_share_id) for choice in chosen),
            config=tuple(_configuration(claim, chosen)),
        ),
        node_selector=_node_selector(chosen, node_name),
    )


def _result(chosen: Chosen, make_share_id: MakeShareId) -> DeviceRequestAllocationResult:
    request, record = chosen.request, chosen.device
    driver, pool, device = record.id
    return DeviceRequestAllocationResult(
        request=request.full_name,
        driver=driver,
        pool=pool,
        device=device,
        admin_access=True if request.admin_access else None,
        tolerations=request.tolerations,
        binding_conditions=record.device.binding_conditions,
        binding_failure_conditions=record.device.binding_failure_conditions,
        share_id=make_share_id() if record.shareable else None,
        consumed_capacity={name: amount.text for name, amount in chosen.consumed.items()},
    )


def _configuration(
    claim: ResourceClaim, chosen: Sequence[Chosen]
) -> list[DeviceAllocationConfiguration]:
    """First the classes' configuration, each class once; then the claim's own."""
    picked = {choice.request.base_name: choice.request for choice in chosen}
    by_class: dict[str, list[str]] = {}
    for request in claim.spec.devices.requests:
        plan = picked.get(request.name)
        if plan is not None:
            by_class.setdefault(plan.class_name, []).append(plan.full_name)
    found = []
    for class_name, names in by_class.items():
        device_class = next(
            plan.device_class for plan in picked.values() if plan.class_name == class_name
        )
        found += [
            DeviceAllocationConfiguration(
                source=FROM_CLASS, requests=tuple(names), opaque=config.opaque
            )
            for config in device_class.spec.config
        ]
    for config in claim.spec.devices.config:
        own = DeviceAllocationConfiguration(
            source=FROM_CLAIM, requests=config.requests, opaque=config.opaque
        )
        if not config.requests:
            found.append(own)
            continue
        for request in claim.spec.devices.requests:
            plan = picked.get(request.name)
            full_name = plan.full_name if plan is not None else request.name
            if request.name in config.requests or full_name in config.requests:
                found.append(own)
    return found


def _node_selector(chosen: Sequence[Chosen], node_name: str) -> NodeSelector | None:
    """From which nodes the devices can be used; None means from all."""
    fields: list[NodeSelectorRequirement] = []
    expressions: list[NodeSelectorRequirement] = []
    for choice in chosen:
        record = choice.device
        source = record.device if record.slice.per_device else record.slice.slice.spec
        if source.node_name is not None or record.device.binds_to_node:
            only = NodeSelectorRequirement(key=NAME_FIELD, operator="In", values=(node_name,))
            return NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(only,)),))
        selector = source.node_selector
        if selector is not None and selector.node_selector_terms:
            term = selector.node_selector_terms[0]
            _extend(fields, term.match_fields)
            _extend(expressions, term.match_expressions)
    if not fields and not expressions:
        return None
    term = NodeSelectorTerm(match_fields=tuple(fields), match_expressions=tuple(expressions))
    return NodeSelector(node_selector_terms=(term,))


def _extend(known: list[NodeSelectorRequirement], more: Sequence[NodeSelectorRequirement]) -> None:
    for requirement in more:
        same = (
            (other.key, other.operator) == (requirement.key, requirement.operator)
            and set(other.values) == set(requirement.values)
            for other in known
        )
        if not any(same):
            known.append(requirement)
