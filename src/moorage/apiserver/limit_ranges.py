"""LimitRanges: what containers get that ask for nothing, and what nobody in a namespace may exceed.

Reads the store, never writes it. Upstream: kubernetes@v1.37.1 plugin/pkg/admission/limitranger.
"""

from collections.abc import Iterator, Mapping

from moorage.apiserver.defaults import mappings
from moorage.apiserver.errors import Json, forbidden
from moorage.apiserver.storage import Storage
from moorage.model.pod import Container, Pod
from moorage.model.pod_requests import container_totals
from moorage.model.quantity import parse_milli, quantity_format, quantity_text
from moorage.model.resources import to_milli

_KEY = "limitranges"
_ANNOTATION = "kubernetes.io/limit-ranger"
_NANO_IN_MILLI = 10**6
Amounts = Mapping[str, str]


class LimitRanges:
    """The rules of all namespaces."""

    def __init__(self, store: Storage) -> None:
        self._collection = store.collection(_KEY)

    def fill_in(self, pod: Json) -> None:
        """Give containers the requests and limits that they do not mention."""
        said: list[str] = []
        for limit_range in self._of(pod):
            given = {
                "requests": _defaults(limit_range, "defaultRequest"),
                "limits": _defaults(limit_range, "default"),
            }
            for field, what in (("containers", "container"), ("initContainers", "init container")):
                for container in mappings(pod["spec"].get(field)):
                    said += _fill(container, given, what)
        if said:
            metadata = pod["metadata"]
            text = "LimitRanger plugin set: " + "; ".join(said)
            metadata["annotations"] = {**(metadata.get("annotations") or {}), _ANNOTATION: text}

    def check_pod(self, obj: Json, pod: Pod) -> None:
        """Refuse a pod that breaks a rule."""
        for limit_range in self._of(obj):
            wrong: list[str] = []
            for limit in mappings((limit_range.get("spec") or {}).get("limits")):
                if limit.get("type") == "Container":
                    for field in ("containers", "initContainers"):
                        for container in mappings(obj["spec"].get(field)):
                            parts = container.get("resources") or {}
                            wrong += _broken(limit, parts.get("requests"), parts.get("limits"))
                elif limit.get("type") == "Pod":
                    wrong += _broken(limit, *_totals(pod))
            _refuse("pods", pod.name, wrong)

    def check_claim(self, claim: Json) -> None:
        """Refuse a claim for too little or too much storage."""
        asked = (claim["spec"].get("resources") or {}).get("requests") or {}
        for limit_range in self._of(claim):
            wrong: list[str] = []
            for limit in mappings((limit_range.get("spec") or {}).get("limits")):
                if limit.get("type") == "PersistentVolumeClaim":
                    wrong += [*_below(limit, asked, {}), *_above(limit, asked)]
            _refuse("persistentvolumeclaims", claim["metadata"]["name"], wrong)

    def _of(self, obj: Json) -> list[Json]:
        found = self._collection.within(obj["metadata"]["namespace"])
        return [stored.object() for stored in found]


def _defaults(limit_range: Json, field: str) -> Json:
    found: Json = {}
    for limit in mappings((limit_range.get("spec") or {}).get("limits")):
        if limit.get("type") == "Container":
            found |= limit.get(field) or {}
    return found


def _fill(container: Json, given: Mapping[str, Json], what: str) -> Iterator[str]:
    resources = container.get("resources") or {}
    for part, word in (("requests", "request"), ("limits", "limit")):
        missing = {k: v for k, v in given[part].items() if k not in (resources.get(part) or {})}
        if missing:
            resources[part] = {**(resources.get(part) or {}), **missing}
            yield f"{', '.join(sorted(missing))} {word} for {what} {container.get('name', '')}"
    container["resources"] = resources


def _totals(pod: Pod) -> tuple[Amounts, Amounts]:
    """What the containers of a pod ask for together, and may have together."""

    def text(total: Mapping[str, int]) -> Amounts:
        forms = {
            name: quantity_format(amount)
            for container in (*pod.spec.init_containers, *pod.spec.containers)
            for part in (container.resources.limits, container.resources.requests)
            for name, amount in part.items()
        }
        return {
            name: quantity_text(milli * _NANO_IN_MILLI, forms[name])
            for name, milli in total.items()
        }

    def limits(container: Container) -> dict[str, int]:
        return to_milli(container.resources.limits)

    def requests(container: Container) -> dict[str, int]:
        return to_milli(container.resources.requests)

    return text(container_totals(pod, requests)), text(container_totals(pod, limits))


def _broken(limit: Json, requests: Amounts | None, limits: Amounts | None) -> list[str]:
    """The rules for a container or pod that do not hold, in upstream's words."""
    asked, allowed = requests or {}, limits or {}
    return [
        *_below(limit, asked, allowed),
        *_beyond(limit, asked, allowed),
        *_apart(limit, asked, allowed),
    ]


def _below(limit: Json, asked: Amounts, allowed: Amounts) -> Iterator[str]:
    for name, least in sorted((limit.get("min") or {}).items()):
        rule = f"minimum {name} usage per {limit['type']} is {_text(least)}"
        if name not in asked:
            yield f"{rule}.  No request is specified"
        elif parse_milli(asked[name]) < parse_milli(least):
            yield f"{rule}, but request is {_text(asked[name])}"
        elif name in allowed and parse_milli(allowed[name]) < parse_milli(least):
            yield f"{rule}, but limit is {_text(allowed[name])}"


def _beyond(limit: Json, asked: Amounts, allowed: Amounts) -> Iterator[str]:
    for name, most in sorted((limit.get("max") or {}).items()):
        rule = f"maximum {name} usage per {limit['type']} is {_text(most)}"
        if name not in allowed:
            yield f"{rule}.  No limit is specified"
        elif parse_milli(allowed[name]) > parse_milli(most):
            yield f"{rule}, but limit is {_text(allowed[name])}"
        elif name in asked and parse_milli(asked[name]) > parse_milli(most):
            yield f"{rule}, but request is {_text(asked[name])}"


def _apart(limit: Json, asked: Amounts, allowed: Amounts) -> Iterator[str]:
    for name, ratio in sorted((limit.get("maxLimitRequestRatio") or {}).items()):
        rule = f"{name} max limit to request ratio per {limit['type']} is {_text(ratio)}"
        request, most = parse_milli(asked.get(name, 0)), parse_milli(allowed.get(name, 0))
        if not request:
            yield f"{rule}, but no request is specified or request is 0"
        elif not most:
            yield f"{rule}, but no limit is specified or limit is 0"
        elif most * 1000 > parse_milli(ratio) * request:
            yield f"{rule}, but provided ratio is {most / request:f}"


def _above(limit: Json, asked: Amounts) -> Iterator[str]:
    """Storage has no limits of its own, so requests are what counts."""
    for name, most in sorted((limit.get("max") or {}).items()):
        rule = f"maximum {name} usage per {limit['type']} is {_text(most)}"
        if name not in asked:
            yield f"{rule}.  No request is specified"
        elif parse_milli(asked[name]) > parse_milli(most):
            yield f"{rule}, but request is {_text(asked[name])}"


def _text(amount: str) -> str:
    return quantity_text(parse_milli(amount) * _NANO_IN_MILLI, quantity_format(amount))


def _refuse(plural: str, name: str, wrong: list[str]) -> None:
    if wrong:
        unlike = list(dict.fromkeys(wrong))
        raise forbidden(
            plural, "", name, unlike[0] if len(unlike) == 1 else f"[{', '.join(unlike)}]"
        )
