"""The libraries that Kubernetes' CEL environment brings; compared with kube-apiserver."""

import pytest

from moorage.cel import CompileError, Environment, EvaluationError

_TIME = 'timestamp("2023-12-25T10:11:12.345Z")'
_ENVIRONMENT = Environment(
    {"device": "Device"}, objects={"Device": {"attributes": "map(string, map(string, any))"}}
)


def ask(expression: str) -> bool:
    return _ENVIRONMENT.compile(expression).evaluate_bool({"device": {}})


@pytest.mark.parametrize(
    "expression",
    [
        'duration("1h30m") == duration("90m")',
        'duration("1.5s").getMilliseconds() == 1500',
        'duration("-90s").getMinutes() == -1',
        'duration("1h") + duration("1m") > duration("1h")',
        'string(duration("90m")) == "5400s"',
        'string(duration("1.5s")) == "1.5s"',
        'string(duration("1ns")) == "0.000000001s"',
        'int(duration("1s")) == 1000000000',
        'duration("1s").getHours() == 0',
        'timestamp("2023-12-25T10:11:12.345Z").getFullYear() == 2023',
        'timestamp("2023-12-25T10:11:12.345Z").getMonth() == 11',
        'timestamp("2023-12-25T10:11:12.345Z").getDate() == 25',
        'timestamp("2023-12-25T10:11:12.345Z").getDayOfMonth() == 24',
        'timestamp("2023-12-25T10:11:12.345Z").getDayOfWeek() == 1',
        'timestamp("2023-12-25T10:11:12.345Z").getDayOfYear() == 358',
        'timestamp("2023-12-25T10:11:12.345Z").getHours() == 10',
        'timestamp("2023-12-25T10:11:12.345Z").getMinutes() == 11',
        'timestamp("2023-12-25T10:11:12.345Z").getSeconds() == 12',
        'timestamp("2023-12-25T10:11:12.345Z").getMilliseconds() == 345',
        'timestamp("2023-12-25T10:11:12.345Z").getHours("America/New_York") == 5',
        'timestamp("2023-12-25T10:11:12.345Z").getHours("-05:30") == 4',
        'timestamp("2023-12-25T10:11:12.345Z").getHours("+02:00") == 12',
        'timestamp("2023-12-25T10:11:12-05:00").getHours() == 15',
        'string(timestamp("2023-12-25T10:11:12-05:00")) == "2023-12-25T10:11:12-05:00"',
        'string(timestamp("2023-12-25T10:11:12.500Z")) == "2023-12-25T10:11:12.5Z"',
        'timestamp("2023-12-25T10:11:12Z") - timestamp("2023-12-25T10:11:10Z") == duration("2s")',
        'timestamp("2023-12-25T10:11:12Z") + duration("1h") > timestamp("2023-12-25T10:11:12Z")',
        'duration("1h") + timestamp("2023-12-25T10:11:12Z") == timestamp("2023-12-25T11:11:12Z")',
        'timestamp("2023-12-25T10:11:12Z") - duration("1h") == timestamp("2023-12-25T09:11:12Z")',
        'int(timestamp("1970-01-01T00:01:00Z")) == 60',
        'timestamp(60) == timestamp("1970-01-01T00:01:00Z")',
        'type(duration("1s")) == google.protobuf.Duration',
        "type(timestamp(1)) == google.protobuf.Timestamp",
        'type(ip("1.2.3.4")) == net.IP',
        'type(cidr("1.2.3.0/24")) == net.CIDR',
        'ip("192.168.0.1").family() == 4',
        'ip("fe80::1").family() == 6',
        'ip("::1").isLoopback() && ip("127.0.0.1").isLoopback()',
        'ip("0.0.0.0").isUnspecified()',
        'ip("224.0.0.1").isLinkLocalMulticast() && '
        'ip("ff02::1").isLinkLocalMulticast() && !ip("ff05::1").isLinkLocalMulticast()',
        'ip("169.254.1.1").isLinkLocalUnicast() && ip("fe80::1").isLinkLocalUnicast()',
        'ip("192.168.0.1").isGlobalUnicast() && '
        '!ip("255.255.255.255").isGlobalUnicast() && !ip("224.0.0.9").isGlobalUnicast()',
        'ip.isCanonical("::1") && !ip.isCanonical("0:0::1")',
        'isIP("1.2.3.4") && !isIP("1.2.3") && '
        '!isIP("01.2.3.4") && !isIP("fe80::1%eth0") && !isIP("::ffff:1.2.3.4")',
        'string(ip("0:0::1")) == "::1"',
        'ip("1.2.3.4") == cidr("1.2.3.4/32").ip()',
        'cidr("192.168.0.0/24").containsIP("192.168.0.5") && '
        '!cidr("192.168.0.0/24").containsIP(ip("192.168.1.5"))',
        'cidr("192.168.0.0/24").containsCIDR("192.168.0.0/25") && '
        '!cidr("192.168.0.0/25").containsCIDR(cidr("192.168.0.0/24"))',
        'cidr("192.168.0.7/24").prefixLength() == 24',
        'string(cidr("192.168.0.7/24").masked()) == "192.168.0.0/24"',
        'string(cidr("192.168.0.7/24")) == "192.168.0.7/24"',
        'isCIDR("10.0.0.0/8") && !isCIDR("10.0.0.0/33") && '
        '!isCIDR("10.0.0.0") && !isCIDR("10.0.0.0/08")',
        'url("https://user@example.com:80/a b/?k=v&k=w#frag").getHost() == "example.com:80"',
        'url("https://example.com:80/").getHostname() == "example.com"',
        'url("https://[::1]:80/").getHostname() == "::1"',
        'url("https://[::1]:80/").getHost() == "[::1]:80"',
        'url("https://example.com:80/").getPort() == "80"',
        'url("https://example.com/").getPort() == ""',
        'url("https://example.com/path with spaces/").getEscapedPath() == "/path%20with%20spaces/"',
        'url("https://example.com").getEscapedPath() == ""',
        'url("https://example.com/path?k1=a&k2=b&k2=c").getQuery() =='
        ' {"k1": ["a"], "k2": ["b", "c"]}',
        'url("https://example.com/path?key+with+spaces=x%20y").getQue'
        'ry() == {"key with spaces": ["x y"]}',
        'url("/absolute").getScheme() == ""',
        'url("HTTPS://x").getScheme() == "https"',
        'isURL("https://a/b") && !isURL("../relative") && '
        'isURL("/absolute") && !isURL("https://a:b/") && !isURL("")',
        'isURL("mailto:me@example.com")',
        'url("https://a/b") == url("https://a/b")',
        '!format.dns1123Label().validate("my-label").hasValue()',
        'format.dns1123Label().validate("My_Label").value()[0].starts'
        'With("a lowercase RFC 1123 label")',
        'format.dns1123Label().validate("a.b").value() == ["must not contain dots"]',
        '!format.dns1123LabelPrefix().validate("my-label-").hasValue()',
        '!format.dns1123Subdomain().validate("a.b").hasValue() && '
        'format.dns1123Subdomain().validate("a..b").hasValue()',
        '!format.dns1035Label().validate("a1").hasValue() && '
        'format.dns1035Label().validate("1a").hasValue()',
        '!format.qualifiedName().validate("a.b/c").hasValue() && '
        'format.qualifiedName().validate("a/b/c").hasValue()',
        '!format.labelValue().validate("a_b").hasValue() && '
        'format.labelValue().validate("-").hasValue()',
        '!format.uuid().validate("123e4567-e89b-12d3-a456-426614174000").hasValue() && '
        'format.uuid().validate("x").value() == ["does not match the UUID format"]',
        '!format.byte().validate("aGVsbG8=").hasValue() && '
        'format.byte().validate("!").value() == ["invalid base64"]',
        '!format.date().validate("2021-01-31").hasValue() && '
        'format.date().validate("2021-02-31").value() == ["invalid date"]',
        '!format.datetime().validate("2021-01-01T00:00:00Z").hasValue() && '
        'format.datetime().validate("2021-01-01T25:00:00Z").value() == ["invalid datetime"]',
        'format.uri().validate("../x").value() == [\'parse "../x": invalid URI for request\']',
        'format.named("uuid").hasValue() && !format.named("nosuch").hasValue()',
        'format.named("uuid").value().validate("x").hasValue()',
        '"%s is %s".format(["a", "b"]) == "a is b"',
        '"%d%%".format([5]) == "5%"',
        '"%s".format([[1, 2]]) == "[1, 2]"',
        '"%s".format([["a", "b"]]) == \'["a", "b"]\'',
        '"%s".format([{"b": 1, "a": 2}]) == \'{"a":2, "b":1}\'',
        '"%s".format([1.5]) == "1.5"',
        '"%s".format([[1.5]]) == "[1.500000]"',
        '"%s".format([duration("90s")]) == "90s"',
        '"%s".format([[duration("90s")]]) == \'[duration("90s")]\'',
        '"%s".format([true]) == "true" && '
        '"%s".format([null]) == "null" && "%s".format([b"abc"]) == "abc"',
        '"%s".format([type(1)]) == "int"',
        '"%f".format([1234.5]) == "1,234.500000"',
        '"%.2f".format([1234567.891]) == "1,234,567.89"',
        '"%.0f".format([2.5]) == "2"',
        '"%e".format([1052.032911275]) == "1.052033\\u00d710\\u2070\\u00b3"',
        '"%.3e".format([1052.032911275]) == "1.052033\\u00d710\\u2070\\u00b3"',
        '"%.15e".format([1.5]) == "  1.500000\\u00d710\\u2070\\u2070"',
        '"%e".format([0.00012]) == "1.200000\\u00d710\\u207b\\u2070\\u2074"',
        '"%e".format([double("NaN")]) == "   NaN"',
        '"%.3e".format([double("-Infinity")]) == " -\\u221e"',
        'string(1052.032911275) == "1052.032911275"',
        'string(123456789.0) == "1.23456789e+08" && string(100000.0) == "100000"',
        'string(1.0 / 3.0) == "0.3333333333333333" && string(-0.0) == "-0"',
        'string(double("-Infinity")) == "-Inf" && string(double("NaN")) == "NaN"',
        '"%b %b".format([5, -5]) == "101 -101"',
        '"%b".format([true]) == "1"',
        '"%x %X".format([255, 255]) == "ff FF"',
        '"%x".format(["hello"]) == "68656c6c6f"',
        '"%x".format([-255]) == "-ff"',
        '"%o".format([8]) == "10"',
        '"%s %d".format(["a", 1]) == "a 1"',
        '"%s %d".format([dyn("a"), dyn(1)]) == "a 1"',
        '"%f".format(["Infinity"]) == "\\u221e"',
        '"%f".format(["NaN"]) == "NaN"',
        'strings.quote("a\\n\\"b") == "\\"a\\\\n\\\\\\"b\\""',
        "[1, 2, 3].transformList(i, v, i * v) == [0, 2, 6]",
        "[1, 2, 3].transformList(i, v, v > 1, i * v) == [2, 6]",
        "[1, 2, 3].transformMap(i, v, v * 2) == {0: 2, 1: 4, 2: 6}",
        "[1, 2, 3].transformMap(i, v, v != 2, v * 2) == {0: 2, 2: 6}",
        '{"a": "b"}.transformMapEntry(k, v, {v: k}) == {"b": "a"}',
        "[1, 2].all(i, v, v > i) && [1, 2].exists(i, v, i == 1) && "
        "[1, 2].existsOne(i, v, v == 2) && [1, 2].exists_one(i, v, v == 2)",
        '{"a": 1}.transformList(k, v, k) == ["a"]',
        '"abc".matches("a.c")',
        '"abc 123".find("[0-9]+") == "123"',
        '"123 abc 456".findAll("[0-9]+") == ["123", "456"]',
        '"123 abc 456".findAll("[0-9]+", 1) == ["123"]',
        "[1, 3, 2].isSorted() == false && [1, 2].sum() == 3 && "
        "[1, 2].min() == 1 && [1, 2].max() == 2",
        "[1, 2, 1].indexOf(1) == 0 && [1, 2, 1].lastIndexOf(1) == 2",
        '[duration("1s"), duration("2s")].sum() == duration("3s")',
        '[duration("1s"), duration("2s")].max() == duration("2s")',
        "[timestamp(1), timestamp(2)].isSorted()",
        "[1, 2].reverse() == [2, 1] && lists.range(3) == [0, 1, 2] && "
        "[1, 1].distinct() == [1] && [[1], [2]].flatten() == [1, 2]",
        '["b", "a"].sortBy(x, x) == ["a", "b"]',
        "[3, 1].sortBy(x, -x) == [3, 1]",
        "[1, 2].first().value() == 1 && [1, 2].last().value() == 2",
        "optional.of(1).optMap(x, x + 1).value() == 2",
        "[1, ?optional.none()] == [1]",
        '{?"a": optional.of(1)} == {"a": 1}',
        'quantity("1Gi").isGreaterThan(quantity("1G"))',
        'semver("1.2.3") == semver("1.2.3") && semver("v1.2", true).minor() == 2',
        "sets.intersects([1], [1, 2])",
        '1.5 == 1.5 && string(1.5) == "1.5" && string(1e20) == "1e+20"',
        'string(1000000.0) == "1e+06"',
        'string(100000.0) == "100000"',
        'string(0.1) == "0.1"',
        '"a,b".split(",", 1) == ["a,b"]',
        'string(b"abc") == "abc" && bytes("abc") == b"abc"',
        'timestamp("2023-12-25T10:11:12Z") < timestamp("2023-12-26T10:11:12Z") && '
        'duration("1s") <= duration("1s")',
        "null == null && type(null) == null_type",
        "[[], [1]] == [[], [1]]",
        "optional.unwrap([optional.of(1), optional.none()]) == [1] && "
        "[optional.of(1)].unwrapOpt() == [1]",
        "[].sum() == 0",
        'cel.bind(x, duration("1s"), x > duration("0s"))',
        'google.protobuf.Duration == type(duration("1s"))',
    ],
)
def test_what_the_api_server_finds_true_is_true_here(expression: str) -> None:
    assert ask(expression) is True


