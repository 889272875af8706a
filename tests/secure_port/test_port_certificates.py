"""Serving certificates: made, read, replaced while serving, chosen by name, or refused."""

import asyncio
import os
import socket
import ssl
import stat
from pathlib import Path

import pytest
import trustme
from cryptography import x509

from kube.fake_api import run
from moorage.errors import InputError
from moorage.http.certificates import new_pair, serving_pair
from moorage.http.endpoints import Endpoints
from moorage.http.options import (
    AuthenticationOptions,
    AuthorizationOptions,
    ServingOptions,
    SniCertificate,
)
from moorage.http.secure_port import SecurePort, open_listener
from moorage.http.tls import tls_settings
from secure_port.port import Port, client_context, loopback_port, open_port, serving_files


def _names(der: bytes) -> list[str]:
    certificate = x509.load_der_x509_certificate(der)
    found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    addresses = found.get_values_for_type(x509.IPAddress)
    return [*found.get_values_for_type(x509.DNSName), *map(str, addresses)]


def test_without_flags_a_certificate_for_localhost_is_made_in_memory() -> None:
    async def scenario() -> None:
        async with open_port(self_made=True) as port:
            assert _names(await port.certificate()) == ["localhost", "127.0.0.1"]
            assert (await port.ask("/healthz"))[:2] == (200, "ok")

    run(scenario())


def test_the_address_served_on_is_in_the_certificate_that_is_made() -> None:
    leaf = new_pair("10.1.2.3").leaf()
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(a) for a in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1", "10.1.2.3"]


def test_a_client_that_trusts_the_made_authority_accepts_the_certificate() -> None:
    async def scenario() -> None:
        pair = new_pair("127.0.0.1")
        async with open_port() as port:
            assert port.server._tls is not None
            port.server._tls._pair = lambda: pair  # the one we know the authority of
            assert port.server.reload()
            context = ssl.create_default_context(cadata=pair.certificate.decode())
            assert (await port.ask("/livez", context=context))[0] == 200

    run(scenario())


