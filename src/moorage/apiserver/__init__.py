"""An embedded Kubernetes API server: the REST protocol for every kind a scheduler touches.

Talks to its clients over HTTP only; other packages use `ApiServer` (and `run_apiserver`) to start
and stop it. Imports nothing of Moorage but `model` and `errors`.
"""

from moorage.apiserver.authentication import ApiUser, read_token_file
from moorage.apiserver.certificates import Tls
from moorage.apiserver.faults import Fault, Faults
from moorage.apiserver.kubelets import KubeletOptions
from moorage.apiserver.server import ApiServer, ApiServerOptions, run_apiserver, start_server

__all__ = [
    "ApiServer",
    "ApiServerOptions",
    "ApiUser",
    "Fault",
    "Faults",
    "KubeletOptions",
    "Tls",
    "read_token_file",
    "run_apiserver",
    "start_server",
]
