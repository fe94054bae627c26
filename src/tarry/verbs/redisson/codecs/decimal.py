"""How Java writes a Double or a Float: ``Double.toString``.

    0.001 ≤ |x| < 10⁷     plain, with a digit after the point        1.5  100.0  9999999.0
    else                  one digit, point, digits, E, exponent      1.0E7  1.0E-5  1.5E300

The digits are the fewest that read back as the same number, as in Python, and in Java since 19; where one would do,
Java takes the nearest of two (4.9E-324). Older Javas write a needless digit for a few numbers.
"""

from __future__ import annotations

import math
from decimal import Decimal

from tarry.verbs.redisson.values import shortest


def java_decimal(value: float) -> str:
    """The number as Java's ``toString`` writes it."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    text = shortest(value)
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return text
    number = Decimal(text)
    if len(_digits(number)) == 1 and type(value)(float(two := f"{float(value):.1e}")) == value:
        number = Decimal(two)
    digits = _digits(number)
    return f"{'-' * (value < 0)}{digits[0]}.{digits[1:] or '0'}E{number.adjusted()}"


def _digits(number: Decimal) -> str:
    return "".join(map(str, number.as_tuple().digits)).rstrip("0")
