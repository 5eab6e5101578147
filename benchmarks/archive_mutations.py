"""Hostile archives of torch.export, made from valid programs by a seeded generator: the same ones every time.

Run as a program it imports as many as it is told, and any file beside them that it is given, and prints what became of
them: an answer that is neither a graph nor one sentence ends it with a traceback.

    python -m benchmarks.archive_mutations 5000 model.pt2 ...
"""

import argparse
import io
import json
import random
import resource
import sys
import time
import zipfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.mutations import BYTE_CHANGES, changed_document
from solvers.hardware.catalogue import catalogue
from solvers.importers.torch_export.archive import read_program
from solvers.importers.torch_export.importer import import_archive
from solvers.importers.workload import Devices, Level, Mode, Workload
from solvers.model.errors import PlacementError


def hostile_archive(number: int, programs: Sequence[Any]) -> tuple[str, bytes]:
    """Return what was done, and the archive, of this number: one of the programs, changed, or its zip file damaged."""
    rng = random.Random(number)  # noqa: S311 -- the same file every time
    program = rng.choice(programs)
    if rng.random() < 0.6:
        part = _deep_part(rng, program)
        if part is not None:
            holder, key = part
            what, text = changed_document(rng, {"part": holder[key]})
            before, holder[key] = holder[key], _read(text)
            content = json.dumps(program).encode(errors="replace")
            holder[key] = before
        else:
            what, content = changed_document(rng, program)
        return what, _zipped(content)
    what = rng.choice(list(BYTE_CHANGES))
    content = json.dumps(program).encode()
    if rng.random() < 0.5:
        return f"{what} in the zip file", BYTE_CHANGES[what](rng, _zipped(content))
    return what, _zipped(BYTE_CHANGES[what](rng, content))


def _deep_part(rng: random.Random, program: Any) -> tuple[Any, Any] | None:
    """Return a place deep in a program as its holder and key; changes near the root alone would be found early."""
    place: tuple[Any, Any] | None = None
    value = program
    for _ in range(rng.randrange(3, 14)):
        keys = list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []
        if not keys:
            break
        place = (value, rng.choice(keys))
        value = value[place[1]]
    return place


def _read(text: bytes) -> Any:
    changed = json.loads(text)
    return next(iter(changed.values()), None) if isinstance(changed, dict) else changed


def _zipped(content: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("model/models/model.json", content)
    return file.getvalue()


def main() -> None:
    """Import hostile archives and print how many of them became what."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int)
    parser.add_argument("archives", nargs="+", type=Path, help="valid archives to change")
    options = parser.parse_args()
    programs = []
    for path in options.archives:
        with path.open("rb") as file:
            programs.append(read_program(file))
    known = catalogue()
    devices = Devices(known.accelerator("H100-SXM"), known.link("nvlink4"), known.host("Xeon-8480"))
    became: Counter[str] = Counter()
    slowest = 0.0
    for number in range(options.count):
        what, content = hostile_archive(number, programs)
        workload = Workload((Mode.PREFILL, Mode.TRAINING)[number % 2], list(Level)[number % 3])
        start = time.perf_counter()
        try:
            import_archive(io.BytesIO(content), workload, devices, "a mutation", "test")
            became["imported"] += 1
        except PlacementError as error:
            is_sentence = "\n" not in str(error) and str(error).endswith(".")
            if not is_sentence:
                raise SystemExit(f"file {number} ({what}) is refused without a sentence: {error}") from error
            became["refused"] += 1
        slowest = max(slowest, time.perf_counter() - start)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    print(f"{dict(became)}, slowest {slowest:.2f} s, peak memory {memory:.0f} MiB", file=sys.stdout)


if __name__ == "__main__":
    main()
