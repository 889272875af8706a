"""The smallest changes that would let a pod be placed, each tried out by the engine.

`smallest_fixes` is the whole of it: it asks who rejects the pod where (`explain.survey`),
lets each remedy propose changes, tries them on the cluster as it is (`sandbox`), and ranks those
that work.
"""

from moorage.engine.cycle import Cycle
from moorage.explain.fixes.sandbox import Sandbox
from moorage.explain.fixes.search import search
from moorage.explain.report import Fix
from moorage.framework.profile import Profile
from moorage.model.pod import Pod

__all__ = ["smallest_fixes"]


def smallest_fixes(
    cycle: Cycle, profile: Profile, pod: Pod, *, limit: int = 10, seconds: float = 1.0
) -> tuple[Fix, ...]:
    """The smallest changes after which some node takes the pod, best first.

    Empty if a node takes it as it is, and for a pod that is being deleted, as nothing would help.
    The search ends after so many seconds of the cycle's clock, and changes nothing that decides
    about pods.
    """
    return search(Sandbox(cycle, profile, pod, seconds), limit)
