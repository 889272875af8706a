"""`moorage explain --server`: what a running scheduler is asked, as whom, and what may go wrong."""

import json
import socket
import ssl
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trustme
import yaml

from cli.answering import Answer, answering, kubeconfig_for
from cli.running import Run
from kube.fake_api import status
from moorage.explain.listing import DecisionPage, PodLine, PodPage
from moorage.explain.report import (
    DecisionExplanation,
    DecisionSummary,
    Fix,
    Matrix,
    NodeExplanation,
    NodeVerdicts,
    PodExplanation,
    QueueState,
    Rejection,
    Waker,
)

Json = dict[str, Any]
POD = "/explain/v1/pods/fleet/ship"

SHIP = PodExplanation(
    pod="fleet/ship",
    schedulable=False,
    nodes=2,
    feasible=0,
    message="0/2 nodes are available: 2 Insufficient cpu.",
    source="live",
    rejections=(Rejection("NodeResourcesFit", "Insufficient cpu", 2, ("n1", "n2")),),
    queue=QueueState(
        "unschedulable",
        3,
        waits_for=(Waker("NodeAdd", ("NodeResourcesFit",)),),
        message="tried 3 times, turned away by NodeResourcesFit; waits for NodeAdd",
    ),
    fixes=(Fix("lower the cpu request", "lowerRequest", 1, True),),
    decision=4,
)
SUMMARY = DecisionSummary(
    4, 1.8e9, "fleet/ship", "unschedulable", "default-scheduler", message="no"
)


def plain(told: msgspec.Struct) -> Json:
    found: Json = json.loads(msgspec.json.encode(told))
    return found


def test_a_pod_is_explained_with_its_queue(run: Run) -> None:
    with answering({POD: plain(SHIP)}) as server:
        done = run("explain", "pod", "fleet/ship", "--server", server.url, "-o", "json")
        assert done.code == 3, done.err
        answer = json.loads(done.out)
        assert (answer["source"], answer["queue"]["attempts"]) == ("live", 3)
        assert [fix["nodesGained"] for fix in answer["fixes"]] == [1]
        text = run("explain", "pod", "fleet/ship", "--server", server.url).out
        assert (
            "Queue\n  tried 3 times, turned away by NodeResourcesFit; waits for NodeAdd\n" in text
        )
        assert "  woken by: NodeAdd (NodeResourcesFit)\n" in text
        assert "The latest decision about it is number 4." in text


def test_what_is_wanted_is_asked_for(run: Run) -> None:
    with answering({POD: plain(SHIP)}) as server:
        flags = ("--node", "n1", "--node", "n 2", "--top", "7", "--no-fixes")
        run("explain", "pod", "fleet/ship", "--server", server.url, *flags)
        assert server.asked == [f"GET {POD}?node=n1&node=n 2&top=7&fixes=false"]


