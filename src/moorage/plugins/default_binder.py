"""DefaultBinder: binds a pod through the API's binding subresource."""

from moorage.framework.plugin import ApiPort, BindPlugin
from moorage.framework.status import Skip, Status
from moorage.log_fields import KObj, Line, V
from moorage.model.pod import Pod

_BINDING = Line(V(3), "Attempting to bind pod to node", "pod", "node", logger="Bind.DefaultBinder")


class DefaultBinder(BindPlugin):
    """POST pods/binding."""

    name = "DefaultBinder"

    async def bind(self, pod: Pod, node_name: str, api: ApiPort) -> Status | Skip | None:
        """Bind; whatever the API refuses is raised by the port."""
        if _BINDING:
            _BINDING(pod, KObj("", node_name))
        await api.bind(pod, node_name)
        return None
