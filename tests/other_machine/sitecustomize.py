"""On PYTHONPATH, makes every Python of a test run believe that it is on another kind of machine: the CPU features and
the libc behind a bit_id are replaced. Nothing that computes is touched, so returns stay equal to the bit."""

import pathlib
import platform

CPU = pathlib.Path("/proc/cpuinfo")
read_text = pathlib.Path.read_text


def _read_text(path: pathlib.Path, *arguments: object, **options: object) -> str:
    if path == CPU:
        return "flags\t\t: fpu sse sse2 avx10 fma9\n"
    return read_text(path, *arguments, **options)  # type: ignore[arg-type]


pathlib.Path.read_text = _read_text  # type: ignore[method-assign]
platform.libc_ver = lambda *arguments, **options: ("glibc", "2.99")
