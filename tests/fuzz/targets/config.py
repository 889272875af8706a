"""Configurations, policies, kubeconfigs, manifests and command lines: used, or refused."""

import json
import tempfile
from pathlib import Path
from random import Random
from typing import Any

import yaml

from fuzz.corpus import command_lines, configurations, samples
from fuzz.mutations import STRINGS, encode, mutate_bytes, mutate_json
from fuzz.target import PropertyError, Target, loaded
from moorage.app.options import EarlyExit, parse_options
from moorage.cluster.listers import Listers
from moorage.config import DEFAULT_FEATURE_GATES, load_config
from moorage.config.legacy_policy import decode_policy, parse_policy
from moorage.errors import InputError
from moorage.framework.plugin import Handle
from moorage.framework.profile import build_profiles
from moorage.kube.kubeconfig import Kubeconfig
from moorage.plugins.defaults import in_tree_registry
from moorage.simulator.documents import parse_documents

_KUBECONFIG = b"""apiVersion: v1
kind: Config
current-context: a
contexts:
- {name: a, context: {cluster: b, user: c, namespace: d}}
clusters:
- {name: b, cluster: {server: "https://localhost:6443/x", certificate-authority-data: "YQ==", \
tls-server-name: x, proxy-url: "http://localhost:1", extensions: [{name: a, extension: {b: 1}}]}}
users:
- {name: c, user: {token: t, as: x, as-groups: [a], as-user-extra: {a: [b]}, \
exec: {command: a, apiVersion: client.authentication.k8s.io/v1, args: [a], \
env: [{name: a, value: b}]}}}
"""
_POLICY = b"""{"kind": "Policy", "apiVersion": "v1", "hardPodAffinitySymmetricWeight": 10,
"predicates": [{"name": "PodFitsResources"}, {"name": "TestServiceAffinity", "argument":
{"serviceAffinity": {"labels": ["region"]}}}], "priorities": [{"name": "LeastRequestedPriority",
"weight": 1}], "extenders": [{"urlPrefix": "http://localhost:1", "filterVerb": "f", "weight": 1}]}
"""


class Config(Target):
    """What people write for the scheduler."""

    name = "config"

    def __init__(self) -> None:
        self._texts: dict[str, list[bytes]] = {}
        self._values: dict[str, list[Any]] = {}
        self._lines: list[list[str]] = []
        self._registry = in_tree_registry()
        self._file = Path(tempfile.mkdtemp(prefix="moorage-fuzz-"), "kubeconfig")

    def prepare(self, random: Random) -> None:
        """Recorded texts."""
        del random
        self._texts = {
            "config": configurations(),
            "kubeconfig": [_KUBECONFIG],
            "policy": [_POLICY],
            "manifest": [part[:6000] for part in samples()],
        }
        self._lines = command_lines()
        for sort in ("config", "kubeconfig", "policy"):
            values = []
            for text in self._texts[sort]:
                try:
                    values.append(yaml.safe_load(text))
                except (yaml.YAMLError, ValueError):
                    continue
            self._values[sort] = [value for value in values if isinstance(value, dict)]

    def make(self, random: Random) -> bytes:
        """A sort, and a text of it."""
        sort = random.choice(("config",) * 4 + ("kubeconfig", "policy", "manifest", "flags"))
        if sort == "flags":
            line = list(random.choice(self._lines))
            text = json.dumps(mutate_flags(line, random)).encode()
        elif sort in self._values and random.random() < 0.6:
            text = encode(mutate_json(random.choice(self._values[sort]), random))
        else:
            text = mutate_bytes(random.choice(self._texts[sort]), random, self._texts[sort])
        return sort.encode() + b"\n" + text

    def check(self, data: bytes) -> None:
        """The text of its sort."""
        sort, _, text = data.partition(b"\n")
        try:
            match sort:
                case b"config":
                    config = load_config(text, "config.yaml")
                    build_profiles(config, self._registry, Handle(Listers(), DEFAULT_FEATURE_GATES))
                case b"policy":
                    decode_policy(parse_policy(text))
                case b"manifest":
                    parse_documents(text.decode(errors="replace"), "file.yaml", is_json=False)
                case b"kubeconfig":
                    self._file.write_bytes(text)
                    read = Kubeconfig([self._file], must_exist=True)
                    for context in ("", *read.contexts):
                        read.access(context)
                case b"flags":
                    line = loaded(text)
                    if isinstance(line, list) and all(isinstance(item, str) for item in line):
                        _flags(line)
        except InputError as error:
            if not str(error) or ("\n" in str(error) and sort == b"manifest"):
                raise PropertyError(f"not one sentence: {str(error)[:200]!r}") from error


def mutate_flags(line: list[str], random: Random) -> list[str]:
    """Another command line."""
    at = random.randrange(len(line) + 1)
    way = random.randrange(4)
    if way == 0 or not line:
        return [*line[:at], random.choice(STRINGS), *line[at:]]
    at = min(at, len(line) - 1)
    if way == 1:
        return line[:at] + line[at + 1 :]
    if way == 2:
        flag = line[at].partition("=")[0]
        return [*line[:at], f"{flag}={random.choice(STRINGS)}", *line[at + 1 :]]
    text = mutate_bytes(line[at].encode(errors="replace"), random).decode(errors="replace")
    return [*line[:at], text[:5000], *line[at + 1 :]]


def _flags(line: list[str]) -> None:
    found = parse_options(line)
    if isinstance(found, EarlyExit) and "Traceback" in found.stderr:
        raise PropertyError("a traceback")


TARGET = Config
