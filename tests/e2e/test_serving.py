"""The secure port beside kube-scheduler's, with tokens and rights reviewed by a real API server."""

import http.client
import json
import re
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml

from e2e.client import wait_for
from e2e.cluster import ControlPlane
from e2e.instance import Instance, instance, let_read
from e2e.schedulers import MOORAGE, PEER, Scheduler, subject
from moorage.app.flag_table import MOORAGE as MOORAGE_SECTION
from secure_port.port import client_context
from secure_port.recording import ASKS, FLAGZ, STATUSZ, Answer, Ask

# What differs between two processes, besides Moorage's own flags.
_OWN_FLAGS = {"leader-elect-resource-name", "log-file", "secure-port", "tls-cert-file"}
_OWN_FLAGS |= {"tls-private-key-file"}
_MOORAGES_FLAGS = {flag.name for flag in MOORAGE_SECTION.flags}
# Whose bodies tell of the process itself; compared by their status and headers.
_UNEQUAL_BODIES = ("/metrics", "/debug/pprof", "/flagz", "/configz")
_MORE = (
    *(
        Ask(who, path)
        for who in ("reader", "norights", "wrong", "")
        for path in (
            *("/metrics", "/metrics/resources", "/metrics/slis", "/configz", "/statusz", "/flagz"),
            *("/debug/pprof/", "/debug/flags/v", "/readyz?verbose", "/readyz/shutdown", "/shadow"),
        )
    ),
)
_ALL = tuple(dict.fromkeys((*ASKS, *_MORE)))
_EVERYBODY = {"reader": "reader", "norights": "stranger"}

_OWN_LINES = ("Started", "Up", "Go version")

Two = dict[str, Instance]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("serving")


@pytest.fixture(scope="module")
def two(server: ControlPlane, scheduler: Callable[[str], Scheduler], folder: Path) -> Iterator[Two]:
    """Both schedulers, each the leader of an election of its own, with certificates of one CA."""
    let_read(server)
    authority = trustme.CA()
    with ExitStack() as running:
        started = {}
        for name in dict.fromkeys((PEER, subject())):
            _write_certificate(authority, folder, name)
            flags = (
                f"--kubeconfig={server.admin_kubeconfig}",
                f"--leader-elect-resource-name=serving-{name}",
                f"--tls-cert-file={folder / name}.crt",
                f"--tls-private-key-file={folder / name}.key",
            )
            starting = instance(scheduler(name), server, "serving", *flags)
            started[name] = running.enter_context(starting)
        for one in started.values():
            one.wait("leadership", one.leads)
        yield started


@pytest.mark.parametrize(
    "asked", _ALL, ids=lambda a: " ".join(filter(None, (a.who or "anybody", *a[1:])))
)
def test_a_request_is_answered_as_kube_scheduler_answers_it(
    two: Two, server: ControlPlane, asked: Ask
) -> None:
    theirs, ours = (_plain(asked, _asked(one, server, asked)) for one in _pair(two))
    assert ours == theirs


@pytest.mark.parametrize(
    ("who", "code"), [("", 403), ("wrong", 401), ("norights", 403), ("reader", 200)]
)
def test_only_those_with_the_right_read_the_metrics(
    two: Two, server: ControlPlane, who: str, code: int
) -> None:
    assert [_asked(one, server, Ask(who, "/metrics")).status for one in _pair(two)] == [code] * 2
    health = [_asked(one, server, Ask(who, "/healthz")).status for one in _pair(two)]
    assert health == [401 if who == "wrong" else 200] * 2


def test_configz_tells_the_same_configuration(two: Two) -> None:
    theirs, ours = (one.read_json("/configz") for one in _pair(two))
    for told in (theirs, ours):
        told["componentconfig"]["leaderElection"].pop("resourceName")
    assert ours == theirs


def test_flagz_tells_the_same_flags_and_moorages_own(two: Two, server: ControlPlane) -> None:
    asked = Ask("reader", "/flagz", accept=FLAGZ.format("json", "v1beta1"))
    theirs, ours = (json.loads(_asked(one, server, asked).body)["flags"] for one in _pair(two))
    differ = {name for name in theirs if ours.get(name) != theirs[name]}
    assert differ <= _OWN_FLAGS
    assert set(ours) - set(theirs) == (_MOORAGES_FLAGS if subject() == MOORAGE else set())


def test_statusz_tells_the_same_paths(two: Two, server: ControlPlane) -> None:
    asked = Ask("reader", "/statusz", accept=STATUSZ.format("json", "v1beta1"))
    theirs, ours = (json.loads(_asked(one, server, asked).body) for one in _pair(two))
    assert ours["paths"] == theirs["paths"]
    assert ours.keys() == theirs.keys()
    assert ours["binaryVersion"] == theirs["binaryVersion"]


