"""HarbourLog writes: the ship that took a Berth into its status, and an event on the pod.

Reserve notes which Berth it is, PostBind writes. To enable it: `--plugin harbour_log.py` beside
berths.py, rights to patch berths/status, and in a configuration
`profiles: [{plugins: {multiPoint: {enabled: [{name: HarbourLog}]}}}]`.
"""

from moorage.framework.plugin import PostBindPlugin, ReservePlugin
from moorage.model.pod import Pod

BERTHS = "berths.v1.harbour.example"


class HarbourLog(ReservePlugin, PostBindPlugin):
    name = "HarbourLog"
    looks_up = (BERTHS,)

    def reserve(self, pod: Pod, node_name: str) -> None:
        for berth in self.handle.listers.of(BERTHS).in_namespace(pod.namespace):
            if "ship-length" in pod.labels and berth.content["spec"]["node"] == node_name:
                self.cycle_state(pod)["berth"] = berth.name

    def unreserve(self, pod: Pod, node_name: str) -> None:
        self.cycle_state(pod).clear()

    async def post_bind(self, pod: Pod, node_name: str) -> None:
        berth = self.cycle_state(pod).get("berth")
        if berth is not None:
            ship = {"status": {"ship": pod.name, "scheduler": self.handle.profile_name}}
            await self.handle.client.patch(BERTHS, berth, ship, pod.namespace, subresource="status")
            self.handle.event(pod, "Moored", f"{pod.name} lies in berth {berth}")
