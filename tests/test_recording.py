"""Recordings on disk: what was put is found again, and only for exactly that code."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit import LabError
from labkit.device import known
from labkit.recording import Recording

PLAIN = st.one_of(st.integers(-(2**53), 2**53), st.booleans(), st.text(max_size=8), st.floats(allow_nan=False))
SETTINGS = st.dictionaries(st.text(min_size=1, max_size=6), PLAIN, min_size=1, max_size=3)


@given(rows=st.lists(SETTINGS, min_size=1, max_size=5))
def test_what_was_put_is_found_after_a_round_trip(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("r") / "gpu" / "lab.json"
    recording = Recording(path, known("nvidia-h200"))
    for index, settings in enumerate(rows):
        recording.put("read", "abc", {"settings": settings, "seconds": index})
    recording.save()
    back = Recording.load(path)
    for settings in rows:
        last = max(i for i, other in enumerate(rows) if other == settings)
        assert back.row("read", "abc", settings)["seconds"] == last
    assert back.device == recording.device
    assert back.rows("read", "other code") == [] and back.rows("other") == []


def test_rows_of_older_code_are_dropped(tmp_path):
    recording = Recording(tmp_path / "lab.json", known("nvidia-h200"))
    recording.put("read", "old", {"settings": {"n": 1}})
    recording.put("read", "new", {"settings": {"n": 2}})
    assert recording.rows("read", "old") == [] and len(recording.rows("read", "new")) == 1


@pytest.mark.parametrize("content", ["", "{", "[]", '{"format": 1}', json.dumps({"format": 99}), "null"])
def test_a_damaged_or_foreign_file_is_a_lab_error(tmp_path, content):
    path = tmp_path / "lab.json"
    path.write_text(content)
    with pytest.raises(LabError, match=r"damaged|format 99"):
        Recording.load(path)
