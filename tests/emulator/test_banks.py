"""The 32 banks: passes as the emulator counts them, and the most conflicted access that Counts keeps."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import labkit
from labkit.emulator import Access, Counts
from labkit.emulator.banks import parts, phases
from labkit.emulator.meter import turns

elements = st.lists(st.one_of(st.none(), st.integers(0, 300)), min_size=32, max_size=32)


def checked(width, addresses):
    """The passes, after every word is seen to be served once, in as many passes as the emulator counts."""
    served, together = phases(width, addresses), parts(width, addresses)
    assert [lane for part in together for lane in part] == list(range(32))
    for passes, part in zip(served, together, strict=True):
        asked = sorted({(addresses[i] + b) // 4 for i in part if addresses[i] is not None for b in range(width)})
        assert sorted(word for each in passes for word in each.values()) == asked
        assert all(word % 32 == bank for each in passes for bank, word in each.items())
    first = np.array([[-1 if a is None else a // 4 for a in addresses]])
    needed, least = turns(first, max(width // 4, 1))
    assert (sum(map(len, served)), sum(map(bool, served))) == (needed[0], least[0])
    return served


@given(elements, st.sampled_from([1, 2, 4, 8, 16]))
def test_every_word_is_served_once_in_as_many_passes_as_the_emulator_counts(elements, width):
    checked(width, [None if e is None else e * width for e in elements])


@given(elements, st.sampled_from([1, 2]), st.booleans())
def test_quarters_whose_neighbours_ask_for_the_same_are_served_as_halves(elements, step, all_lanes):
    addresses = [None if e is None else 16 * e for e in elements]
    for lane in range(32 if all_lanes else 16):
        addresses[lane | step] = addresses[lane & ~step]
    served = checked(16, addresses)
    assert len(parts(16, addresses)[0]) == 16
    assert len(served) == 2 or not all_lanes


def test_four_rows_that_begin_in_the_same_bank_collide_where_two_quarters_are_one():
    rows = [512 * (lane // 4 % 4) for lane in range(32)]  # a quarter asks for two of the rows, a half for four
    assert [len(passes) for passes in checked(16, rows)] == [4, 4]
    apart = [512 * (lane // 4 % 4) + 4096 * (lane == 31) for lane in range(32)]
    assert [len(passes) for passes in checked(16, apart)] == [4, 2, 3]


def count(body, threads=32, dynamic=0):
    source = f'extern "C" __global__ void k(float* out) {{ int t = threadIdx.x; {body} }}'
    return labkit.kernel(source).count(1, threads, (np.zeros(1024, np.float32),), dynamic)


COLUMN = """__shared__ float before[32], tile[32][PITCH];
before[t] = t; for (int k = 0; k < 32; k++) tile[k][t] = k + before[t]; __syncthreads();
for (int k = 0; k < 32; k++) out[t] += tile[t][k];"""


@pytest.mark.compiler
@pytest.mark.parametrize(("pitch", "extra"), [(32, 31), (33, 0), (34, 1), (40, 7)])
def test_the_column_of_a_tile_is_kept_with_its_conflicts_and_without(pitch, extra):
    kept = count(COLUMN.replace("PITCH", str(pitch))).banks
    assert (kept.op, kept.bytes_per_lane, kept.line, kept.array) == ("load", 4, 3, "tile")
    assert np.diff(kept.addresses).tolist() == [4 * pitch] * 31
    assert kept.addresses[0] % 4 == 0
    assert len(phases(4, kept.addresses)[0]) == 1 + extra


@pytest.mark.compiler
def test_a_swizzled_column_is_kept_where_its_turning_is_seen():
    body = """__shared__ float tile[32][32]; int x = t % 32, y = t / 32;
    for (int k = 0; k < 32; k += 8) tile[y + k][x ^ (y + k)] = t; __syncthreads();
    for (int k = 0; k < 32; k += 8) out[32 * y + x] += tile[x][x ^ (y + k)];"""
    banks = np.array(count(body, threads=256).banks.addresses) // 4 % 32
    assert sorted(banks) == list(range(32))
    assert len(set((banks - np.arange(32)) % 32)) > 1


@pytest.mark.compiler
def test_the_worst_round_of_a_loop_is_kept():
    body = """__shared__ float part[512]; for (int i = t; i < 512; i += 32) part[i] = out[i];
    __syncthreads(); float s = 0;
    #pragma unroll 1
    for (int k = 1; k <= 16; k *= 2) s += part[t * k]; out[t] = s;"""
    assert np.diff(count(body).banks.addresses).tolist() == [64] * 31


@pytest.mark.compiler
def test_lanes_that_are_off_and_wide_accesses_are_kept_as_they_are():
    body = """extern __shared__ float4 wide[]; for (int i = t; i < 64; i += 48) wide[i] = make_float4(t, 0, 0, 0);
    __syncthreads(); if (t >= 40) out[t] = wide[t - 16 + out[0] > 5].w + wide[(t - 40) * 8].x;"""
    kept = count(body, threads=48, dynamic=1024).banks
    assert kept.op == "load" and len(kept.addresses) == 32
    assert {a is None for a in kept.addresses[:8]} == {True} and None not in kept.addresses[8:16]
    assert sum(len(p) for p in phases(kept.bytes_per_lane, kept.addresses)) == 8


@pytest.mark.compiler
def test_a_kernel_without_shared_memory_keeps_none():
    assert count("out[t] = t;").banks is None


def access(stride, width=4):
    return Access(1, "load", width, tuple(width * stride * lane for lane in range(32)), "tile")


def test_of_two_launches_the_more_conflicted_is_kept():
    none, row, column, padded = (Counts(banks=b) for b in (None, access(1), access(32), access(33)))
    assert (row + column).banks == (column + padded).banks == column.banks
    assert (row + padded).banks == (padded + none).banks == padded.banks
    assert (none + none).banks is None


def test_it_survives_json_and_older_recordings_lack_it():
    counts = Counts(banks=replace(access(33), addresses=(*access(33).addresses[:31], None)))
    data = json.loads(json.dumps(counts.to_dict()))
    assert Counts.from_dict(data) == counts
    assert len(json.dumps(data["banks"])) < 400
    del data["banks"]
    assert Counts.from_dict(data) == Counts()