def test_cert_dir_keeps_the_certificate_for_the_next_start(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "certs"
    options = ServingOptions(cert_dir=str(folder))
    first = serving_pair(options)()
    assert sorted(os.listdir(folder)) == ["kube-scheduler.crt", "kube-scheduler.key"]
    assert stat.S_IMODE((folder / "kube-scheduler.key").stat().st_mode) == 0o600
    assert serving_pair(options)() == first


def test_half_a_pair_in_cert_dir_is_refused(tmp_path: Path) -> None:
    (tmp_path / "kube-scheduler.crt").write_text("x")
    with pytest.raises(InputError, match="certificate and key must be supplied as a pair"):
        serving_pair(ServingOptions(cert_dir=str(tmp_path)))


def test_cert_dir_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    folder = tmp_path / "file"
    with pytest.raises(InputError) as caught:
        serving_pair(ServingOptions(cert_dir=str(folder)))
    expected = f"error creating self-signed certificates: mkdir {folder}: not a directory"
    assert str(caught.value) == expected


def test_replaced_files_are_served_to_new_connections_and_old_ones_live_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        ca = trustme.CA()
        files = serving_files(tmp_path, ca, "one.example")
        async with open_port(cert_file=files.cert, key_file=files.key) as port:
            old_reader, old_writer = await asyncio.open_connection(
                "127.0.0.1", port.server.port, ssl=client_context()
            )
            assert _names(await port.certificate()) == ["one.example"]
            assert not port.server.reload()
            serving_files(tmp_path, ca, "two.example")
            assert port.server.reload()
            assert _names(await port.certificate()) == ["two.example"]
            old_writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert (await old_reader.read()).endswith(b"ok")
            old_writer.close()
            await old_writer.wait_closed()

    run(scenario())


def test_bad_replacements_leave_the_good_certificate_in_place(tmp_path: Path) -> None:
    async def scenario() -> None:
        files = serving_files(tmp_path, trustme.CA(), "one.example")
        async with open_port(cert_file=files.cert, key_file=files.key) as port:
            good = await port.certificate()
            Path(files.cert).write_text("half written")
            with pytest.raises(InputError, match="failed to find any PEM data in certificate"):
                port.server.reload()
            assert await port.certificate() == good

    run(scenario())


def test_names_choose_the_certificate_and_explicit_names_go_first(tmp_path: Path) -> None:
    ca = trustme.CA()
    main = serving_files(tmp_path, ca, "main.example", stem="main")
    shop = serving_files(tmp_path, ca, "shop.example", "*.shop.example", stem="shop")
    other = serving_files(tmp_path, ca, "other.example", stem="other")
    sni = (
        SniCertificate(*shop),
        SniCertificate(*other, names=("shop.example", "*.wild.example")),
    )
    expected = {
        "main.example": "main.example",
        "shop.example": "other.example",
        "a.shop.example": "shop.example",
        "A.Shop.Example": "shop.example",
        "x.y.shop.example": "main.example",
        "b.wild.example": "other.example",
        "wild.example": "main.example",
    }

    async def scenario() -> None:
        async with open_port(cert_file=main.cert, key_file=main.key, sni=sni) as port:
            served = {name: _names(await port.certificate(name))[0] for name in expected}
            assert served == expected
            serving_files(tmp_path, ca, "shop.example", "newer.example", stem="shop")
            assert port.server.reload()
            assert "newer.example" in _names(await port.certificate("newer.example"))

    run(scenario())


@pytest.mark.parametrize(
    ("cert", "key", "expected"),
    [
        ("tls.crt", "", "missing filename for serving cert"),
        ("", "tls.key", "missing filename for serving cert"),
        ("nope", "tls.key", "open nope: no such file or directory"),
        ("tls.crt", "nope", "open nope: no such file or directory"),
        (".", "tls.key", "read .: is a directory"),
        ("bad", "tls.key", "tls: failed to find any PEM data in certificate input"),
        ("tls.crt", "bad", "tls: failed to find any PEM data in key input"),
        ("tls.crt", "other.key", "tls: private key does not match public key"),
        (
            "tls.crt",
            "ca.crt",
            "tls: found a certificate rather than a key in the PEM for the private key",
        ),
        (
            "tls.key",
            "tls.key",
            "tls: failed to find certificate PEM data in certificate input, but did find a private"
            " key; PEM inputs may have been switched",
        ),
        ("tls.crt", "empty", 'missing content for serving cert "serving-cert::tls.crt::empty"'),
        ("tls.crt", "odd", "tls: failed to parse private key"),
    ],
)
def test_unusable_files_are_refused_in_upstream_s_words(
    cert: str, key: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ca = trustme.CA()
    serving_files(tmp_path, ca, "one.example")
    serving_files(tmp_path, ca, "two.example", stem="other")
    (tmp_path / "ca.crt").write_bytes(ca.cert_pem.bytes())
    (tmp_path / "bad").write_text("garbage\n")
    (tmp_path / "empty").write_text("")
    (tmp_path / "odd").write_text("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as caught:
        loopback_port(cert_file=cert, key_file=key)
    assert str(caught.value) == expected


def test_unusable_sni_files_say_that_they_are_those(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        loopback_port(sni=(SniCertificate(f"{tmp_path}/no.crt", f"{tmp_path}/no.key"),))
    told = f"failed to load SNI cert and key: open {tmp_path}/no.crt: no such file or directory"
    assert str(caught.value) == told


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"min_version": "VersionTLS9"}, 'unknown tls version "VersionTLS9"'),
        (
            {"cipher_suites": ("TLS_AES_128_GCM_SHA256", "NOPE")},
            "Cipher suite NOPE not supported or doesn't exist",
        ),
        (
            {"curve_preferences": (1,)},
            "curve preference 1 is not supported by the current Go version",
        ),
        ({"curve_preferences": (29, 23, 29)}, "duplicate curve preference 29"),
        (
            {"curve_preferences": (99999,)},
            "curve preference 99999 is out of range (must be 1-65535)",
        ),
        (
            {"curve_preferences": (4588,)},
            "--tls-curve-preferences: Python's ssl module can use only 23, 24, 25 and 29; name at"
            " least one of them",
        ),
    ],
)
def test_unknown_tls_settings_are_refused(options: dict[str, object], expected: str) -> None:
    with pytest.raises(InputError) as caught:
        tls_settings(ServingOptions(**options))  # type: ignore[arg-type]
    assert str(caught.value) == expected


def _negotiated(port: Port, context: ssl.SSLContext) -> tuple[str, str]:
    with (
        socket.create_connection(("127.0.0.1", port.server.port), timeout=10) as plain,
        context.wrap_socket(plain) as secure,
    ):
        cipher = secure.cipher()
        assert cipher is not None
        return str(secure.version()), cipher[0]


