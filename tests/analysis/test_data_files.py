"""Data files beside a policy are hostile input: whatever they hold, they have values and a structure, soon."""

from __future__ import annotations

import io
import struct
import zipfile

import pytest

from evopolicygym.analysis.edits.data_files import describe_file


def archive(compression: int, damaged: tuple[int, ...] = (), is_encrypted: bool = False) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as written:
        written.writestr("a.npy", array(b"{'descr': '<f8', 'shape': (3,)}"))
    data = bytearray(file.getvalue())
    for at in damaged:
        data[at] ^= 0xFF
    if is_encrypted:
        data[data.find(b"PK\x01\x02") + 8] |= 1
        data[data.find(b"PK\x03\x04") + 6] |= 1
    return bytes(data)


def array(header: bytes) -> bytes:
    return b"\x93NUMPY\x01\0" + struct.pack("<H", len(header)) + header


HOSTILE = {
    "encrypted.npz": archive(zipfile.ZIP_STORED, is_encrypted=True),
    "deflate.npz": archive(zipfile.ZIP_DEFLATED, damaged=(40, 45, 50)),
    "lzma.npz": archive(zipfile.ZIP_LZMA, damaged=(45, 50, 55)),
    "signs.npy": array(b"-" * 60_000 + b"1"),
    "list.npy": array(b"[1]"),
    "keys.npy": array(b"{[]: 1}"),
    "short.npy": b"\x93NUMPY",
    "deep.json": b"[" * 100_000,
    "digits.json": b"9" * 5_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_file_that_cannot_be_read_is_compared_by_its_bytes(name):
    """An error would end the reader: the labels of all edits of the checkpoint would be unknown."""
    data = HOSTILE[name]
    assert describe_file(name, data) == describe_file(name, data)
    other = describe_file(name, data + b" ")
    assert other.values != describe_file(name, data).values


def test_an_archive_that_can_be_read_is_compared_by_its_arrays():
    stored, compressed = (describe_file("a.npz", archive(how)) for how in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    assert stored == compressed


@pytest.mark.timeout(30)
def test_a_long_number_takes_no_quadratic_time():
    digits = b"1" * (1 << 20)
    assert describe_file("a.csv", digits + b"x").structure != describe_file("a.csv", digits).structure
    first, second = (describe_file("a.csv", text) for text in (b"a, 1.5e3, -2., .5", b"a, 2, 3, 4"))
    assert first.structure == second.structure and first.values != second.values
