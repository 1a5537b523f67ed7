"""Pictures, grids, codes and words in disguise: each value is replaced by another, always the same.

Pictures and grids are also mirrored, transposed and padded. Their neighbours stay neighbours, so that what is to be
seen can still be seen, in other colours or codes. Nothing here needs more than numpy."""

from __future__ import annotations

import hmac
import math
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from evopolicygym.tasks.disguise_parts import Array, Draws, Leaf, ValueMap, fitting

GRID: Final = "grid"  # cells with codes: types, colours, states
PICTURE: Final = "picture"  # pixels
NUMBERS: Final = "numbers"  # entries that have no place in a plane
KINDS: Final = (GRID, PICTURE, NUMBERS)
SMALLEST_PICTURE: Final = 32  # pixels on a side
FEW_CODES: Final = 16
BYTES: Final = 256
MOST_PADDING: Final = {GRID: 2, PICTURE: 12}  # rows or columns on each side
LARGEST_TABLE: Final = 4096  # codes; more of them are reversed, not shuffled
TOKEN_BYTES: Final = 11  # of a word in one token; a longer word is several tokens
CONTINUES: Final = 128  # added to the number of bytes in a token whose word goes on in the next one
SIZES: Final = 16  # numbers of bytes, and the mark of a filler; the bits between count occurrences of a word
FILLER: Final = 15
OCCURRENCES: Final = 8  # of a word in a text that are told apart
SHORTEST_ROW: Final = 16  # tokens
ROW_LENGTHS: Final = 8
SHOWN_LENGTH: Final = 8192  # of text; the same for all tasks, since the longest mission would name one
LETTERS: Final = "bcdfghjklmnprstv"  # sixteen: one for each half of a byte
ROUNDS: Final = 4


def kind_of(leaf: Leaf) -> str:
    """Return what a Box is by its shape and type, unless the task file says so."""
    if leaf["type"] != "Box" or len(leaf["shape"]) not in (2, 3) or 0 in leaf["shape"]:
        return NUMBERS
    if min(_sides(leaf["shape"])) >= SMALLEST_PICTURE:
        return PICTURE
    return GRID if leaf["dtype"] == "uint8" and len(leaf["shape"]) == 3 and leaf["shape"][2] <= 4 else NUMBERS


def _channel_axis(shape: list[int]) -> int:
    """Return the axis of the channels: the shortest, the last of equally short ones."""
    return max(range(3), key=lambda axis: (-shape[axis], axis))


def _sides(shape: list[int]) -> list[int]:
    return [side for axis, side in enumerate(shape) if len(shape) == 2 or axis != _channel_axis(shape)]


class Cells:
    """One picture or grid."""

    def __init__(self, draws: Draws, leaf: Leaf, kind: str) -> None:
        self._dtype, self._own_shape = np.dtype(leaf["dtype"]), tuple(leaf["shape"])
        self._axis = _channel_axis(leaf["shape"]) if len(leaf["shape"]) == 3 else None
        height, width = _sides(leaf["shape"])
        count = 1 if self._axis is None else leaf["shape"][self._axis]
        copies = [draws.below(count)] if kind == GRID and draws.bit() else []
        channels = draws.shuffled([*range(count), *copies])
        self._channels, self._back = np.array(channels), np.array([channels.index(own) for own in range(count)])
        self._is_transposed, self._steps = draws.bit(), (draws.choice((1, -1)), draws.choice((1, -1)))
        rows, columns = (width, height) if self._is_transposed else (height, width)
        most = MOST_PADDING[kind]
        top, left = draws.below(most + 1), draws.below(most + 1)
        bottom, right = draws.below(most + 1) + (top == 0), draws.below(most + 1) + (left == 0)
        self._inside = np.s_[top : top + rows, left : left + columns]
        self._values = _value_map(draws, leaf, kind, len(channels))
        low, high = _bounds(leaf)
        border = np.full((top + rows + bottom, left + columns + right, len(channels)), min(max(0, low), high))
        self._border = self._values.show(border.astype(self._dtype))
        sizes = self._border.shape
        layouts = [[math.prod(sizes)], [sizes[0] * sizes[1], sizes[2]], [sizes[2], *sizes[:2]]]
        layout = draws.below(len(layouts)) if kind == GRID else None
        self._is_channel_first = layout == len(layouts) - 1
        self._shape = list(sizes[: 2 if self._axis is None else 3]) if layout is None else layouts[layout]
        low, high = self._values.bounds()
        self.spaces = [{"type": "Box", "shape": self._shape, "dtype": leaf["dtype"], "low": low, "high": high}]

    def show(self, own: list[Any]) -> list[Any]:
        cells = fitting(own[0], self._dtype, self._own_shape)
        cells = cells[:, :, None] if self._axis is None else np.moveaxis(cells, self._axis, 2)
        cells = cells.transpose(1, 0, 2) if self._is_transposed else cells
        shown = self._border.copy()
        shown[self._inside] = self._values.show(cells[:: self._steps[0], :: self._steps[1], self._channels])
        if self._is_channel_first:
            shown = np.ascontiguousarray(shown.transpose(2, 0, 1))
        return [shown.reshape(self._shape)]

    def read(self, shown: list[Any]) -> list[Any]:
        sizes, whole = self._border.shape, np.asarray(shown[0], self._dtype)
        if self._is_channel_first:
            cells = whole.reshape(sizes[2], *sizes[:2]).transpose(1, 2, 0)[self._inside]
        else:
            cells = whole.reshape(sizes)[self._inside]
        cells = self._values.read(cells)[:: self._steps[0], :: self._steps[1], self._back]
        cells = cells.transpose(1, 0, 2) if self._is_transposed else cells
        cells = cells[:, :, 0] if self._axis is None else np.moveaxis(cells, 2, self._axis)
        return [np.ascontiguousarray(cells)]


