"""Which proxy a URL goes through, by the rules of Go's `ProxyFromEnvironment`.

Reads the variables it is given; knows nothing of kubeconfig's `proxy-url`, which goes before them.
How a proxy is spoken to is `proxy_tunnel`'s.
"""

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit

from moorage.errors import KubeconfigError
from moorage.kube.access import url_problem
from moorage.redaction import redacted_url


def proxy_for(url: str, env: Mapping[str, str]) -> str | None:
    """The proxy of HTTPS_PROXY or HTTP_PROXY unless NO_PROXY or a loopback host forbids it."""
    parts = urlsplit(url)
    name = "HTTPS_PROXY" if parts.scheme == "https" else "HTTP_PROXY"
    proxy = env.get(name) or env.get(name.lower()) or ""
    if not proxy or not parts.hostname:
        return None
    port = str(parts.port or (443 if parts.scheme == "https" else 80))
    exceptions = env.get("NO_PROXY") or env.get("no_proxy") or ""
    if _is_loopback(parts.hostname) or _is_excepted(parts.hostname, port, exceptions):
        return None
    return usable_proxy(proxy)


def usable_proxy(proxy: str) -> str:
    """The proxy as a URL."""
    url = proxy if "://" in proxy else f"http://{proxy}"
    if wrong := url_problem(url):
        raise KubeconfigError(f"the proxy {redacted_url(proxy)} is not a URL: {wrong}")
    if urlsplit(url).scheme not in ("http", "https"):
        raise KubeconfigError(
            f"the proxy {redacted_url(proxy)}: only http and https proxies can be used"
        )
    return url


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    address = _address(host)
    return address is not None and address.is_loopback


def _is_excepted(host: str, port: str, exceptions: str) -> bool:
    address = _address(host)
    for item in (part.strip().lower() for part in exceptions.split(",")):
        if item == "*":
            return True
        if not item:
            continue
        if "/" in item:
            if address is not None and address in (_network(item) or ()):
                return True
            continue
        name, _, wanted_port = item.rpartition(":") if item.count(":") == 1 else (item, "", "")
        if wanted_port and wanted_port != port:
            continue
        if _matches(host.lower(), name):
            return True
    return False


def _matches(host: str, name: str) -> bool:
    """`example.com` covers itself and what is below; `.example.com` only what is below."""
    name = name.removeprefix("*") if name.startswith("*.") else name
    if name.startswith("."):
        return host.endswith(name)
    return host == name.strip("[]") or host.endswith("." + name)


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None
