"""Arguments are matched to the signature, converted, or refused by name."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit import LabError
from labkit.arguments import bind, declared_types, host_buffer, without_comments

SOURCE = """
// a comment with __global__ void k(int wrong)
extern "C" __global__ void k(const float* __restrict__ a, double *out, unsigned int n, float s, int m)
{ }
"""


@dataclass
class Param:
    type: str
    size: int


PARAMS = [Param("u64", 8), Param("u64", 8), Param("u32", 4), Param("f32", 4), Param("u32", 4)]
A, OUT = np.zeros(4, np.float32), np.zeros(4)


def bound(*args):
    return bind("k", PARAMS, declared_types(SOURCE, "k"), args)


def test_declarations_are_read_from_the_source_not_from_comments():
    read = [(d.name, d.type, d.pointer) for d in declared_types(SOURCE, "k")]
    assert read == [
        ("a", "float", True),
        ("out", "double", True),
        ("n", "unsigned int", False),
        ("s", "float", False),
        ("m", "int", False),
    ]


def test_python_numbers_take_the_width_of_the_parameter():
    n, s, m = (b.scalar for b in bound(A, OUT, 7, 2, -1)[2:])
    assert n == np.uint32(7).tobytes()
    assert s == np.float32(2).tobytes()
    assert m == np.int32(-1).tobytes()


@given(st.integers(-(2**70), 2**70))
def test_an_integer_is_passed_exactly_or_refused(value):
    if -(2**31) <= value < 2**31:
        assert int.from_bytes(bound(A, OUT, 0, 0.0, value)[4].scalar, "little", signed=True) == value
    else:
        with pytest.raises(LabError, match="holds"):
            bound(A, OUT, 0, 0.0, value)


@pytest.mark.parametrize(
    ("args", "word"),
    [
        ((A, OUT, 7, 2.0), "takes 5"),
        ((A, OUT, 7.5, 2.0, 1), "fraction"),
        ((A, OUT, np.int64(7), 2.0, 1), "4 B"),
        ((A, OUT, 7, np.float64(2), 1), "numpy.float32"),
        ((7, OUT, 7, 2.0, 1), "pointer"),
        ((A, OUT, A, 2.0, 1), "not a pointer"),
        ((A.astype(np.float64), OUT, 7, 2.0, 1), "float32|float"),
        ((np.zeros((4, 4), np.float32)[:, 1], OUT, 7, 2.0, 1), "side by side"),
        ((A, OUT, "seven", 2.0, 1), "number"),
        ((A, OUT, -1, 2.0, 1), "holds 0"),
    ],
)
def test_what_does_not_fit_is_refused_before_the_launch(args, word):
    with pytest.raises(LabError, match=word):
        bound(*args)


def test_args_must_be_a_tuple():
    with pytest.raises(LabError, match="a tuple"):
        bind("k", PARAMS, (), A)


def test_comments_and_blank_space_do_not_change_a_source():
    assert without_comments(SOURCE) == without_comments(SOURCE.replace("// a", "//  another").replace("{ }", "{\n\n}"))
    assert without_comments(SOURCE) != without_comments(SOURCE.replace("float s", "float t"))
    assert without_comments("#define A 1\nint x;") != without_comments("#define A 1 int x;")
    assert without_comments('s = "// kept";') == 's = "// kept" ; '


def test_a_view_is_passed_as_its_place_in_the_whole_array():
    whole = np.arange(10, dtype=np.float32)
    root, offset, size = host_buffer(whole[3:7])
    assert (root.nbytes, offset, size) == (40, 12, 16)
    root[12:16] = np.float32(99).tobytes() and np.frombuffer(np.float32(99).tobytes(), np.uint8)
    assert whole[3] == 99


def test_a_torch_tensor_is_passed_in_place():
    torch = pytest.importorskip("torch")
    tensor = torch.arange(8, dtype=torch.float32)
    root, offset, size = host_buffer(tensor[2:4])
    assert (offset, size) == (8, 8)
    root[8:12] = np.frombuffer(np.float32(5).tobytes(), np.uint8)
    assert tensor[2] == 5
