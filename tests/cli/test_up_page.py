"""`moorage up` and its page: where it is told to be, and that it goes with the cluster."""

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from importlib.resources import files

from cli.running import NODE, POD, Run, Write

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(files("moorage") / "..")}


def announced(process: "subprocess.Popen[str]") -> list[str]:
    """Everything said until the cluster is up."""
    assert process.stderr is not None
    lines = []
    for line in process.stderr:
        lines.append(line.strip())
        if line.startswith("Ctrl-C"):
            break
    return lines


def test_up_says_where_its_page_is_and_serves_it_with_the_api(write: Write) -> None:
    manifest = write("c.yaml", f"{NODE}---\n{POD.replace('name: hold', 'name: hold, image: i')}")
    with subprocess.Popen(
        [sys.executable, "-m", "moorage", "up", "-f", manifest],
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    ) as process:
        try:
            lines = announced(process)
            (url,) = (line.split()[-1] for line in lines if line.startswith("Page at "))
            assert url.startswith("http://127.0.0.1:")
            with urllib.request.urlopen(url) as page:
                assert b"<title>Moorage</title>" in page.read()
            with urllib.request.urlopen(f"{url}v1/nodes") as answer:
                nodes = json.load(answer)
            assert [node["node"] for node in nodes["items"]] == ["quay-1"]
            with urllib.request.urlopen(f"{url}v1/config") as answer:
                told = json.load(answer)
            assert told["configuration"]["kind"] == "KubeSchedulerConfiguration"
            assert told["ledger"]["on"] is True
            port = url.removesuffix("/explain/")
            with urllib.request.urlopen(f"{port}/metrics") as answer:
                assert b"scheduler_schedule_attempts_total" in answer.read()
            with urllib.request.urlopen(f"{port}/readyz?verbose") as answer:
                assert b"[+]sched-handler-sync ok" in answer.read()
            with urllib.request.urlopen(f"{port}/configz") as answer:
                assert json.load(answer)["componentconfig"]["kind"] == "KubeSchedulerConfiguration"
            # A stream that is being read does not keep the cluster from ending.
            with urllib.request.urlopen(f"{url}v1/decisions/stream") as stream:
                assert stream.readline()
                process.send_signal(signal.SIGTERM)
                assert process.wait(60) == 0
        finally:
            process.kill()


def test_without_a_page_none_is_announced() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "moorage", "up", "--no-page"],
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    ) as process:
        lines = announced(process)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    assert lines[-1] == "Ctrl-C ends it."
    assert not [line for line in lines if "Page" in line]


def test_a_page_port_in_use_is_said_in_one_sentence(run: Run) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = run("up", "--page-port", str(port))
    assert done.code == 1
    assert done.err.count("\n") == 1
    assert f"no page at port {port}: " in done.err
    assert "address already in use" in done.err


def test_a_page_port_out_of_range_is_wrong_usage(run: Run) -> None:
    done = run("up", "--page-port=65536")
    assert done.code == 2
    assert "expected a port from 0 to 65535" in done.err
