"""Whether the solvers' kernels are compiled, and having that done before anybody's clock starts.

numba compiles a function when it is first called and keeps the result in a cache on disk: in `NUMBA_CACHE_DIR` where
that is set, else beside the source, else, where nothing can be written there, in the user's cache folder. To compile
all kernels takes a minute, once after an installation or update. `solve` has that done first, in a process of its own
that a cancelled solve can end, so that no time limit is charged with it and no method that runs out of time meanwhile
spoils an answer.

That all is done is written down beside the cache, with everything it holds for: the files that numba must find, the
sources that they were made of (`solvers.kernel_files`), and the versions and processor. So asking costs the time of
some file names, and numba is not loaded for it. Where a source has changed, what was made of it is compiled anew,
whatever numba thinks of it. Several processes that find nothing compiled wait for the first of them, by a lock on a
file.
"""

import atexit
import contextlib
import fcntl
import hashlib
import json
import os
import platform
import shutil
import sys
import tempfile
import threading
from collections.abc import Collection, Iterator
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from solvers.kernel_files import KernelFile
from solvers.model.result import OnProgress, Progress
from solvers.processes.child import Child
from solvers.processes.root import ROOT

COMPILING = "compiling the solvers, once after installation"
"""The phase in which that is done; step and number of steps come behind it."""

INDEX = ".nbi"
"""How the names end of the files in which numba looks machine code up."""

POLL_SECONDS = 0.1
"""How often whoever waits is told, and so may cancel."""

PROGRAM = "solvers.warm_up"
"""What compiles, as a child process."""

SETTINGS = ("NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES", "NUMBA_OPT")
"""Variables of the environment that the machine code depends on."""

_lock = threading.Lock()
_is_known: list[bool] = []  # once it is, nothing is looked up again in this process


def is_compiled() -> bool:
    """Whether every kernel is in numba's cache on disk, as far as was ever written down."""
    return bool(_is_known) or _is_off() or any(_holds(path) for path in _record_paths())


def compile_first(on_progress: OnProgress | None) -> str:
    """Wait until all kernels are compiled; return a sentence where that failed, else nothing.

    `on_progress` is called from the calling thread all the while, in the phase COMPILING; what it raises, such as
    SolveCancelled, ends the wait. Other threads of this process wait for the first.
    """
    while not _lock.acquire(timeout=POLL_SECONDS):
        _tell(on_progress, COMPILING)
    try:
        if not is_compiled():
            provide_cache()
            sentence = _compile_in_a_child(on_progress)
            if sentence:
                return sentence
        settle()
    finally:
        _lock.release()
    return ""


def settle() -> None:
    """Take the kernels for compiled in this process from now on: they are, or this is the process that does it."""
    _is_known[:] = [True]


