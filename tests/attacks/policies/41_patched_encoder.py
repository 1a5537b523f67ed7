"""Replaces the encoder in the frame that called it. It owns its process; what it sends is judged
outside."""

import ctypes
import sys

from kit import answer

EXPECT = "invalid_action"
CONTROL = "same"


def attack() -> bool:
    frame = sys._getframe()
    while "encode" not in frame.f_locals:
        frame = frame.f_back
    frame.f_locals["encode"] = lambda action: answer(1000)
    ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), 0)
    sys.settrace(lambda *event: None)
    return False
