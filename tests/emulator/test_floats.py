"""Exact arithmetic against Python's fractions and NumPy's long double."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.emulator import floats

BITS32 = st.integers(0, 2**32 - 1)
BITS64 = st.integers(0, 2**64 - 1)


def f32(bits: int) -> np.ndarray:
    return np.array([[bits]], np.uint32).view(np.float32)


def f64(bits: int) -> np.ndarray:
    return np.array([[bits]], np.uint64).view(np.float64)


def nearest(x: Fraction, dtype: type) -> float:
    """The nearest number of `dtype`, ties to even, by looking at the neighbours."""
    try:
        guess = dtype(float(x))
    except OverflowError:
        guess = dtype(np.inf if x > 0 else -np.inf)
    top = np.finfo(dtype).max
    near = [np.nextafter(guess, dtype(-np.inf)), guess, np.nextafter(guess, dtype(np.inf))]
    near = [v for v in near if np.isfinite(v)]
    best = min(near, key=lambda v: (abs(Fraction(float(v)) - x), int(np.asarray(v).view(f"u{v.itemsize}")) & 1))
    limit = Fraction(float(top)) + (Fraction(float(top)) - Fraction(float(np.nextafter(top, dtype(0))))) / 2
    return float(best) if abs(x) < limit else float(np.copysign(np.inf, 1 if x > 0 else -1))


@settings(max_examples=300, deadline=None)
@given(BITS32, BITS32, BITS32)
def test_fma32_is_rounded_once(a: int, b: int, c: int) -> None:
    x, y, z = f32(a), f32(b), f32(c)
    with np.errstate(all="ignore"):
        got = floats.fma32(x, y, z)[0, 0]
    if not (np.isfinite(x) & np.isfinite(y) & np.isfinite(z)).all():
        return
    exact = Fraction(float(x[0, 0])) * Fraction(float(y[0, 0])) + Fraction(float(z[0, 0]))
    assert float(got) == nearest(exact, np.float32)


@pytest.mark.parametrize("a, b, c, want", [
    (1 + 2**-23, 1 + 2**-23, 2**-60, 1 + 2**-22 + 2**-23 * 0),  # just above no tie
    (1 + 2**-12, 1 + 2**-12, 2.0**-60, 1 + 2**-11 + 2**-23),    # a tie in float that the tiny c breaks upward
    (1 + 2**-12, 1 + 2**-12, -(2.0**-60), 1 + 2**-11),          # … and downward
])  # fmt: skip
def test_fma32_ties(a: float, b: float, c: float, want: float) -> None:
    args = (np.array([[v]], np.float32) for v in (a, b, c))
    assert floats.fma32(*args)[0, 0] == np.float32(want)


@settings(max_examples=300, deadline=None)
@given(BITS64, BITS64, BITS64)
def test_fma64_is_rounded_once(a: int, b: int, c: int) -> None:
    x, y, z = f64(a), f64(b), f64(c)
    with np.errstate(all="ignore"):
        got = floats.fma64(x, y, z)[0, 0]
    if not (np.isfinite(x) & np.isfinite(y) & np.isfinite(z)).all():
        return
    exact = Fraction(float(x[0, 0])) * Fraction(float(y[0, 0])) + Fraction(float(z[0, 0]))
    assert float(got) == nearest(exact, np.float64)


@settings(max_examples=200, deadline=None)
@given(st.floats(-1e3, 1e3), st.floats(-1e3, 1e3), st.floats(-1e3, 1e3))
def test_fma64_of_like_sizes(a: float, b: float, c: float) -> None:
    got = floats.fma64(*(np.array([[v]]) for v in (a, b, c)))[0, 0]
    assert float(got) == nearest(Fraction(a) * Fraction(b) + Fraction(c), np.float64)


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(["add", "mul", "div"]),
    st.floats(-1e6, 1e6, width=32),
    st.floats(0.0009765625, 1e6, width=32),
)
def test_directed_rounding_brackets_the_exact_result(op: str, a: float, b: float) -> None:
    exact = {
        "add": Fraction(a) + Fraction(b),
        "mul": Fraction(a) * Fraction(b),
        "div": Fraction(a) / Fraction(b),
    }[op]
    x, y = np.array([[a]], np.float32), np.array([[b]], np.float32)
    down, up, zero = (float(floats.rounded(op, m, x, y)[0, 0]) for m in ("rm", "rp", "rz"))
    assert Fraction(down) <= exact <= Fraction(up)
    assert up == down or np.nextafter(np.float32(down), np.float32(np.inf)) == np.float32(up)
    assert zero == (down if exact > 0 else up)


@settings(max_examples=200, deadline=None)
@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_bfloat16_is_the_nearest(a: float) -> None:
    x = np.array([[a]], np.float32)
    got = floats.from_bf16(floats.to_bf16(x))[0, 0]
    step = floats.from_bf16(floats.to_bf16(x) ^ np.uint16(1))[0, 0]
    if np.isfinite(got) and np.isfinite(step):
        assert abs(float(got) - a) <= abs(float(step) - float(got))
