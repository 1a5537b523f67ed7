"""Search files, file names and responses for numbers that must not be there, in every encoding one can think of."""

from __future__ import annotations

import base64
import http.client
import io
import os
import struct
import urllib.parse
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

SHORTEST = 6  # bytes; shorter ones occur by chance


def encodings(value: float) -> set[bytes]:
    """Return all byte strings that give a number away: as text from six digits on, as binary, and those encoded."""
    plain = [text.encode() for text in _texts(value)]
    plain += [spelled for text in plain for spelled in (text[::-1], text.decode().encode("utf-16-le"))]
    plain += _binary(value)
    return {trace for raw in plain for trace in (raw, *_encoded(raw)) if len(trace) >= SHORTEST}


def _texts(value: float) -> Iterator[str]:
    yield from (repr(value), f"{int(value):x}", f"{int(value):X}", f"{int(value):o}", str(int(value))[:9])
    yield from (value.hex(),) if isinstance(value, float) else ()
    yield repr(float(str(np.float32(value))))  # as trajectories have it
    for digits in range(6, 18):
        rounded = f"{value:.{digits}g}"
        yield from (rounded, f"{value:.{digits - 1}e}", repr(float(rounded)))


def _binary(value: float) -> list[bytes]:
    packed = [struct.pack("<q", int(value)), struct.pack("<d", value)]
    return packed + [word[::-1] for word in packed]


def _encoded(raw: bytes) -> Iterator[bytes]:
    yield raw.hex().encode()
    yield raw.hex().upper().encode()
    yield "".join(f"%{byte:02X}" for byte in raw).encode()
    yield urllib.parse.quote(raw).encode()
    for shift in range(3):
        whole = base64.b64encode(bytes(shift) + raw)
        inner = whole[-(-shift * 8 // 6) : (shift + len(raw)) * 8 // 6]
        yield from (inner, inner.translate(bytes.maketrans(b"+/", b"-_")))


def places_with(value: float, places: dict[str, bytes]) -> list[str]:
    """Return the names of the places that contain a number in any encoding."""
    whole = b"\0".join(places.values())
    present = [trace for trace in encodings(value) if trace in whole]
    return [where for where, content in places.items() if any(trace in content for trace in present)]


def folder_contents(folder: Path) -> dict[str, bytes]:
    """Return all that a reader of a folder can learn: names, links, attributes, contents, members of archives."""
    places = {}
    for path in (folder, *sorted(folder.rglob("*"))):
        name = str(path.relative_to(folder))
        places[f"{name} (about)"] = os.fsencode(path.name) + b"\n" + _about(path)
        if path.is_file() and not path.is_symlink():
            data = path.read_bytes()
            places[name] = data
            places |= {f"{name}!{member}": content for member, content in _unpacked(data)}
    return places


def _about(path: Path) -> bytes:
    facts = path.lstat()
    attributes = {name: os.getxattr(path, name, follow_symlinks=False) for name in _attributes(path)}
    target = os.readlink(path) if path.is_symlink() else ""
    return repr((oct(facts.st_mode), facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns, target, attributes)).encode()


def _attributes(path: Path) -> Iterable[str]:
    try:
        return os.listxattr(path, follow_symlinks=False)
    except OSError:
        return ()


def _unpacked(data: bytes) -> Iterator[tuple[str, bytes]]:
    if zipfile.is_zipfile(io.BytesIO(data)):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for name in archive.namelist():
                yield name, archive.read(name)


class RecordingClient:
    """An HTTP client that keeps every byte of every response. ``ask`` returns None if there was no response."""

    def __init__(self, api: str) -> None:
        self._url = urllib.parse.urlsplit(api)
        self.responses: dict[str, bytes] = {}

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> bytes | None:
        connection = http.client.HTTPConnection(self._url.netloc, timeout=120)
        try:
            connection.request(method, self._url.path + path, body, headers)
            answer: Any = connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()
        headers_text = "".join(f"{name}: {value}\n" for name, value in answer.getheaders() if name != "date")
        whole = f"{answer.status}\n{headers_text}\n".encode() + content
        if whole not in self.responses.values():
            self.responses[f"{len(self.responses)} {method} {path}"] = whole
        return whole
