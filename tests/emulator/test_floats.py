"""Exact arithmetic against Python's fractions and NumPy's long double."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.emulator import floats
from labkit.emulator.alu import TABLE
from labkit.emulator.lifting import lift

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


def normal(x: float) -> float:
    """Flushed: a subnormal float32 becomes zero of its sign."""
    return float(np.copysign(0.0, x)) if abs(x) < 2.0**-126 else x


def fused(a: float, b: float, c: float, ftz: bool) -> float:
    """a · b + c by fractions, rounded once, after the rules of IEEE 754 for infinities and the sign of zero."""
    if ftz:
        a, b, c = normal(a), normal(b), normal(c)
    if not np.isfinite([a, b, c]).all():
        return a * b + c  # double holds these products, so that only the infinities and NaNs decide
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return a * b + c if a == 0 or b == 0 else 0.0
    rounded = nearest(exact, np.float32) or (0.0 if exact > 0 else -0.0)
    return normal(rounded) if ftz else rounded


def bits_of(x: np.ndarray) -> np.ndarray:
    """The bit patterns, all NaNs alike."""
    return np.where(np.isnan(x), np.uint32(0x7FC00000), x.view(np.uint32))


# Few significant bits and exponents close together: products and sums that lie on ties, or just beside them.
SPARSE = st.builds(
    lambda sign, high, low, e: sign * (1 + high * 2.0**-12 + low * 2.0**-23) * 2.0**e,
    st.sampled_from([1, -1]), st.sampled_from([0, 1, 2, 2**11, 2**12 - 1]), st.sampled_from([0, 1, 3]),
    st.sampled_from([-126, -125, -64, -63, -62, -61, -37, -25, -24, -12, -1, 0, 1, 12, 24, 63, 127]))  # fmt: skip
EDGES = st.sampled_from([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 2.0**-149, -(2.0**-140), 2.0**-126,
                         2.0**-126 * (1 - 2**-23), float(np.finfo(np.float32).max)])  # fmt: skip
ANY = SPARSE | EDGES | st.integers(1, 64).map(float) | st.floats(width=32)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(ANY, ANY, ANY), min_size=1, max_size=24), st.integers(0, 60), st.booleans())
def test_fma32_of_many_threads(triples: list[tuple[float, float, float]], plain: int, ftz: bool) -> None:
    """Ties, subnormals, infinities, NaNs and signed zeros, alone or among threads that have none of them."""
    triples = triples + [(1 / 3, 2 / 3, 1 / 7)] * plain
    a, b, c = (np.array([column], np.float32) for column in zip(*triples, strict=True))
    f = lift(TABLE["fma"][0], ("rn", "ftz") if ftz else ("rn",), "f32")
    with np.errstate(all="ignore"):
        got = f(a, b, c)
        want = [fused(*(float(v) for v in row), ftz) for row in zip(a[0], b[0], c[0], strict=True)]
    assert (bits_of(got) == bits_of(np.array([want], np.float32))).all()


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(ANY, ANY), min_size=1, max_size=8), st.lists(ANY, min_size=1, max_size=4))
def test_fma32_of_unlike_shapes(pairs: list[tuple[float, float]], factors: list[float]) -> None:
    """What is alike in all blocks or threads is kept once, and the result does not depend on it."""
    b, c = (np.array([column], np.float32) for column in zip(*pairs, strict=True))
    a = np.array(factors, np.float32)[:, None]
    with np.errstate(all="ignore"):
        whole = floats.fma32(*(np.ascontiguousarray(x) for x in np.broadcast_arrays(a, b, c)))
        assert (bits_of(floats.fma32(a, b, c)) == bits_of(whole)).all()


@given(st.lists(ANY, min_size=1, max_size=40))
def test_flushing_finds_every_subnormal_number(values: list[float]) -> None:
    x = np.array([values], np.float32)
    assert floats.has_subnormal(x) == any(0 < abs(v) < 2.0**-126 for v in x[0].tolist())
    assert (bits_of(floats.flush(x)) == bits_of(np.array([[normal(v) for v in x[0].tolist()]], np.float32))).all()


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
