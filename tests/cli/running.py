"""Small clusters to run commands on, and what a command leaves behind."""

from collections.abc import Callable
from typing import NamedTuple

NODE = """\
apiVersion: v1
kind: Node
metadata: {name: quay-1, labels: {kubernetes.io/hostname: quay-1}}
status: {allocatable: {cpu: "4", memory: 8Gi, pods: "10"}}
"""

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: ship, namespace: fleet}
spec: {containers: [{name: hold, resources: {requests: {cpu: "1"}}}]}
"""


class Finished(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str


Run = Callable[..., Finished]
Write = Callable[[str, str], str]
