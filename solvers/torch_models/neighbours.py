"""Other processes of this machine that run the same model while it is measured, as those of the other stages will.

Cores of one machine share caches, memory bandwidth and clock, so that an operator takes longer beside busy neighbours.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.multiprocessing

from solvers.torch_models.operators import Program


@contextmanager
def busy_neighbours(
    program: torch.export.ExportedProgram, device: torch.device, count: int, *, threads: int, is_training: bool
) -> Iterator[None]:
    """Have `count` processes pass through the program again and again; each has begun before this is entered."""
    if count == 0:
        yield
        return
    context = torch.multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program.pt2"
        torch.export.save(program, path)
        begun, stop = context.Semaphore(0), context.Event()
        asked = (str(path), str(device), threads, is_training, begun, stop)
        others = [context.Process(target=_run, args=asked, daemon=True) for _ in range(count)]
        try:
            for other in others:
                other.start()
            for _ in others:
                while not begun.acquire(timeout=1.0):
                    if any(other.exitcode is not None for other in others):
                        raise RuntimeError("A process that was to run beside the measurement ended before it.")
            yield
        finally:
            stop.set()
            for other in others:
                if other.pid is not None:
                    other.join()


def _run(path: str, device: str, threads: int, is_training: bool, begun: Any, stop: Any) -> None:
    """Pass through a program until told to stop, or until nobody is left to tell."""
    owner = os.getppid()
    torch.set_num_threads(threads)
    placed = Program(torch.export.load(path), torch.device(device), is_training=is_training)
    placed.run()
    begun.release()
    while not stop.is_set() and os.getppid() == owner:
        placed.run()
        placed.calls.clear()
