"""The Go modules that upstream's code comes from are of the release that Moorage follows."""

import re

import pytest

from explain.recorded import GOLDEN
from moorage.version import KUBERNETES_VERSION

TESTS = GOLDEN.parents[1]


@pytest.mark.parametrize("module", ["e2e/controlplane", "oracle"])
def test_the_module_pins_the_release(module: str) -> None:
    text = (TESTS / module / "go.mod").read_text()
    staging = KUBERNETES_VERSION.replace("v1.", "v0.", 1)
    assert re.search(rf"^\tk8s\.io/kubernetes {KUBERNETES_VERSION}\b", text, re.MULTILINE)
    assert {version for _, version in re.findall(r"(k8s\.io/\S+) => \1 (\S+)", text)} == {staging}
