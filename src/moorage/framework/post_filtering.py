"""PostFilter plugins, run one after another until one of them settles the matter."""

import msgspec

from moorage.framework.attempt import AttemptResult
from moorage.framework.guard import check_post_filter_answer, guard
from moorage.framework.plugin import PostFilterResult
from moorage.framework.status import Code, Status
from moorage.framework.timing import PointTime


def post_filter(attempt: AttemptResult) -> PostFilterResult:
    """Ask the PostFilter plugins what could be done for a pod that fits nowhere."""
    with attempt.times.point("PostFilter") as point:
        result = _post_filter(attempt, point)
        point.status = result.status.code.value
    return result


def _post_filter(attempt: AttemptResult, point: PointTime) -> PostFilterResult:
    last: PostFilterResult | None = None
    reasons: list[str] = []
    rejector = ""
    for plugin in attempt.profile.post_filter:
        with guard(plugin, "PostFilter"):
            result = plugin.post_filter(attempt.pod, attempt)
            check_post_filter_answer(plugin, result)
        status = msgspec.structs.replace(result.status, plugin=plugin.name)
        point.ran(plugin.name, status.code.value)
        if status.code not in (Code.UNSCHEDULABLE, Code.PENDING):
            return msgspec.structs.replace(result, status=status)
        if result.nominated_node is not None:
            last = result
        reasons += status.reasons
        rejector = rejector or plugin.name
    status = Status(Code.UNSCHEDULABLE, tuple(reasons), rejector)
    return msgspec.structs.replace(last or PostFilterResult(status), status=status)
