"""The command that compiles the solvers ahead of their first use: `placement warm-up`."""

import argparse
import time
from typing import Any

from solvers.cli.commands import add_command
from solvers.cli.output import print_json, say
from solvers.warm_up import compile_all


def add_warm_up(commands: Any) -> None:
    """Add the command `warm-up` to the commands of the parser."""
    parser = add_command(
        commands,
        "warm-up",
        "compile the solvers ahead of the first solve",
        "warm-up",
        description="Compiles the solvers into the cache of numba, which takes a minute or two, once after an "
        "installation or update. The first solve does so where nobody has. Set NUMBA_CACHE_DIR for a folder of your "
        "own, such as one that several users or containers share.",
    )
    parser.set_defaults(run=_warm_up)


def _warm_up(_: argparse.Namespace) -> int:
    began = time.monotonic()
    kernels = compile_all(lambda step: say(f"compiling, {step} ..."))
    print_json({"kernels": kernels, "runtime_s": round(time.monotonic() - began, 3)})
    return 0
