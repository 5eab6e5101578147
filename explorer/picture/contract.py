"""What Python and the picture both name: enumerations of the message, written for JavaScript into `kit/contract.js`.

    python -m explorer.picture.contract

writes the file anew; a test says whether it is. The keys of the message are not repeated here: a test in a browser
lets the picture read a message that knows what was read, and compares both ways.
"""

import json
from pathlib import Path

from explorer.edits.operations import OPERATIONS
from explorer.layout.levels import BLOCKS, DEVICES, LAYERS, STAGES
from explorer.picture.gantt_message import PASS_LETTERS, SLOT_KINDS
from solvers.schedule.records import Pass

SELECTION_KEYS = ("node", "nodes", "group", "tensor", "device", "stage", "micro_batch", "from_ms", "to_ms", "graph")
"""What the picture tells of a selection, see `explorer.picture.component.Selection`."""
EDIT_KEYS = ("op", "nodes", "device", "graph")
"""What it tells of an edit."""

FILE = Path(__file__).parents[1] / "canvas" / "kit" / "contract.js"


def contract_source() -> str:
    """Return the module for JavaScript."""
    levels = {"LAYERS": LAYERS, "BLOCKS": BLOCKS, "STAGES": STAGES, "DEVICES": DEVICES}
    constants: dict[str, object] = {
        "SLOT_WORDS": [str(kind) for kind in SLOT_KINDS],
        **{f"SLOT_{kind.name}": i for i, kind in enumerate(SLOT_KINDS)},
        "PASS_LETTERS": list(PASS_LETTERS),
        "PASS_NAMES": [str(one).replace("-", " ") for one in Pass],
        **{f"PASS_{one.name}": PASS_LETTERS.index(one.letter) for one in (Pass.FORWARD, Pass.WEIGHT_GRADIENT)},
        **{f"LEVEL_{name}": level for name, level in levels.items()},
        **{f"EDIT_{name.upper()}": name for name in OPERATIONS},
    }
    lines = [f"export const {name} = {json.dumps(value)};" for name, value in constants.items()]
    head = "/* What Python and the picture both name. Written by `python -m explorer.picture.contract`; do not edit. */"
    return "\n".join((head, "", *lines, ""))


if __name__ == "__main__":
    FILE.write_text(contract_source(), encoding="utf-8")