@pytest.mark.parametrize(
    ("expression", "complaint"),
    [
        ('duration("bogus") == duration("1s")', "<input>:1:10: invalid duration argument"),
        ('timestamp("yesterday") == timestamp(1)', "<input>:1:11: invalid timestamp argument"),
        ('"abc".matches("(")', "<input>:1:15: invalid matches argument"),
        ('[1, "a"] == [1]', "<input>:1:5: expected type 'int' but found 'string'"),
        (
            '[1, device.attributes["d"].x] == [1, 2]',
            "<input>:1:27: expected type 'int' but found 'any'",
        ),
        (
            'duration("1s") + 1 == duration("2s")',
            "found no matching overload for '_+_' applied to '(duration, int)'",
        ),
        (
            '"%d".format(["a"]) == "a"',
            "error during formatting: decimal clause can only be used on integers, was given",
        ),
        (
            '"%d".format([1, 2]) == "1"',
            "too many arguments supplied to string.format (expected 1, got 2)",
        ),
        ('"%s".format([device.attributes["d"].x]) == "a"', "was given google.protobuf.Any"),
        ('"%d %d".format([1]) == "1"', "index 1 out of range"),
        ('"%q".format([1]) == "1"', 'unrecognized formatting clause "q"'),
        ("[1, 2].all(i, i, i > 0)", "duplicate variable name: i"),
        ('int("x") == 1', "program instantiation failed: type conversion error"),
        ('{"a": 1}.sortBy(x, x) == ["a"]', "<input>:1:1: sortBy can only be applied to a list"),
        ('"tacocat".reverse() == "tacocat"', "found no matching overload for 'reverse'"),
        ("math.greatest(1, 2) == 2", "undeclared reference"),
    ],
)
def test_what_the_api_server_refuses_does_not_compile(expression: str, complaint: str) -> None:
    with pytest.raises(CompileError) as refused:
        _ENVIRONMENT.compile(expression)
    assert complaint in str(refused.value)


