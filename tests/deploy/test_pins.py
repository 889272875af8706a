"""The image is built from packages with known hashes, in the versions of constraints.txt."""

import re
import tomllib

import pytest

from deploy.manifests import DEPLOY, ROOT

FILES = ("requirements.txt", "build-requirements.txt")
REQUIREMENT = re.compile(
    r"([a-z0-9-]+)==(\S+)(?: ; [^\\]+)?((?: \\\n    --hash=sha256:[0-9a-f]{64})+)\n"
)


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def constraints() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pairs = [line.partition("==") for line in lines if line and not line.startswith("#")]
    return {canonical(name): version for name, _, version in pairs}


def pinned(file: str) -> dict[str, str]:
    found = REQUIREMENT.findall((DEPLOY / file).read_text())
    return {name: version for name, version, _ in found}


@pytest.mark.parametrize("file", FILES)
def test_every_line_is_a_version_with_its_hashes_and_nothing_else(file: str) -> None:
    # So there is no index, no URL and no package without a hash either.
    assert REQUIREMENT.sub("", (DEPLOY / file).read_text()) == ""


@pytest.mark.parametrize("file", FILES)
def test_every_hashed_version_is_the_one_of_the_constraints(file: str) -> None:
    known = constraints()
    wanted = {name: known.get(name) for name in pinned(file)}
    assert pinned(file) == wanted, "run `make pins`"


def test_everything_that_the_project_and_its_build_need_has_a_hash() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    image = [
        *project["project"]["dependencies"],
        *project["project"]["optional-dependencies"]["page"],
    ]
    for file, listed in (
        ("requirements.txt", image),
        ("build-requirements.txt", project["build-system"]["requires"]),
    ):
        names = {canonical(re.split(r"[^A-Za-z0-9._-]", one)[0]) for one in listed}
        assert names <= set(pinned(file)), "run `make pins`"