def provide_cache() -> None:
    """Give numba a folder for this run where it would find none: then it could not even be asked for a function."""
    folders = {path.parent for path in _record_paths()}
    if any(map(_can_be_written, folders)):
        return
    folder = tempfile.mkdtemp(prefix="placement-numba-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ["NUMBA_CACHE_DIR"] = folder  # for child processes, too


def write_record(files: Collection[KernelFile]) -> None:
    """Write down that the kernels in these files are compiled."""
    made_from = sorted({path for file in files for path in file.needs})
    record = {
        "for": _circumstances(),
        "sources": {path: _stamp(path) for path in made_from},
        "kernels": {file.source: {"needs": file.needs, "indexes": _indexes(file)} for file in files},
    }
    for path in _record_paths():
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            part = path.with_name(f"{path.name}.{os.getpid()}")
            part.write_text(json.dumps(record), encoding="utf-8")
            part.replace(path)
            return


def forget_changed() -> None:
    """Have numba forget the kernels that were made of a source which has changed since that was written down.

    It would keep those whose own file is as it was, and fail on one of a class that is no longer there.
    """
    for path in _record_paths():
        record = _record(path)
        if record is not None:
            changed = {source for source, stamp in record["sources"].items() if _stamp(source) != stamp}
            for kernel in record["kernels"].values():
                if changed & set(kernel["needs"]):
                    for index in map(Path, kernel["indexes"]):
                        if index.suffix == INDEX:  # whatever else may stand in the record
                            index.unlink(missing_ok=True)


@contextlib.contextmanager
def one_at_a_time() -> Iterator[None]:
    """Let one process compile at a time where they share a cache; the others wait here."""
    with contextlib.ExitStack() as stack:
        for path in _record_paths():
            with contextlib.suppress(OSError):
                path.parent.mkdir(parents=True, exist_ok=True)
                file = stack.enter_context(path.with_suffix(".lock").open("w"))
                fcntl.flock(file, fcntl.LOCK_EX)
                break
        yield


def _compile_in_a_child(on_progress: OnProgress | None) -> str:
    """Have a child process compile all; return a sentence where it failed."""
    try:
        child = Child(PROGRAM, "owned")
    except OSError as error:
        return _failed(error.strerror or "no process can be started")
    step = ""

    def listen() -> None:
        nonlocal step
        while (message := child.receive()) is not None:
            step = message.decode()

    listener = threading.Thread(target=listen, name="compilation", daemon=True)
    listener.start()
    try:
        while listener.is_alive():
            _tell(on_progress, f"{COMPILING} ({step})" if step else COMPILING)
            listener.join(POLL_SECONDS)
    except BaseException:
        child.kill()
        raise
    finally:
        end = child.end()
    return "" if end.code == 0 else _failed(end.last_line or str(end))


def _failed(reason: str) -> str:
    return f"The solvers could not be compiled ahead, so that may have taken some of the time limit: {reason[:200]}."


def _tell(on_progress: OnProgress | None, phase: str) -> None:
    if on_progress is not None:
        on_progress(Progress(0.0, None, None, phase))


def _is_off() -> bool:
    """Whether numba is told to compile nothing."""
    return os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")


def _record_paths() -> list[Path]:
    """Return where it may be written down that all is compiled, the best place first."""
    name = f"kernels.{sys.implementation.cache_tag}.json"
    given = os.environ.get("NUMBA_CACHE_DIR")
    if given:
        return [Path(given) / name]
    home = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))
    ours = hashlib.sha256(str(ROOT).encode()).hexdigest()[:16]
    return [ROOT / "solvers" / "__pycache__" / name, home / "numba" / f"solvers_{ours}" / name]


def _can_be_written(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True


def _indexes(file: KernelFile) -> list[str]:
    """Return the files in which numba looks up the machine code of a file's functions."""
    return sorted(map(str, Path(file.cache).glob(f"{Path(file.source).stem}.*{INDEX}")))


def _record(path: Path) -> dict[str, Any] | None:
    """Return what is written down there; None if nothing is that can be read."""
    try:
        record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        is_whole = all(isinstance(record[part], dict) for part in ("sources", "kernels"))
        is_whole = is_whole and all({"needs", "indexes"} <= set(kernel) for kernel in record["kernels"].values())
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return record if is_whole else None


def _holds(path: Path) -> bool:
    """Whether what a record says is so: same circumstances and sources, and no file of numba's is gone."""
    record = _record(path)
    return (
        record is not None
        and record.get("for") == _circumstances()
        and all(_stamp(source) == stamp for source, stamp in record["sources"].items())
        and all(os.path.exists(index) for kernel in record["kernels"].values() for index in kernel["indexes"])
    )


def _stamp(source: str) -> list[float] | None:
    """Return what numba tells a changed source by; None where there is none."""
    try:
        found = os.stat(source)
    except OSError:
        return None
    return [found.st_mtime, found.st_size]


@cache
def _circumstances() -> list[str]:
    """Return what machine code depends on beside its source."""
    processor = platform.processor()
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        told = {line for line in lines if line.startswith(("model name", "flags", "Features", "CPU part"))}
        processor = hashlib.sha256("\n".join(sorted(told)).encode()).hexdigest()
    packages = [version(name) for name in ("numba", "llvmlite")]
    return [sys.version, platform.machine(), processor, *packages, *(os.environ.get(name, "") for name in SETTINGS)]
