"""Sliders over an experiment's grid beside the measured curve, and the reader's guess."""

from __future__ import annotations

from labkit.panel.board import Panel, panel
from labkit.panel.prediction import Prediction, predict

__all__ = ["Panel", "Prediction", "panel", "predict"]
