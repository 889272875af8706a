"""From what the stores report to the scheduler's event handlers, kind by kind.

Owns the waking: after every change the scheduling loop looks at the queue again.
"""

from collections.abc import Callable

from moorage.engine.handlers import EventHandlers
from moorage.model.meta import ApiObject
from moorage.model.node import Node
from moorage.model.pod import Pod

Wake = Callable[[], None]


class _Waking:
    """A handler that wakes the loop after each change."""

    def __init__(self, handlers: EventHandlers, wake: Wake) -> None:
        self._handlers = handlers
        self._wake = wake

    def on_synced(self) -> None:
        """Everything there is has been reported."""
        self._wake()


class PodHandler(_Waking):
    """Pods."""

    def on_add(self, obj: ApiObject, /) -> None:
        """A pod appeared."""
        assert isinstance(obj, Pod), "the store of pods holds pods"
        self._handlers.add_pod(obj)
        self._wake()

    def on_update(self, old: ApiObject, new: ApiObject, /) -> None:
        """A pod changed, or was replaced by another of the same name while nobody watched."""
        assert isinstance(old, Pod), "the store of pods holds pods"
        assert isinstance(new, Pod), "the store of pods holds pods"
        if old.uid != new.uid:
            self._handlers.delete_pod(old)
            self._handlers.add_pod(new)
        else:
            self._handlers.update_pod(old, new)
        self._wake()

    def on_delete(self, old: ApiObject, /) -> None:
        """A pod is gone."""
        assert isinstance(old, Pod), "the store of pods holds pods"
        self._handlers.delete_pod(old)
        self._wake()


class NodeHandler(_Waking):
    """Nodes."""

    def on_add(self, obj: ApiObject, /) -> None:
        """A node appeared."""
        assert isinstance(obj, Node), "the store of nodes holds nodes"
        self._handlers.add_node(obj)
        self._wake()

    def on_update(self, old: ApiObject, new: ApiObject, /) -> None:
        """A node changed."""
        assert isinstance(old, Node), "the store of nodes holds nodes"
        assert isinstance(new, Node), "the store of nodes holds nodes"
        self._handlers.update_node(old, new)
        self._wake()

    def on_delete(self, old: ApiObject, /) -> None:
        """A node is gone."""
        assert isinstance(old, Node), "the store of nodes holds nodes"
        self._handlers.delete_node(old)
        self._wake()


class ObjectHandler(_Waking):
    """Everything else; custom resources are told apart by their name."""

    def __init__(self, handlers: EventHandlers, wake: Wake, custom_resource: str = "") -> None:
        super().__init__(handlers, wake)
        self._custom_resource = custom_resource

    def on_add(self, obj: ApiObject, /) -> None:
        """An object appeared."""
        self._handlers.add_object(obj, self._custom_resource)
        self._wake()

    def on_update(self, old: ApiObject, new: ApiObject, /) -> None:
        """An object changed."""
        self._handlers.update_object(old, new, self._custom_resource)
        self._wake()

    def on_delete(self, old: ApiObject, /) -> None:
        """An object is gone."""
        self._handlers.delete_object(old, self._custom_resource)
        self._wake()