def test_a_matrix_of_several_pages_is_put_together(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("moorage.cli.explain_live._AT_ONCE", 1)
    row = NodeVerdicts("n1", True)
    whole = msgspec.structs.replace(SHIP, matrix=Matrix((), (row,), 3))
    with answering({POD: plain(whole)}) as server:
        asked = ("explain", "pod", "fleet/ship", "--server", server.url, "--matrix", "-o", "json")
        assert len(json.loads(run(*asked).out)["matrix"]["rows"]) == 3
        assert [request.partition("&offset=")[2] for request in server.asked] == ["", "1", "2"]


def test_a_bare_name_is_looked_for_in_default_and_then_anywhere(run: Run) -> None:
    lines = [
        PodLine(pod, "u", "active") for pod in ("default/a", "fleet/a", "fleet/ship", "navy/b")
    ]
    lines.append(PodLine("fleet/b", "u", "active"))
    answers: dict[str, Answer] = {
        "/explain/v1/pods": plain(PodPage(tuple(lines), len(lines))),
        "/explain/v1/pods/default/a": plain(msgspec.structs.replace(SHIP, pod="default/a")),
        POD: plain(SHIP),
    }
    with answering(answers) as server:
        for name, found in (("a", "default/a"), ("ship", "fleet/ship")):
            done = run("explain", "pod", name, "--server", server.url, "-o", "json")
            assert json.loads(done.out)["pod"] == found
        done = run("explain", "pod", "b", "--server", server.url)
        assert (done.code, done.err.count("\n")) == (1, 1)
        assert "several pods are called b: navy/b, fleet/b; name one in full" in done.err
        done = run("explain", "pod", "kraken", "--server", server.url)
        assert "knows no pod kraken" in done.err


def test_no_list_is_read_where_default_has_the_pod(run: Run) -> None:
    answers: dict[str, Answer] = {
        "/explain/v1/pods/default/ship": plain(SHIP),
        "/explain/v1/decisions": plain(DecisionPage((SUMMARY,))),
        "/explain/v1/decisions/4": plain(DecisionExplanation(SUMMARY, "live")),
    }
    with answering(answers) as server:
        for subject in ("pod", "decision"):
            assert run("explain", subject, "ship", "--server", server.url).code == 3
        assert [request.partition("?")[0] for request in server.asked] == [
            "GET /explain/v1/pods/default/ship",
            "GET /explain/v1/decisions",
            "GET /explain/v1/decisions/4",
        ]
        assert server.asked[1].endswith("?pod=default/ship&limit=1")


def test_a_refusal_to_tell_of_default_is_not_taken_for_a_pod_elsewhere(run: Run) -> None:
    refusal = (403, status(403, "Forbidden", "not you"))
    answers: dict[str, Answer] = {
        "/explain/v1/pods": plain(PodPage((PodLine("fleet/ship", "u", "active"),), 1)),
        "/explain/v1/pods/default/ship": refusal,
        POD: plain(SHIP),
    }
    with answering(answers) as server:
        done = run("explain", "pod", "ship", "--server", server.url)
        assert (done.code, done.out, len(server.asked)) == (1, "", 1)
        assert "does not allow it: not you" in done.err


def test_a_node_is_explained(run: Run) -> None:
    with answering({"/explain/v1/nodes/n1": plain(NodeExplanation("n1", "live"))}) as server:
        done = run("explain", "node", "n1", "--server", server.url)
        assert (done.code, done.out.splitlines()[0]) == (0, "Node n1 has 0 pods; no pod waits.")


@pytest.mark.parametrize(("result", "code"), [("scheduled", 0), ("unschedulable", 3)])
def test_a_decision_is_found_by_its_number_or_its_pod(run: Run, result: str, code: int) -> None:
    summary = msgspec.structs.replace(SUMMARY, result=result)
    answers: dict[str, Answer] = {
        "/explain/v1/decisions": plain(DecisionPage((summary,))),
        "/explain/v1/decisions/4": plain(DecisionExplanation(summary, "live")),
    }
    with answering(answers) as server:
        for which in ("4", "fleet/ship"):
            done = run("explain", "decision", which, "--server", server.url, "-o", "json")
            assert done.code == code, done.err
            assert json.loads(done.out)["decision"]["number"] == 4
        assert "GET /explain/v1/decisions?pod=fleet/ship&limit=1" in server.asked
        assert run("explain", "decision", "--server", server.url).out.split()[:3] == [
            *("NUMBER", "TIME", "POD"),
        ]


@pytest.mark.parametrize("which", ["9" * 5000, "\N{ARABIC-INDIC DIGIT THREE}"])
def test_what_is_no_number_of_a_decision_names_a_pod(run: Run, which: str) -> None:
    answers: dict[str, Answer] = {
        "/explain/v1/decisions": plain(DecisionPage(())),
        "/explain/v1/pods": plain(PodPage((), 0)),
    }
    with answering(answers) as server:
        done = run("explain", "decision", which, "--server", server.url)
        assert (done.code, done.out, done.err.count("\n")) == (1, "", 1)
        assert f"knows no pod {which}" in done.err


def test_a_decision_about_a_bare_name_is_looked_for_everywhere(run: Run) -> None:
    lines = (PodLine("fleet/ship", "u", "active"),)
    answers: dict[str, Answer] = {
        "/explain/v1/decisions": plain(DecisionPage(())),
        "/explain/v1/pods": plain(PodPage(lines, 1)),
    }
    with answering(answers) as server:
        done = run("explain", "decision", "ship", "--server", server.url)
        assert "remembers no decision about pod fleet/ship" in done.err
        assert server.asked[-1] == "GET /explain/v1/decisions?pod=fleet/ship&limit=1"


def test_no_decision_about_a_pod_is_said_in_one_sentence(run: Run) -> None:
    with answering({"/explain/v1/decisions": plain(DecisionPage(()))}) as server:
        done = run("explain", "decision", "fleet/ship", "--server", server.url)
        assert (done.code, done.err.count("\n")) == (1, 1)
        assert "remembers no decision about pod fleet/ship" in done.err


# Who asks.


def test_a_token_is_sent_from_the_flag_or_a_file(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("from-file\n")
    with answering({POD: plain(SHIP)}) as server:
        for flags in (("--token", "from-flag"), ("--token-file", str(file))):
            run("explain", "pod", "fleet/ship", "--server", server.url, *flags)
        sent = [headers.get("Authorization") for headers in server.headers]
        assert sent == ["Bearer from-flag", "Bearer from-file"]


def test_credentials_come_from_the_kubeconfig_but_flags_win(run: Run, tmp_path: Path) -> None:
    document = kubeconfig_for("http://elsewhere:1")
    document["users"] = [{"name": "u", "user": {"token": "from-kubeconfig"}}]
    document["contexts"][0]["context"]["user"] = "u"
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(document))
    with answering({POD: plain(SHIP)}) as server:
        asked = ("explain", "pod", "fleet/ship", "--server", server.url, "--kubeconfig", str(path))
        run(*asked)
        run(*asked, "--token", "from-flag")
        sent = [headers.get("Authorization") for headers in server.headers]
        assert sent == ["Bearer from-kubeconfig", "Bearer from-flag"]


def test_certificates_are_checked_and_shown(run: Run, tmp_path: Path) -> None:
    authority, other, clients = trustme.CA(), trustme.CA(), trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.crt")
    other.cert_pem.write_to_path(tmp_path / "other.crt")
    mine = clients.issue_cert(common_name="me")
    mine.private_key_pem.write_to_path(tmp_path / "me.key")
    mine.cert_chain_pems[0].write_to_path(tmp_path / "me.crt")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    clients.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    me = (
        "--client-certificate",
        str(tmp_path / "me.crt"),
        "--client-key",
        str(tmp_path / "me.key"),
    )
    with answering({POD: plain(SHIP)}, context) as server:
        asked = ("explain", "pod", "fleet/ship", "--server", server.url)
        trusting = ("--certificate-authority", str(tmp_path / "ca.crt"))
        assert run(*asked, *trusting, *me).code == 3
        assert run(*asked, "--insecure-skip-tls-verify", *me).code == 3
        for flags in ((), ("--certificate-authority", str(tmp_path / "other.crt"))):
            done = run(*asked, *flags, *me)
            assert (done.code, done.err.count("\n")) == (1, 1)
            assert "--certificate-authority says whom to trust" in done.err


# What may go wrong.


@pytest.mark.parametrize(
    ("answer", "named"),
    [
        ((401, status(401, "Unauthorized")), "does not accept the credentials of the flags"),
        (
            (403, status(403, "Forbidden", 'User "x" cannot get path')),
            'does not allow it: User "x" cannot get path',
        ),
        ((404, status(404, "NotFound", 'pods "ship" not found')), 'answers: pods "ship" not found'),
        ((404, "404 page not found"), "is no scheduler of Moorage, or an older one"),
        (
            (404, status(404, "NotFound", "the server could not find the requested resource")),
            "has no /explain/v1: it is no scheduler of Moorage, or an older one",
        ),
        ((503, status(503, "ServiceUnavailable", "Not yet.")), "answers: Not yet."),
        ((500, "oops"), "500"),
        ((200, "<html>"), "unreadably"),
        ({"pod": 7}, "unreadably"),
        (plain(msgspec.structs.replace(SHIP, schema="moorage.explain/v2")), "moorage.explain/v2"),
    ],
)
def test_what_the_scheduler_says_is_one_sentence(run: Run, answer: Answer, named: str) -> None:
    with answering({POD: answer}) as server:
        done = run("explain", "pod", "fleet/ship", "--server", server.url)
        assert (done.code, done.out, done.err.count("\n")) == (1, "", 1)
        assert server.url in done.err
        assert named in done.err


def test_an_api_server_is_no_scheduler_also_for_a_bare_name(run: Run) -> None:
    answer = (404, status(404, "NotFound", "the server could not find the requested resource"))
    with answering({"/explain/v1/pods/default/ship": answer}) as server:
        done = run("explain", "pod", "ship", "--server", server.url)
        assert done.err == (
            f"moorage: error: {server.url} has no /explain/v1: "
            "it is no scheduler of Moorage, or an older one\n"
        )
        assert len(server.asked) == 1


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_server_that_never_answers_is_told_of_in_time(
    run: Run, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    monkeypatch.setattr("moorage.cli.explain_live._PATIENCE", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"{scheme}://127.0.0.1:{silent.getsockname()[1]}"
        done = run("explain", "pod", "fleet/ship", "--server", url)
    assert (done.code, done.out, done.err.count("\n")) == (1, "", 1)
    assert f"the scheduler at {url} does not answer: " in done.err


@pytest.mark.parametrize("server", ["http://127.0.0.1:1", "127.0.0.1:1", "https://127.0.0.1:1"])
def test_a_scheduler_that_does_not_answer_is_one_sentence(run: Run, server: str) -> None:
    done = run("explain", "pod", "fleet/ship", "--server", server)
    assert (done.code, done.out, done.err.count("\n")) == (1, "", 1)
    assert "the scheduler at http" in done.err
    assert "127.0.0.1:1 cannot be reached: " in done.err


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (("--server", "ftp://x"), "not an http or https URL"),
        (("--server", "https://127.0.0.1:99999"), '"https://127.0.0.1:99999" is not'),
        (("--server", "https://127.0.0.1:abc"), '"https://127.0.0.1:abc" is not'),
        (("--server", "https://127.0.0.1:-5"), '"https://127.0.0.1:-5" is not'),
        (("--server", "https://[::1"), '"https://[::1" is not an http or https URL: '),
        (("--server", "https://127.0.0.1:1", "--token-file", "/no/such"), "/no/such"),
        (("--server", "https://127.0.0.1:1", "--certificate-authority", "/no/such"), "/no/such"),
    ],
)
def test_addresses_and_files_that_are_none_are_named(
    run: Run, flags: tuple[str, ...], named: str
) -> None:
    done = run("explain", "pod", "fleet/ship", *flags)
    assert (done.code, done.out, done.err.count("\n")) == (1, "", 1)
    assert named in done.err
