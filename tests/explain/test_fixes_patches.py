"""Patches do here what they do at an API server."""

from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.apiserver.errors import ApiStatusError
from moorage.apiserver.patching import json_patch
from moorage.explain.fixes.changes import (
    Operation,
    add,
    append,
    apply,
    patched,
    pointer,
    remove,
    replace,
)
from moorage.model.meta import Json
from moorage.testing import make_pod
from properties.harness import effort

DOCUMENT: Json = {
    "spec": {
        "tolerations": [{"key": "a"}, {"key": "b"}],
        "nodeSelector": {"kubernetes.io/arch": "arm64", "a~b": "c"},
        "containers": [{"name": "x", "resources": {"requests": {"cpu": 1}}}],
    }
}

steps: st.SearchStrategy[list[str | int]] = st.lists(
    st.sampled_from(
        [
            "spec",
            "tolerations",
            "nodeSelector",
            "kubernetes.io/arch",
            "a~b",
            "containers",
            "resources",
            "requests",
            "cpu",
            0,
            1,
            2,
            "-",
            "new",
        ]
    ),
    min_size=1,
    max_size=6,
)
operations = st.one_of(
    steps.map(lambda path: add(1, *path)),
    steps.map(lambda path: replace({"k": []}, *path)),
    steps.map(lambda path: remove(*path)),
)


@effort(400)
@given(operations)
def test_what_an_api_server_accepts_comes_out_the_same(operation: Operation) -> None:
    try:
        expected = json_patch(deepcopy(DOCUMENT), [operation])
    except ApiStatusError:
        return

    document, value = deepcopy(DOCUMENT), deepcopy(operation.get("value"))
    apply(document, operation)
    assert document == expected
    assert operation.get("value") == value


def test_names_with_slashes_and_tildes_are_escaped() -> None:
    assert pointer("metadata", "labels", "a/b~c", 0) == "/metadata/labels/a~1b~0c/0"
    document: Json = deepcopy(DOCUMENT)
    apply(document, remove("spec", "nodeSelector", "kubernetes.io/arch"))
    assert document["spec"]["nodeSelector"] == {"a~b": "c"}


def test_a_list_that_is_not_there_is_made() -> None:
    assert append(1, [], "spec", "list") == add([1], "spec", "list")
    assert append(1, [0], "spec", "list") == add(1, "spec", "list", "-")


def test_a_patched_pod_is_a_new_one_and_works_its_values_out_anew() -> None:
    pod = make_pod(cpu="2")
    assert pod.requests.incoming["cpu"] == 2000

    lower = patched(pod, (add("1", "spec", "containers", 0, "resources", "requests", "cpu"),))

    assert lower.requests.incoming["cpu"] == 1000
    assert pod.requests.incoming["cpu"] == 2000


@pytest.mark.parametrize("operation", [remove("spec", "none"), replace(1, "spec", "no", "such")])
def test_what_is_not_there_cannot_be_changed(operation: Operation) -> None:
    with pytest.raises(ValueError, match="there is nothing at /spec/no"):
        apply(deepcopy(DOCUMENT), operation)