def test_the_minimum_version_and_the_cipher_suites_are_kept() -> None:
    async def scenario() -> None:
        old = client_context()
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        suites = ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",)
        async with open_port(cipher_suites=suites) as port:
            found = await asyncio.to_thread(_negotiated, port, old)
            assert found == ("TLSv1.2", "ECDHE-RSA-AES256-GCM-SHA384")
        async with open_port(min_version="VersionTLS13") as port:
            assert (await asyncio.to_thread(_negotiated, port, client_context()))[0] == "TLSv1.3"
            with pytest.raises(ssl.SSLError):
                await asyncio.to_thread(_negotiated, port, old)

    run(scenario())


def test_insecure_suites_are_allowed_by_name_and_warned_about() -> None:
    made = tls_settings(ServingOptions(cipher_suites=("TLS_RSA_WITH_AES_128_CBC_SHA",)))
    assert made.ciphers == "AES128-SHA"
    assert made.warnings == ("Use of insecure cipher 'TLS_RSA_WITH_AES_128_CBC_SHA' detected.",)


def test_one_curve_of_several_is_used_and_the_rest_is_said_to_be_ignored() -> None:
    made = tls_settings(ServingOptions(curve_preferences=(25, 23)))
    assert made.curve == "prime256v1"
    assert "only 23 is used" in made.warnings[0]

    async def scenario() -> None:
        async with open_port(curve_preferences=(24,)) as port:
            other = client_context()
            other.set_ecdh_curve("prime256v1")
            with pytest.raises(ssl.SSLError):
                await asyncio.to_thread(_negotiated, port, other)
            same = client_context()
            same.set_ecdh_curve("secp384r1")
            assert await asyncio.to_thread(_negotiated, port, same)

    run(scenario())


def test_old_versions_are_served_to_those_who_ask_for_them_by_name() -> None:
    made = tls_settings(ServingOptions(min_version="VersionTLS10"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.apply(context)
    assert context.minimum_version == ssl.TLSVersion.TLSv1


def test_a_taken_port_is_refused_in_upstream_s_words() -> None:
    with open_listener(ServingOptions(bind_address="127.0.0.1", secure_port=0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InputError) as caught:
            SecurePort(ServingOptions(bind_address="127.0.0.1", secure_port=port))
    assert str(caught.value) == (
        f"failed to create listener: failed to listen on 127.0.0.1:{port}:"
        f" listen tcp 127.0.0.1:{port}: bind: address already in use"
    )


def test_a_foreign_address_is_refused_in_upstream_s_words() -> None:
    with pytest.raises(InputError, match="bind: cannot assign requested address"):
        open_listener(ServingOptions(bind_address="203.0.113.7", secure_port=0))


def test_a_port_can_be_shared_where_both_say_so() -> None:
    first = open_listener(
        ServingOptions(bind_address="127.0.0.1", secure_port=0, permit_port_sharing=True)
    )
    port = first.getsockname()[1]
    shared = ServingOptions(bind_address="127.0.0.1", secure_port=port, permit_port_sharing=True)
    with first, open_listener(shared) as second:
        assert second.getsockname()[1] == port


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="no IPv6 here")
def test_the_unspecified_address_serves_both_families() -> None:
    with open_listener(ServingOptions(bind_address="0.0.0.0", secure_port=0)) as made:
        port = made.getsockname()[1]
        for host in ("127.0.0.1", "::1"):
            socket.create_connection((host, port), timeout=5).close()


def test_a_port_that_cannot_be_guarded_is_given_back(tmp_path: Path) -> None:
    with open_listener(ServingOptions(bind_address="127.0.0.1", secure_port=0)) as probe:
        port = probe.getsockname()[1]
    options = ServingOptions(bind_address="127.0.0.1", secure_port=port)
    with pytest.raises(InputError, match="unable to load client CA provider"):
        SecurePort(options, AuthenticationOptions(client_ca_file="/nope"), AuthorizationOptions())
    open_listener(options).close()


def test_a_new_client_authority_is_asked_for_without_waiting(tmp_path: Path) -> None:
    async def scenario() -> None:
        old, new = trustme.CA(), trustme.CA()
        file = tmp_path / "ca.crt"
        file.write_bytes(old.cert_pem.bytes())
        whole = SecurePort(
            ServingOptions(bind_address="127.0.0.1", secure_port=0),
            AuthenticationOptions(client_ca_file=str(file)),
            env={},
        )
        await whole.start(Endpoints, lambda: None)
        assert whole._tls is not None
        assert whole.authentication is not None
        served = whole._tls._served
        file.write_bytes(new.cert_pem.bytes())
        whole.authentication.reload_files()
        while whole._tls._served is served:
            await asyncio.sleep(0)
        boss = client_context(new, "boss", ["system:masters"])
        assert (await Port(whole).ask("/configz", context=boss))[:2] == (200, "{}")
        await whole.stop()

    run(scenario())
