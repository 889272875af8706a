"""What a pod takes while it is resized is what the plain sums say, whatever is reported of it."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from moorage.model.meta import Json
from moorage.model.pod import Pod
from properties.harness import effort
from reference.requests import occupied

amounts = st.dictionaries(st.sampled_from(["cpu", "memory"]), st.integers(0, 5), max_size=2)
maybe = st.none() | amounts
reasons = st.sampled_from([None, None, "Deferred", "Infeasible"])


@st.composite
def pods(draw: st.DrawFn) -> Pod:
    """Up to three containers of each kind; of any, requests and what is reported may be missing."""

    def containers(prefix: str, least: int) -> tuple[list[Json], list[Json]]:
        wanted, reported = [], []
        for i in range(draw(st.integers(least, 3))):
            one: Json = {"name": f"{prefix}{i}", "resources": {"requests": draw(amounts)}}
            if prefix == "init" and draw(st.booleans()):
                one["restartPolicy"] = "Always"
            wanted.append(one)
            if draw(st.booleans()):
                reported.append(_reported({"name": one["name"]}, draw(maybe), draw(maybe)))
        return wanted, reported

    main, statuses = containers("main", 1)
    init, init_statuses = containers("init", 0)
    spec: Json = {"containers": main, "initContainers": init, "overhead": draw(amounts)}
    status: Json = {"containerStatuses": statuses, "initContainerStatuses": init_statuses}
    whole = draw(maybe)
    if whole is not None:
        spec["resources"] = {"requests": whole}
    if draw(st.booleans()):
        _reported(status, draw(maybe), draw(maybe))
    reason = draw(reasons)
    if reason is not None:
        status["conditions"] = [{"type": "PodResizePending", "reason": reason}]
    return msgspec.convert({"metadata": {"name": "p"}, "spec": spec, "status": status}, Pod)


def _reported(status: Json, running: Json | None, allocated: Json | None) -> Json:
    if running is not None:
        status["resources"] = {"requests": running}
    if allocated is not None:
        status["allocatedResources"] = allocated
    return status


@effort(300)
@given(pods())
def test_a_pod_takes_what_the_naive_sums_say(pod: Pod) -> None:
    expected = {name: amount for name, amount in occupied(pod).items() if amount}
    expected = {name: amount * (1000 if name == "cpu" else 1) for name, amount in expected.items()}
    assert {name: amount for name, amount in pod.requests.occupied.items() if amount} == expected