class CodeTables:
    """Other codes for bytes, with a table for each channel. Codes below ``FEW_CODES`` stay below it."""

    def __init__(self, draws: Draws, channels: int) -> None:
        halves = range(FEW_CODES), range(FEW_CODES, BYTES)
        tables = np.array([[code for half in halves for code in draws.shuffled(half)] for _ in range(channels)])
        self._offsets = np.arange(channels) * BYTES
        self._shown = tables.astype(np.uint8).ravel()
        self._own = np.argsort(tables, axis=1).astype(np.uint8).ravel()

    def show(self, cells: Array) -> Array:
        return self._shown[cells + self._offsets]

    def read(self, cells: Array) -> Array:
        return self._own[cells + self._offsets]

    def bounds(self) -> tuple[int, int]:
        return 0, BYTES - 1


class Palette:
    """Other colours, with similar ones still similar: the bytes of each channel count from another start, upwards or
    downwards."""

    def __init__(self, draws: Draws, channels: int) -> None:
        self._starts = np.array(draws.many_below(BYTES, channels), np.uint8)
        self._steps = np.array([draws.choice((1, BYTES - 1)) for _ in range(channels)], np.uint8)

    def show(self, cells: Array) -> Array:
        return cells * self._steps + self._starts  # modulo 256, as all arithmetic of bytes

    def read(self, cells: Array) -> Array:
        return (cells - self._starts) * self._steps

    def bounds(self) -> tuple[int, int]:
        return 0, BYTES - 1


def _value_map(draws: Draws, leaf: Leaf, kind: str, channels: int) -> CodeTables | Palette | ValueMap:
    if leaf["dtype"] == "uint8":
        return CodeTables(draws, channels) if kind == GRID else Palette(draws, channels)
    flips, exponents = np.array(draws.many_below(2, channels), bool), draws.many_below(4, channels)
    return ValueMap(np.dtype(leaf["dtype"]), [_bounds(leaf)] * channels, flips, exponents, exact=False)


def _bounds(leaf: Leaf) -> tuple[Any, Any]:
    """Return bounds that hold for every entry."""
    return np.min(leaf["low"]).item(), np.max(leaf["high"]).item()


class Codes:
    """Codes of a Discrete or of the entries of a MultiDiscrete: shuffled, among further codes that never occur. As an
    action, a further code does what one of the others does. A MultiDiscrete has its entries in another order, too, and
    further entries."""

    def __init__(self, draws: Draws, leaf: Leaf) -> None:
        self._is_single = leaf["type"] == "Discrete"
        counts = np.ravel(leaf["n"] if self._is_single else leaf["nvec"]).tolist()
        starts = np.ravel(leaf["start"]).tolist()
        self._dtype, self._shape = np.dtype(leaf["dtype"]), tuple(leaf.get("shape", ()))
        self._tables = [CodeTable(draws, n, start) for n, start in zip(counts, starts, strict=True)]
        extra = 0 if self._is_single else 1 + draws.below(2)
        added = [draws.choice(counts or [2]) for _ in range(extra)]
        self._constants = [draws.below(n) for n in added]
        self._order = draws.shuffled(range(len(counts) + len(added)))
        shown = [*(table.shown for table in self._tables), *added]
        sizes = [shown[index] for index in self._order]
        if self._is_single:
            self.spaces = [{"type": "Discrete", "n": sizes[0], "start": 0, "dtype": leaf["dtype"]}]
        else:
            shape = {"type": "MultiDiscrete", "shape": [len(sizes)], "dtype": leaf["dtype"]}
            self.spaces = [shape | {"nvec": sizes, "start": [0] * len(sizes)}]
        self._positions = np.argsort(np.array(self._order))[: len(counts)].tolist()

    def show(self, own: list[Any]) -> list[Any]:
        if self._is_single:
            return [self._tables[0].show(int(own[0]))]
        codes = fitting(own[0], self._dtype, self._shape).ravel().tolist()
        values = [*(table.show(code) for table, code in zip(self._tables, codes, strict=True)), *self._constants]
        return [np.array([values[index] for index in self._order], self._dtype)]

    def read(self, shown: list[Any]) -> list[Any]:
        if self._is_single:
            return [self._tables[0].read(int(shown[0]))]
        codes = [table.read(int(shown[0][index])) for table, index in zip(self._tables, self._positions, strict=True)]
        return [np.array(codes, self._dtype).reshape(self._shape)]


