"""Constraints of a claim: an attribute in which devices must agree, or must all differ.

Owns when one more device keeps a constraint satisfied. Every successful `add` is undone by one
`remove` with the same arguments, in reverse order.
"""

from abc import ABC, abstractmethod

from moorage.model.devices import DeviceAttribute, DeviceConstraint
from moorage.plugins.dynamic_resources.records import DeviceRecord

Value = tuple[str, object]
"""The kind of an attribute and its value."""


class Constraint(ABC):
    """A constraint while devices are being chosen."""

    def __init__(self, constraint: DeviceConstraint, attribute: str) -> None:
        self._requests = frozenset(constraint.requests)
        self._attribute = attribute

    def applies(self, request: str, sub_request: str) -> bool:
        """Is it about the devices of a request? Naming none means all of them."""
        if not self._requests or request in self._requests:
            return True
        return bool(sub_request) and f"{request}/{sub_request}" in self._requests

    def add(self, request: str, sub_request: str, device: DeviceRecord) -> bool:
        """One more device is to be chosen; False if it must not be."""
        if not self.applies(request, sub_request):
            return True
        attribute = device.attribute(self._attribute)
        return attribute is not None and self._add(request, attribute)

    def remove(self, request: str, sub_request: str) -> None:
        """The last device of the request is given back."""
        if self.applies(request, sub_request):
            self._remove(request)

    @abstractmethod
    def _add(self, request: str, attribute: DeviceAttribute) -> bool: ...

    @abstractmethod
    def _remove(self, request: str) -> None: ...


class MatchAttribute(Constraint):
    """All devices have the same value; the first one sets it."""

    def __init__(self, constraint: DeviceConstraint, attribute: str) -> None:
        super().__init__(constraint, attribute)
        self._first: DeviceAttribute | None = None
        self._count = 0

    def _add(self, request: str, attribute: DeviceAttribute) -> bool:
        del request
        if self._count:
            value = _value(attribute)
            assert self._first is not None, "a device was counted"
            if value is None or value != _value_of_kind(self._first, value[0]):
                return False
        else:
            self._first = attribute
        self._count += 1
        return True

    def _remove(self, request: str) -> None:
        del request
        self._count -= 1


class DistinctAttribute(Constraint):
    """No two requests' devices have the same value.

    Upstream remembers one value per request, the latest: within a request of several devices only
    neighbours are compared. That is kept here.
    """

    def __init__(self, constraint: DeviceConstraint, attribute: str) -> None:
        super().__init__(constraint, attribute)
        self._latest: dict[str, DeviceAttribute] = {}
        self._count = 0

    def _add(self, request: str, attribute: DeviceAttribute) -> bool:
        if self._count:
            value = _value(attribute)
            for other in self._latest.values():
                if value is None or value == _value_of_kind(other, value[0]):
                    return False
        self._latest[request] = attribute
        self._count += 1
        return True

    def _remove(self, request: str) -> None:
        self._latest.pop(request, None)
        self._count -= 1


def make_constraint(constraint: DeviceConstraint) -> Constraint | None:
    """The constraint at work; None if it is of a kind that is not known."""
    if constraint.match_attribute is not None:
        return MatchAttribute(constraint, constraint.match_attribute)
    if constraint.distinct_attribute is not None:
        return DistinctAttribute(constraint, constraint.distinct_attribute)
    return None


def _value(attribute: DeviceAttribute) -> Value | None:
    for kind in ("string_value", "int_value", "bool_value", "version_value"):
        value = getattr(attribute, kind)
        if value is not None:
            return kind, value
    return None


def _value_of_kind(attribute: DeviceAttribute, kind: str) -> Value | None:
    value = getattr(attribute, kind)
    return None if value is None else (kind, value)
