"""Answers of the real kube-scheduler's secure port, recorded once, and the asking for them.

`python tests/secure_port/recording.py https://127.0.0.1:10259 > recorded.json` records them with a
kube-scheduler v1.37.1 that runs with leader election, profiling and access to a kube-apiserver
which knows the tokens below (--token-auth-file) and lets `reader` do everything with every path.
"""

import http.client
import json
import ssl
import sys
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

TOKENS = {"reader": "reader-token", "norights": "norights-token", "wrong": "wrong"}
KEPT_HEADERS = (
    *("Cache-Control", "Content-Type", "X-Content-Type-Options", "Location", "Warning"),
    "Content-Encoding",
)
FLAGZ = "application/{};as=Flagz;v={};g=config.k8s.io"
STATUSZ = "application/{};as=Statusz;v={};g=config.k8s.io"


class Ask(NamedTuple):
    """A request: as whom, and what."""

    who: str
    path: str
    method: str = "GET"
    accept: str = ""
    agent: str = "test"
    body: str = ""


class Answer(NamedTuple):
    """What came back."""

    status: int
    headers: dict[str, str]
    body: str


HEALTH = (
    *("/healthz", "/livez", "/readyz", "/healthz?verbose", "/livez?verbose", "/readyz?verbose"),
    "/readyz?verbose&exclude=shutdown&exclude=zz&exclude=aa",
    *("/readyz?exclude=zz", "/healthz/ping", "/healthz/leaderElection", "/livez/ping"),
    *("/readyz/shutdown", "/readyz/", "/readyz/sched-handler-sync", "/livez/leaderElection"),
)
OTHERS = ("/", "/nothing", "/api/v1/pods", "/healthz//x", "/metrics/nothing", "/configz/x")
DEBUG = (
    *("/debug/pprof", "/debug/pprof/nonsense", "/debug/pprof/symbol"),
    *("/debug/flags", "/debug/flags/", "/debug/flags/v", "/debug/flags/x"),
)

ASKS = (
    *(Ask("reader", path) for path in (*HEALTH, *OTHERS, *DEBUG)),
    *(Ask("", path) for path in (*HEALTH[:4], *HEALTH[8:12], "/metrics", *OTHERS, "/configz")),
    *(Ask("wrong", path) for path in ("/healthz", "/metrics", "/nothing")),
    *(Ask("norights", path) for path in ("/healthz", "/metrics", "/healthz/ping", "/nothing")),
    *(Ask("norights", "/metrics", method) for method in ("POST", "DELETE", "PUT")),
    *(Ask("", "/a<b>&'c\"", agent=agent) for agent in ("test", "curl/8")),
    *(Ask("", "/metrics?pretty=1", agent=agent) for agent in ("test", "Mozilla/5.0 x")),
    *(Ask("", "/metrics", accept=f"application/{form}") for form in ("json", "yaml", "xml")),
    *(Ask("wrong", "/metrics", accept=form) for form in ("application/yaml", "text/html")),
    Ask("wrong", "/metrics", agent="curl/8"),
    *(Ask("reader", path) for path in ("/configz", "/flagz", "/statusz")),
    *(Ask("reader", path, "POST") for path in ("/healthz", "/statusz")),
    *(Ask("reader", "/healthz", method) for method in ("HEAD", "DELETE", "OPTIONS")),
    *(Ask("reader", f"/metrics{page}", "DELETE") for page in ("", "/slis", "/resources")),
    *(Ask("reader", "/debug/flags/v", "PUT", body=text) for text in ("5", "x", "-3", "", "4")),
    Ask("reader", "/debug/flags/v", "PUT", body="99999999999"),
    *(
        Ask("reader", "/flagz", accept=accept)
        for accept in (
            *(FLAGZ.format("json", version) for version in ("v1beta1", "v1alpha1", "v1")),
            FLAGZ.format("yaml", "v1beta1"),
            *("application/json", "text/html", "text/plain", "*/*", "text/html,text/plain;q=0.5"),
        )
    ),
    *(
        Ask("reader", "/statusz", accept=accept)
        for accept in (
            *(STATUSZ.format("json", version) for version in ("v1beta1", "v1alpha1", "v1")),
            STATUSZ.format("yaml", "v1beta1"),
            *("application/json", "text/html"),
        )
    ),
    Ask("reader", "/statusz", accept=STATUSZ.format("json", "v1beta1"), agent="curl/8"),
)


def ask(base: str, asked: Ask, context: ssl.SSLContext) -> Answer:
    """Send one request over a connection of its own."""
    parts = urlsplit(base)
    connection = http.client.HTTPSConnection(parts.netloc, context=context, timeout=20)
    headers = {"User-Agent": asked.agent}
    if asked.accept:
        headers["Accept"] = asked.accept
    if asked.who:
        headers["Authorization"] = f"Bearer {TOKENS[asked.who]}"
    try:
        target = asked.path.replace("<", "%3C").replace(">", "%3E").replace('"', "%22")
        connection.request(asked.method, target, asked.body.encode() or None, headers)
        found = connection.getresponse()
        kept = {name: found.headers[name] for name in KEPT_HEADERS if name in found.headers}
        return Answer(found.status, kept, found.read().decode())
    finally:
        connection.close()


def recorded() -> dict[Ask, Answer]:
    """What kube-scheduler answered."""
    entries: list[dict[str, Any]] = json.loads(
        Path(__file__).with_name("recorded.json").read_text()
    )
    return {Ask(**entry["ask"]): Answer(**entry["answer"]) for entry in entries}


def main(base: str) -> None:
    """Ask for everything and write it down."""
    context = ssl._create_unverified_context()
    entries = [
        {"ask": asked._asdict(), "answer": ask(base, asked, context)._asdict()} for asked in ASKS
    ]
    sys.stdout.write(json.dumps(entries, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
