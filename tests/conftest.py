"""Markers that need something of the machine skip with the reason."""

from __future__ import annotations

import shutil
import sys

import pytest

from labkit.device import cupy


def _missing(marker: str) -> str | None:
    if marker == "gpu" and cupy() is None:
        return "no NVIDIA GPU with CuPy on this machine"
    if marker == "compiler" and sys.platform == "darwin":
        return "NVRTC does not exist on macOS"
    if marker == "browser" and not any(map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))):
        return "no Chromium on this machine"
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for marker in ("gpu", "compiler", "browser"):
            reason = _missing(marker) if item.get_closest_marker(marker) else None
            if reason:
                item.add_marker(pytest.mark.skip(reason=reason))
