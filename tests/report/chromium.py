"""Install a headless Chromium of one version once, with npm and without system packages."""

from __future__ import annotations

import base64
import hashlib
import os
import tarfile
from pathlib import Path

from install_helpers import install_once, run, tool

PACKAGE = "@sparticuz/chromium@147.0.0"
SHA512 = "4ZKeAQQa8up2mt675qSitztLdbQrlf8BKdC5naeap+5Mv1OV1OlJdPoU+EJC/p5sQUJUQmN4r+q5+EhaaOUHpQ=="
PARTS = ("al2023", "fonts", "swiftshader")  # libraries, a font, and a renderer without a graphics card
INFLATE = """\
const {readFileSync, writeFileSync} = require("fs"), {brotliDecompressSync} = require("zlib");
for (const file of process.argv.slice(1)) writeFileSync(file.slice(0, -3), brotliDecompressSync(readFileSync(file)));
"""
FONTS = '<?xml version="1.0"?><fontconfig><dir>{0}/fonts</dir><cachedir>{0}/fonts-cache</cachedir></fontconfig>\n'


def installed() -> Path:
    """Return the folder of the program."""
    return install_once(PACKAGE, _install) / "package" / "bin"


def environment(folder: Path, home: Path) -> dict[str, str]:
    """Return variables with its own libraries and font, so that a page is equally wide on every machine."""
    return {
        "PATH": os.defpath,
        "HOME": str(home),
        "TMPDIR": str(home),
        "LD_LIBRARY_PATH": str(folder / "lib"),
        "FONTCONFIG_FILE": str(folder / "fonts.xml"),
    }


def _install(folder: Path) -> None:
    run([tool("npm"), "pack", "--loglevel", "error", PACKAGE], PACKAGE, folder)
    (archive,) = folder.glob("*.tgz")
    assert base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode() == SHA512, "not what was pinned"
    _unpack(archive, folder)
    binaries = folder / "package" / "bin"
    run([tool("node"), "-e", INFLATE, *map(str, binaries.glob("*.br"))], PACKAGE)
    for part in PARTS:
        _unpack(binaries / f"{part}.tar", binaries)
    (binaries / "chromium").chmod(0o755)
    (binaries / "fonts.xml").write_text(FONTS.format(binaries))
    for done in (archive, *binaries.glob("*.br"), *binaries.glob("*.tar")):
        done.unlink()


def _unpack(archive: Path, folder: Path) -> None:
    with tarfile.open(archive) as opened:
        opened.extractall(folder, filter="data")
