"""Quantities, checked against upstream's notation and an independent decimal reference."""

from decimal import ROUND_CEILING, Context, Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.model.quantity import (
    MAX_VALUE,
    NANO,
    QuantityFormat,
    clamp,
    parse_milli,
    parse_nano,
    quantity_format,
    quantity_text,
    whole,
)

SUFFIXES = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "": Decimal(1),
    "k": Decimal(10**3),
    "M": Decimal(10**6),
    "G": Decimal(10**9),
    "T": Decimal(10**12),
    "P": Decimal(10**15),
    "E": Decimal(10**18),
    "Ki": Decimal(2**10),
    "Mi": Decimal(2**20),
    "Gi": Decimal(2**30),
    "Ti": Decimal(2**40),
    "Pi": Decimal(2**50),
    "Ei": Decimal(2**60),
}


@pytest.mark.parametrize(
    ("text", "milli"),
    [
        pytest.param("1000000n", 1, id="nano"),
        pytest.param("2500u", 3, id="micro rounds up"),
        pytest.param("100m", 100, id="milli"),
        pytest.param("3", 3_000, id="plain"),
        pytest.param("3k", 3_000_000, id="kilo"),
        pytest.param("3M", 3 * 10**9, id="mega"),
        pytest.param("3G", 3 * 10**12, id="giga"),
        pytest.param("3T", 3 * 10**15, id="tera"),
        pytest.param("3P", 3 * 10**18, id="peta"),
        pytest.param("3E", 3 * 10**21, id="exa"),
        pytest.param("3Ki", 3 * 1024 * 1000, id="kibi"),
        pytest.param("3Mi", 3 * 1024**2 * 1000, id="mebi"),
        pytest.param("3Gi", 3 * 1024**3 * 1000, id="gibi"),
        pytest.param("3Ti", 3 * 1024**4 * 1000, id="tebi"),
        pytest.param("3Pi", 3 * 1024**5 * 1000, id="pebi"),
        pytest.param("3Ei", 3 * 1024**6 * 1000, id="exbi"),
    ],
)
def test_every_suffix_scales_the_number(text: str, milli: int) -> None:
    assert parse_milli(text) == milli


@pytest.mark.parametrize(
    ("text", "milli"),
    [
        ("129e6", 129 * 10**9),
        ("129E6", 129 * 10**9),
        ("1e+3", 10**6),
        ("15e-1", 1_500),
        ("1e-3", 1),
        ("1E", 10**21),
        ("0e99", 0),
    ],
)
def test_exponents_scale_the_number_and_a_bare_e_is_exa(text: str, milli: int) -> None:
    assert parse_milli(text) == milli


@pytest.mark.parametrize(
    ("text", "milli"),
    [
        pytest.param("0.1m", 1, id="below a milli"),
        pytest.param("1n", 1, id="a billionth"),
        pytest.param("0.0000000001", 1, id="below a billionth"),
        pytest.param("1.0001", 1_001, id="just above a unit"),
        pytest.param("-0.1m", -1, id="negative, away from zero"),
        pytest.param("0.5Ki", 512_000, id="exact half"),
        pytest.param("1.5Gi", 1536 * 1024**2 * 1000, id="fraction of a binary unit"),
        pytest.param("5.", 5_000, id="no digit after the point"),
        pytest.param(".5", 500, id="no digit before the point"),
        pytest.param("007", 7_000, id="leading zeros"),
        pytest.param("+2", 2_000, id="plus"),
        pytest.param("-2", -2_000, id="minus"),
        pytest.param(" 2 ", 2_000, id="blanks around"),
        pytest.param(2, 2_000, id="an integer of JSON"),
        pytest.param(0.1, 100, id="a float of JSON"),
        pytest.param(1e22, 9_223_372_036_854_775_807_000, id="a huge float"),
    ],
)
def test_fractions_are_rounded_away_from_zero(text: str | int | float, milli: int) -> None:
    assert parse_milli(text) == milli


@pytest.mark.parametrize("text", ["1e30", "100E", "9223372036854775808", "8Ei", "1e999999999"])
def test_amounts_beyond_int64_are_capped(text: str) -> None:
    assert parse_milli(text) == MAX_VALUE * 1000
    assert parse_milli(f"-{text}") == -MAX_VALUE * 1000
    assert clamp(whole(parse_milli(text))) == MAX_VALUE