@pytest.mark.parametrize("path", ["/metrics", "/metrics/slis", "/metrics/resources"])
def test_metrics_come_in_one_format_whatever_is_asked_for(
    two: Two, server: ControlPlane, path: str
) -> None:
    for accept in ("application/openmetrics-text; version=1.0.0", "text/plain", "application/json"):
        asked = Ask("reader", path, accept=accept)
        theirs, ours = (_asked(one, server, asked) for one in _pair(two))
        assert ours._replace(body="") == theirs._replace(body="")
        assert "# EOF" not in ours.body


# ---- certificates of clients and of the server ----


@pytest.mark.parametrize(
    ("name", "groups", "code"),
    [("reader", (), 200), ("stranger", (), 403), ("anyone", ("system:masters",), 200)],
)
def test_a_certificate_of_the_clusters_client_authority_tells_who_is_asking(
    two: Two, server: ControlPlane, name: str, groups: tuple[str, ...], code: int
) -> None:
    context = client_context(server.clients, name, groups)
    theirs, ours = (one.ask("/metrics", context=context) for one in _pair(two))
    assert (theirs.status, ours.status) == (code, code)
    if code != 200:
        assert ours == theirs


@pytest.mark.skipif(subject() == PEER, reason="it is about the difference")
def test_a_certificate_of_another_authority_lets_nobody_in(two: Two) -> None:
    context = client_context(trustme.CA(), "reader")
    assert two[PEER].ask("/metrics", context=context).status == 401
    # Python's TLS ends such a connection itself, before anything can be answered.
    with pytest.raises((OSError, http.client.HTTPException)):
        two[MOORAGE].ask("/metrics", context=context)
    assert two[MOORAGE].serving()


def test_a_replaced_certificate_is_served_without_a_restart(two: Two, folder: Path) -> None:
    authority = trustme.CA()
    context = ssl.create_default_context()
    authority.configure_trust(context)
    for name, one in two.items():
        with pytest.raises(ssl.SSLCertVerificationError):
            one.ask("/livez", context=context)
        _write_certificate(authority, folder, name)
    for name, one in two.items():
        wait_for(f"the new certificate of {name}", partial(_trusted, one, context), 90)
        one.process.check()
    # A certificate that is no certificate changes nothing.
    ours = two[subject()]
    (folder / f"{subject()}.crt").write_text("nonsense")
    told = "failed to find any PEM data in certificate input"
    ours.wait("a word about the certificate", lambda: told in ours.log(), 90)
    assert _trusted(ours, context)


def _trusted(one: Instance, context: ssl.SSLContext) -> bool:
    try:
        return one.ask("/livez", context=context).status == 200
    except ssl.SSLCertVerificationError:
        return False


def _write_certificate(authority: trustme.CA, folder: Path, name: str) -> None:
    issued = authority.issue_cert("127.0.0.1")
    issued.private_key_pem.write_to_path(folder / f"{name}.key")
    issued.cert_chain_pems[0].write_to_path(folder / f"{name}.crt")


def _pair(two: Two) -> tuple[Instance, Instance]:
    return two[PEER], two[subject()]


def _asked(one: Instance, server: ControlPlane, asked: Ask) -> Answer:
    token = server.tokens[_EVERYBODY[asked.who]] if asked.who in _EVERYBODY else asked.who
    headers = {"User-Agent": asked.agent} | ({"Accept": asked.accept} if asked.accept else {})
    path = asked.path.replace("<", "%3C").replace(">", "%3E").replace('"', "%22")
    return one.ask(path, token, method=asked.method, headers=headers, body=asked.body)


def _plain(asked: Ask, answer: Answer) -> Any:
    """An answer without what two processes cannot have in common."""
    path = asked.path.partition("?")[0]
    if answer.status == 200 and asked.method == "GET" and path.startswith(_UNEQUAL_BODIES):
        return answer._replace(body="")
    if path == "/statusz" and answer.status == 200:
        return answer._replace(body=_plain_status(answer))
    return answer


def _plain_status(answer: Answer) -> Any:
    told = {"startTime": "<time>", "uptimeSeconds": "<time>", "goVersion": "<version>"}
    if "json" in answer.headers["Content-Type"]:
        return {**json.loads(answer.body), **told}
    if "yaml" in answer.headers["Content-Type"]:
        return {**yaml.safe_load(answer.body), **told}
    # The text form takes one of several separators by chance.
    kept = [line for line in answer.body.splitlines() if not line.startswith(_OWN_LINES)]
    return [re.sub(r"^([A-Z][a-z]*(?: version)?)(: |:|=| ) ?", r"\1: ", line) for line in kept]