@pytest.mark.parametrize(
    ("expression", "complaint"),
    [
        (f'{_TIME}.getHours("Nowhere/Land") == 12', "unknown time zone Nowhere/Land"),
        (
            'timestamp("9999-12-31T23:59:59Z") + duration("1h") > timestamp(1)',
            "timestamp overflow",
        ),
        (
            'ip("1.2.3") == ip("1.2.3.4")',
            'IP Address "1.2.3" parse error during conversion from string: '
            'ParseAddr("1.2.3"): IPv4 address too short',
        ),
        (
            'ip("::ffff:1.2.3.4") == ip("1.2.3.4")',
            'IPv4-mapped IPv6 address "::ffff:1.2.3.4" is not allowed',
        ),
        (
            'url("https://a:b/").getHost() == ""',
            'URL parse error during conversion from string: parse "https://a:b/": '
            'invalid port ":b" after host',
        ),
        (
            "lists.range(1000001).size() == 1",
            "lists.range: size 1000001 exceeds maximum allowed (1000000)",
        ),
        ("lists.range(-1).size() == 0", "lists.range: size must be non-negative, got -1"),
        (
            '{"a": "x", "b": "x"}.transformMapEntry(k, v, {v: k}) == {"x": "a"}',
            "insert failed: key x already exists",
        ),
    ],
)
def test_what_fails_at_run_time_fails_in_the_same_words(expression: str, complaint: str) -> None:
    with pytest.raises(EvaluationError) as failed:
        ask(expression)
    assert str(failed.value) == complaint
