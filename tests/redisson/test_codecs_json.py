"""JSON is written as Jackson writes it with Redisson's settings, and read without creating what it names."""

from __future__ import annotations

from typing import Any

import pytest

from tarry.errors import BadInput, BodyError
from tarry.verbs.redisson.codecs import codec_for
from tarry.verbs.redisson.values import Bean, Byte, Char, Float, Long, Opaque, Short, java_type
from walked import cases


def json_of(value: Any) -> str:
    return codec_for("json").encode(value).decode()


def test_a_dict_cannot_choose_a_java_class() -> None:
    with pytest.raises(BadInput, match="Bean"):
        json_of({"@class": "java.lang.Runtime", "a": 1})
    with pytest.raises(BadInput, match="class"):
        json_of(Bean("not a name", {}))


def test_a_bean_has_bare_numbers_and_boxes_only_a_long() -> None:
    bean = Bean("com.shop.Order", {"id": 2**40, "boxed": Long(7), "lines": [2**40], "none": None, "m": {"a": 2**40}})
    assert json_of(bean) == (
        '{"@class":"com.shop.Order","id":1099511627776,"boxed":["java.lang.Long",7],'
        '"lines":["java.util.ArrayList",[["java.lang.Long",1099511627776]]],'
        '"m":{"@class":"java.util.HashMap","a":["java.lang.Long",1099511627776]}}'
    )


def test_nested_scalars_carry_their_java_class() -> None:
    value = [b"\1\2\3", Float(0.1), Short(1), Byte(2), Char("c"), None, True, 1.0]
    text = json_of(value)
    assert text == (
        '["java.util.ArrayList",[["[B","AQID"],["java.lang.Float",0.1],["java.lang.Short",1],["java.lang.Byte",2],'
        '["java.lang.Character","c"],null,true,1.0]]'
    )
    assert list(map(java_type, codec_for("json").decode(text.encode()))) == list(map(java_type, value))


def test_unknown_java_values_stay_opaque_in_place() -> None:
    text = (
        b'{"@class":"com.shop.Order","at":["java.util.Date",1700000000000],"sum":["java.math.BigDecimal",1.50],'
        b'"names":["a","b"],"open":{"a":1},"huge":123456789012345678901234567890,"id":7}'
    )
    order = codec_for("json").decode(text)
    assert order["id"] == 7
    assert order["sum"] == Opaque(b'["java.math.BigDecimal",1.50]')
    assert order["open"] == Opaque(b'{"a":1}')
    assert json_of(order) == text.decode()


@pytest.mark.parametrize("foreign", [b"1e999", b"9" * 5000, b"9223372036854775808"], ids=["1e999", "digits", "2**63"])
def test_a_number_beyond_double_and_long_stays_opaque(foreign: bytes) -> None:
    assert codec_for("json").decode(foreign) == Opaque(foreign)


def test_opaque_bytes_inside_of_json_must_be_text() -> None:
    assert json_of([Opaque(b'{"a":1}')]) == '["java.util.ArrayList",[{"a":1}]]'
    with pytest.raises(BadInput, match="Opaque"):
        json_of([Opaque(b"\xff")])


@cases("foreign", [b"NaN", b"[1,]", b"'a'", b"\xff", b'{"a"', b"01", b'"\n"', b" "])
def test_invalid_json_raises_body_error(foreign: bytes) -> None:
    with pytest.raises(BodyError):
        codec_for("json").decode(foreign)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [float("-inf")], {1: "a"}], ids=repr)
def test_values_that_json_cannot_hold_are_refused(value: Any) -> None:
    with pytest.raises(BadInput):
        json_of(value)


@cases(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (0.001, "0.001"),
        (0.00099, "9.9E-4"),
        (1e-5, "1.0E-5"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (-123456789.5, "-1.234567895E8"),
        (1e16, "1.0E16"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (5e-324, "4.9E-324"),
        (1e-323, "9.9E-324"),
        (2e23, "2.0E23"),
    ],
)
def test_a_double_is_written_as_java_writes_it(value: float, text: str) -> None:
    assert json_of(value) == text
    assert codec_for("string").encode(value) == text.encode()


def test_a_float_is_written_with_as_few_digits_as_in_java() -> None:
    said = [json_of(Float(value)) for value in (0.1, 16777216, 3.4028234663852886e38, 1e-45, 1 / 3)]
    assert said == ["0.1", "1.6777216E7", "3.4028235E38", "1.4E-45", "0.33333334"]
