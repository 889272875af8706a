"""CEL expressions and the devices they are asked about."""

import json
from random import Random

from fuzz.corpus import expressions
from fuzz.mutations import QUANTITIES, STRINGS, encode, hostile, mutate_bytes, mutate_json
from fuzz.target import PropertyError, Target, loaded
from moorage.cel import CompileError, EvaluationError
from moorage.errors import DecodeError
from moorage.model.decode import decode_object
from moorage.model.devices import ResourceSlice
from moorage.plugins.dynamic_resources.selectors import DeviceSelectors

_DRIVER = "gpu.example.com"
_SEEDS = (
    'device.attributes["gpu.example.com"].model.matches("^a[0-9]+$")',
    'device.attributes["gpu.example.com"].numa * 2 - 1 == 1 && 7 / 2 == 3 && -7 % 4 == -3',
    'device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0',
    'device.attributes["gpu.example.com"].version.isLessThan(semver("1.6.0"))',
    "[1, 2, 3].map(x, x * 2).filter(x, x > 2) == [4, 6]",
    '"a,b,c".split(",").size() == 3 && ["a", "b"].join("-") == "a-b"',
    '"%s %d %f".format(["a", 1, 1.5]) == "a 1 1.500000"',
    'timestamp("2026-01-01T00:00:00Z") + duration("1h") > timestamp("2025-01-01T00:00:00Z")',
    'cel.bind(a, device.driver, a == "x") || has(device.attributes.x)',
    'url("https://a.b/c?d=e").getQuery()["d"] == ["e"] && ip("1.2.3.4").family() == 4',
    'cidr("10.0.0.0/8").containsIP(ip("10.1.2.3")) && format.dns1123Label().validate("a") == null',
    'string(b"\\xff") == "" || bytes("a").size() == 1 || int("9223372036854775807") > 0',
    'device.attributes["gpu.example.com"].?nosuch.orValue("x") == "x"',
    '"abc".replace("b", "x", -1).substring(1).indexOf("c") == 1 && "x".charAt(0) == "x"',
    '[3, 1, 2].sort()[0] == 1 && sets.contains([1], [1]) && {"a": 1}.all(k, k == "a")',
    '"aaa".find("a+") == "aaa" && "a1b2".findAll("[0-9]", 5).size() == 2',
)
_SLICE = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceSlice",
    "metadata": {"name": "s"},
    "spec": {
        "driver": _DRIVER,
        "nodeName": "n",
        "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
        "devices": [
            {
                "name": "d",
                "attributes": {
                    "model": {"string": "a100"},
                    "numa": {"int": 1},
                    "healthy": {"bool": True},
                    "version": {"version": "1.2.3-rc.1"},
                    "other.example.com/rank": {"ints": [1, 2]},
                },
                "capacity": {"memory": {"value": "40Gi"}},
            }
        ],
    },
}
_TOKENS = (
    "&&", "||", "!", "(", ")", "[", "]", "{", "}", ",", ".", "?", ":", "==", "<=", "in", "+", "-",
    "*", "/", "%", "0x", "1u", "1e400", "9223372036854775808", "-9223372036854775808", "null",
    "true", "'a'", 'r"\\"', "b'\\777'", '"\\ud800"', "x", "device", "type(", "dyn(", "size(",
    "has(", ".all(x, ", ".map(x, ", ".matches('(a*)*b')", "\0", "//", "'''", "int(", "duration(",
    "double(", "uint(", "timestamp(", "'1' * ", ".sum()", ".format([", ".lowerAscii()",
)  # fmt: skip


class Cel(Target):
    """Compiling and evaluating."""

    name = "cel"

    def __init__(self) -> None:
        self._seeds = list(_SEEDS)

    def prepare(self, random: Random) -> None:
        """Expressions of golden cases too."""
        self._seeds += expressions(random)

    def make(self, random: Random) -> bytes:
        """An expression, and mostly the same device."""
        text = random.choice(self._seeds)
        for _ in range(random.choice((1, 1, 2, 4))):
            text = self._changed(text, random)
        offered = mutate_json(_SLICE, random) if random.random() < 0.2 else _SLICE
        return encode({"expression": text[:20_000], "slice": offered})

    def _changed(self, text: str, random: Random) -> str:
        at = random.randrange(len(text) + 1)
        match random.randrange(6):
            case 0:
                raw = mutate_bytes(text.encode(errors="replace"), random)
                return raw.decode(errors="replace")
            case 1:
                return text[:at] + random.choice(_TOKENS) + text[at:]
            case 2:
                joined = random.choice(("&&", "||", "==", "+"))
                return f"{text} {joined} ({random.choice(self._seeds)})"
            case 3:
                value = random.choice((hostile(random), random.choice(QUANTITIES)))
                shown = json.dumps(str(value)[:5000])
                name = random.choice(("quantity", "semver", "timestamp", "url", "ip", "string", ""))
                return f"{text[:at]}{name}({shown}){text[at:]}"
            case 4:
                other = random.choice(self._seeds)
                return text[:at] + other[random.randrange(len(other) + 1) :]
            case _:
                return text.replace(random.choice(text or " "), random.choice(STRINGS)[:50], 1)

    def check(self, data: bytes) -> None:
        """Compiled and evaluated, or refused on account of the expression."""
        asked = loaded(data)
        if not isinstance(asked, dict) or not isinstance(asked.get("expression"), str):
            return
        if not asked["expression"].isascii() and "\\ud" in ascii(asked["expression"]):
            return  # no API server sends a lone surrogate
        selectors = DeviceSelectors()
        try:
            offered = decode_object(encode(asked.get("slice")), "slice")
        except (DecodeError, RecursionError):
            return
        if not isinstance(offered, ResourceSlice):
            return
        try:
            selector = selectors.compile(asked["expression"])
        except CompileError:
            return
        for device in offered.spec.devices:
            try:
                variables = selectors.variables(device, offered.spec.driver)
                found = selector.evaluate_bool(variables)
                if type(found) is not bool:
                    raise PropertyError(f"the answer is {found!r}")
            except EvaluationError:
                continue


TARGET = Cel