class CodeTable:
    """The codes of one choice of n. ``shown`` is the number of codes that are shown."""

    def __init__(self, draws: Draws, n: int, start: int) -> None:
        self._start, self._n = start, n
        self._is_table = n <= LARGEST_TABLE
        self.shown = n + 1 + draws.below(2) if self._is_table else n
        if self._is_table:
            codes = draws.shuffled(range(self.shown))
            self._to_shown, unused = codes[:n], codes[n:]
            self._to_own = {code: own for own, code in enumerate(self._to_shown)}
            self._to_own |= {code: draws.below(n) for code in unused}

    def show(self, own: int) -> int:
        code = own - self._start
        if not 0 <= code < self._n:
            raise ValueError(f"{own} is not one of the {self._n} codes from {self._start}")
        return self._to_shown[code] if self._is_table else self._n - 1 - code

    def read(self, shown: int) -> int:
        return self._start + (self._to_own[shown] if self._is_table else self._n - 1 - shown)


class Words:
    """Text as tokens in rows of one length, in an order that is drawn from the key; fillers complete the last row. The
    same word is the same token in every text, but a word that repeats within a text is another token each time. A token
    is the word, enciphered by a Feistel network over its bytes and written in letters; all are equally long."""

    def __init__(self, draws: Draws, leaf: Leaf) -> None:
        self._keys = [draws.secret() for _ in range(ROUNDS)]
        self._order = draws.shuffled(range(SHORTEST_ROW + draws.below(ROW_LENGTHS)))  # of a row, by place
        self._last = ("", "")
        most = int(leaf["max_length"]) + 1 + len(self._order)  # a token for each letter, and fillers
        longest = most * (2 * (TOKEN_BYTES + 1) + 1)
        self.spaces = [{"type": "Text", "max_length": max(SHOWN_LENGTH, 1 << longest.bit_length())}]

    def show(self, own: list[Any]) -> list[Any]:
        text = str(own[0])
        if not self._last[1] or text != self._last[0]:  # most texts stay the same for a whole episode
            self._last = text, " ".join(self._rows(list(self._words(text))))
        return [self._last[1]]

    def read(self, shown: list[Any]) -> list[Any]:
        tokens, length = shown[0].split(" "), len(self._order)
        rows = [tokens[start : start + length] for start in range(0, len(tokens), length)]
        own = [row[self._order.index(number)] for row in rows for number in range(length)]
        words = [b""]
        for block in map(self._block, own):
            if block[0] % SIZES == FILLER:
                break
            words[-1] += block[1 : 1 + block[0] % SIZES]
            if block[0] < CONTINUES:
                words.append(b"")
        return [" ".join(word.decode(errors="surrogatepass") for word in words[:-1])]

    def _rows(self, tokens: list[str]) -> Iterator[str]:
        length = len(self._order)
        for start in range(0, len(tokens), length):
            row = tokens[start : start + length]
            row += [self._token(FILLER, number.to_bytes(2, "big")) for number in range(length - len(row))]
            yield from (row[number] for number in self._order)

    def _words(self, text: str) -> Iterator[str]:
        seen: dict[str, int] = {}
        for word in text.split(" "):
            occurrence = seen[word] = seen.get(word, -1) + 1
            yield from self._tokens(word, SIZES * (occurrence % OCCURRENCES))

    def _tokens(self, word: str, mark: int) -> Iterator[str]:
        data = word.encode(errors="surrogatepass")
        for start in range(0, max(len(data), 1), TOKEN_BYTES):
            piece = data[start : start + TOKEN_BYTES]
            yield self._token(len(piece) + mark + (CONTINUES if start + TOKEN_BYTES < len(data) else 0), piece)

    def _token(self, head: int, piece: bytes) -> str:
        block = self._mix(bytes([head]) + piece.ljust(TOKEN_BYTES, b"\0"), self._keys)
        return "".join(LETTERS[byte >> 4] + LETTERS[byte & 15] for byte in block)

    def _block(self, token: str) -> bytes:
        halves = [LETTERS.index(letter) for letter in token]
        data = bytes(16 * high + low for high, low in zip(halves[::2], halves[1::2], strict=True))
        return self._unmix(data)

    def _mix(self, data: bytes, keys: list[bytes]) -> bytes:
        left, right = data[: len(data) // 2], data[len(data) // 2 :]
        for key in keys:
            left, right = right, _xor(left, key, right)
        return left + right

    def _unmix(self, data: bytes) -> bytes:
        left, right = data[: len(data) // 2], data[len(data) // 2 :]
        for key in reversed(self._keys):
            left, right = _xor(right, key, left), left
        return left + right


def _xor(data: bytes, key: bytes, message: bytes) -> bytes:
    mask = b""
    while len(mask) < len(data):
        mask += hmac.digest(key, len(mask).to_bytes(8, "big") + message, "sha256")
    return bytes(a ^ b for a, b in zip(data, mask, strict=False))
