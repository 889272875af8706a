"""An embedded Kubernetes API server: the REST protocol for every kind a scheduler touches.

Talks to its clients over HTTP only; other packages use `ApiServer` (and `run_apiserver`) to start
and stop it. Knows nothing of the scheduler.

A request takes this way: `handlers` (HTTP) and `verbs` (what its method means) to `operations`, the
one way to write (`admission`, `defaults`, `validation`, `updates`, `deletion`, `subresources`), to
`storage` (versions, `history`, `journal`), and back as `responses`; reads go through `listing` and
`watching`.

Another kind is a row in `resources`, and where it needs them rows in the tables of `defaults` and
`columns` (kubectl get).
"""

from moorage.apiserver.authentication import ApiUser, read_token_file
from moorage.apiserver.certificates import Tls
from moorage.apiserver.faults import Fault, Faults
from moorage.apiserver.server import ApiServer, ApiServerOptions, run_apiserver

__all__ = [
    "ApiServer",
    "ApiServerOptions",
    "ApiUser",
    "Fault",
    "Faults",
    "Tls",
    "read_token_file",
    "run_apiserver",
]