def test_amounts_of_devices_beyond_int64_are_capped_only_if_they_are_binary() -> None:
    assert parse_nano("20E") == 20 * 10**18 * NANO
    assert parse_nano("1e30") == 10**30 * NANO
    assert parse_nano("8Ei") == MAX_VALUE * NANO


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "abc", "1.1.M", "1+1.0M", "0.1mi", "0.1am", ".5i", "1i", "-3.01i", "-3.01e-",
        "1e", "1e+", "1K", "1ki", "1gi", "1 Gi", "--1", "0x10", "1_000", "1,5", "1e3m", "1Ei3",
        "inf", "nan", "١", "1\n2", "+", "m", ".",
    ],
)  # fmt: skip
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a quantity"):
        parse_milli(text)


def test_a_boolean_is_no_quantity_even_after_one_has_been_parsed() -> None:
    assert parse_milli(1) == 1000
    with pytest.raises(ValueError, match="is not a quantity"):
        parse_milli(True)


@pytest.mark.parametrize(
    ("milli", "units"), [(0, 0), (1, 1), (999, 1), (1000, 1), (1001, 2), (-1, -1), (-1001, -2)]
)
def test_whole_units_are_rounded_away_from_zero(milli: int, units: int) -> None:
    assert whole(milli) == units


def test_nine_decimal_places_are_kept_where_the_api_server_does_not_round() -> None:
    assert parse_nano("1500m") == 1_500_000_000
    assert parse_nano("1n") == 1
    assert parse_nano("0.1n") == 1
    assert parse_nano("1Ki") > parse_nano("1023.999999999")


numbers = st.builds(
    lambda whole_part, fraction: f"{whole_part}.{fraction}" if fraction else whole_part,
    st.from_regex(r"[0-9]{1,20}", fullmatch=True),
    st.from_regex(r"[0-9]{0,12}", fullmatch=True),
)
scales = st.one_of(
    st.sampled_from(sorted(SUFFIXES)),
    st.builds(
        lambda letter, sign, digits: f"{letter}{sign}{digits}",
        st.sampled_from("eE"),
        st.sampled_from(["", "+", "-"]),
        st.integers(0, 25),
    ),
)


@given(sign=st.sampled_from(["", "+", "-"]), number=numbers, scale=scales)
def test_parsing_agrees_with_decimal_arithmetic(sign: str, number: str, scale: str) -> None:
    exact = Context(prec=200)
    factor = SUFFIXES.get(scale)
    if factor is None:
        factor = Decimal(f"1{scale}")
    for parse, steps in ((parse_milli, 1000), (parse_nano, 10**9)):
        size = exact.multiply(exact.multiply(Decimal(number), factor), Decimal(steps))
        rounded = int(size.to_integral_value(ROUND_CEILING, exact))
        capped = parse is parse_milli or scale.endswith("i")
        expected = min(rounded, MAX_VALUE * steps) if capped else rounded
        assert parse(f"{sign}{number}{scale}") == (-expected if sign == "-" else expected)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("0Ki", "0"),
        ("1500m", "1500m"),
        ("2000", "2k"),
        ("0.000000001", "1n"),
        ("64000M", "64G"),
        ("20000P", "20E"),
        ("512Mi", "512Mi"),
        ("0.5Gi", "512Mi"),
        ("1Ki", "1Ki"),
        ("1000Ki", "1000Ki"),
        ("-2048Ki", "-2Mi"),
        ("12e6", "12e6"),
        ("5e-3", "5e-3"),
        ("1E3", "1e3"),
    ],
)
def test_quantities_are_written_as_go_writes_them(text: str, written: str) -> None:
    assert quantity_text(parse_nano(text), quantity_format(text)) == written


@pytest.mark.parametrize(
    ("value", "written"), [(512, "512"), (1000, "1k"), (1024, "1Ki"), (1536, "1536")]
)
def test_small_binary_quantities_are_written_as_decimal_ones(value: int, written: str) -> None:
    assert quantity_text(value * NANO, QuantityFormat.BINARY) == written


@given(st.integers(-(10**25), 10**25), st.sampled_from(QuantityFormat))
def test_quantities_are_written_without_loss(nano: int, form: QuantityFormat) -> None:
    assert parse_nano(quantity_text(nano, form)) == nano
