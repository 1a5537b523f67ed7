"""Acts with an array whose own methods lie about its bytes, its shape and its type."""

import numpy as np

CONTROL = "same"


class Liar(np.ndarray):
    shape = (2,)

    def tobytes(self, *_: object) -> bytes:
        return b"\xff" * 8

    def astype(self, *_: object, **__: object) -> np.ndarray:
        return np.full(2, np.nan)


def attack():
    return 0, np.zeros(2, np.float32).view(Liar)
