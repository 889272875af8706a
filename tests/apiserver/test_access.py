"""Tokens, TLS, reviews, and the kubeconfig that leads here."""

import base64
import http.client
import ssl
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from apiserver.serving import PODS, TIMEOUT, Client, served
from moorage.apiserver import ApiServer, ApiServerOptions, ApiUser, read_token_file
from moorage.apiserver.server import make_server
from moorage.errors import InputError

REVIEWS = "/apis/authorization.k8s.io/v1"


def test_without_tokens_everybody_is_let_in(api: Client) -> None:
    assert api.get(PODS).code == 200
    who = api.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", {}).body
    assert who["status"]["userInfo"]["username"] == "system:anonymous"


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("127.0.0.1:8080", 200),
        ("localhost", 200),
        ("cluster.localhost:1", 200),
        ("[::1]:8080", 200),
        ("192.0.2.7", 200),
        ("web.example", 421),
        ("localhost.web.example:8080", 421),
        ("[::1", 421),
        ("", 421),
    ],
)
def test_a_web_site_cannot_have_its_name_lead_here(name: str, code: int) -> None:
    def asked(server: Client) -> int:
        server._headers["Host"] = name
        return server.get(PODS).code

    with served(ApiServer) as (_, client):
        assert asked(client) == code
    with served(lambda: ApiServer(tokens={"secret": ApiUser("alice")})) as (serving, _):
        assert asked(Client(serving.url, "secret")) == 200, "who has a token may call it anything"


def test_with_tokens_only_their_holders_are(tmp_path: Path) -> None:
    tokens = {"secret": ApiUser("alice", "1", ("admins",))}
    with served(lambda: ApiServer(tokens=tokens)) as (serving, stranger):
        answer = stranger.get(PODS)
        assert (answer.code, answer.reason) == (401, "Unauthorized")
        assert Client(serving.url, "wrong").get(PODS).code == 401
        alice = Client(serving.url, "secret")
        assert alice.get(PODS).code == 200
        assert stranger.get("/healthz").code == 200
        review = {"spec": {"token": "secret"}}
        status = alice.post("/apis/authentication.k8s.io/v1/tokenreviews", review).body["status"]
        assert status["authenticated"]
        assert status["user"]["username"] == "alice"
        review = {"spec": {"token": "other"}}
        status = alice.post("/apis/authentication.k8s.io/v1/tokenreviews", review).body["status"]
        assert not status.get("authenticated")
        serving.server.write_kubeconfig(tmp_path / "config")
        config = yaml.safe_load((tmp_path / "config").read_text())
        assert config["users"][0]["user"] == {"token": "secret"}
        assert (tmp_path / "config").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("kind", ["SubjectAccessReview", "SelfSubjectAccessReview"])
def test_access_reviews_allow_everything(api: Client, kind: str) -> None:
    spec = {"resourceAttributes": {"verb": "get", "resource": "pods"}, "user": "x"}
    answer = api.post(f"{REVIEWS}/{kind.lower()}s", {"spec": spec})
    assert (answer.code, answer.body["status"]["allowed"]) == (201, True)


def test_the_self_signed_certificate_is_trusted_by_the_kubeconfig() -> None:
    with served(ApiServer, tls=True) as (serving, _):
        assert serving.url.startswith("https://127.0.0.1:")
        cluster = serving.server.kubeconfig()["clusters"][0]["cluster"]
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        context = ssl.create_default_context(cadata=authority)
        address = urlsplit(serving.url).netloc
        connection = http.client.HTTPSConnection(address, context=context, timeout=TIMEOUT)
        connection.request("GET", "/version")
        assert connection.getresponse().status == 200
        connection.close()


def test_token_files_are_those_of_kube_apiserver(tmp_path: Path) -> None:
    path = tmp_path / "tokens.csv"
    path.write_text('t1,alice,1,"a,b"\n\n# a comment\nt2,bob,2\n')
    assert read_token_file(path) == {
        "t1": ApiUser("alice", "1", ("a", "b")),
        "t2": ApiUser("bob", "2", ()),
    }
    path.write_text("only-a-token\n")
    with pytest.raises(InputError, match=r"tokens.csv:1"):
        read_token_file(path)
    with pytest.raises(InputError, match="cannot be read"):
        read_token_file(tmp_path / "missing")


def test_an_open_server_stays_on_loopback() -> None:
    with pytest.raises(InputError, match="not a loopback address"):
        make_server(ApiServerOptions(host="0.0.0.0"))
    make_server(ApiServerOptions(host="localhost"))
