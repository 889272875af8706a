"""DynamicResources: devices that pods claim through the resource.k8s.io API.

Its modules, in the order in which a pod meets them:

- `plugin`: the extension points; what happens at each is in the modules that follow
- `hints`: which events may help a pod that was rejected
- `filtering`: which nodes can satisfy the claims of a pod, whose state is in `pod_state`
- `reservations`, `binding`, `claim_writes`: what follows when a node was chosen, or none was
- `extended_resources`, `node_allocatable`: devices as resources, and resources as devices
- `claims`, `claim_tracker`: claims as the API has them, and as the scheduler has to see them
- `demands`: what claims ask for together, and what is known of every node's answer
- `search`, `claim_plans`, `selectors`, `capacity`: choosing devices on one node
- `pools`, `slices`, `usage`: the devices there are, and which of them are in use
"""

from moorage.plugins.dynamic_resources.plugin import DynamicResources

__all__ = ["DynamicResources"]
