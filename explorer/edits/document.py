"""Edit histories as plain JSON documents, for project files and addresses: read with care, they come from anywhere.

    {"version": 1, "graph": digest, "base": PLACES, "steps": [{"what", "moved": PLACES, "pinned": IDS,
     "together": [IDS, ...]}, ...], "at": number of steps in force}

PLACES maps a device ("accelerator 2", "cpu 1") to IDS; IDS is a text such as "1..30,35": runs of node ids. What solvers
have proven is not written, since a file proves nothing; solving again tells.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from explorer.edits.history import MAX_NAMED, MAX_STEPS, History, Place, Step
from solvers.model.deployment import MAX_DEVICES
from solvers.model.errors import PlacementError
from solvers.model.graph import DnnGraph
from solvers.problem.pins import pins_of

VERSION = 1
NAMED_BY_A_STEP = 3
"""How often a step may name each node: as moved, as pinned and as kept together."""
MAX_TEXT = 300
"""Characters kept of what a step says of itself."""


class EditDocumentError(PlacementError):
    """A document that is not an edit history of the graph."""


def to_document(history: History) -> dict[str, Any]:
    """Return a history as a JSON object; `from_document` gives it back, but for proofs."""
    return {
        "version": VERSION,
        "graph": history.graph_digest,
        "base": _places_text(history.base),
        "steps": [
            {
                "what": step.what,
                "moved": _places_text(step.moved),
                "pinned": ids_text(step.pinned),
                "together": [ids_text(ids) for ids in step.together],
            }
            for step in history.steps
        ],
        "at": history.at,
    }


def from_document(document: Any, graph: DnnGraph) -> History:
    """Return the history in a document; EditDocumentError, in one sentence, when it is none of this graph."""
    fields = _object(document, "the edits")
    if fields.get("version") != VERSION:
        raise EditDocumentError(f"The edits are not of version {VERSION}, which this program reads.")
    if fields.get("graph") != graph.digest:
        raise EditDocumentError("The edits belong to another graph; open that graph first.")
    reader = _Reader(graph)
    base = reader.places(fields.get("base"))
    if len(base) != len(graph.nodes):
        raise EditDocumentError(
            f"The edits place {len(base)} of {len(graph.nodes)} nodes to begin with; each must have a device."
        )
    steps = fields.get("steps")
    if not isinstance(steps, list) or len(steps) > MAX_STEPS:
        raise EditDocumentError(f"The edits need a list of at most {MAX_STEPS} steps.")
    at = fields.get("at")
    if not isinstance(at, int) or isinstance(at, bool) or not 0 <= at <= len(steps):
        raise EditDocumentError("The edits do not say how many of their steps are in force.")
    return History(graph.digest, base, tuple(map(reader.step, steps)), at)


def ids_text(ids: Iterable[int]) -> str:
    """Write node ids as runs.

    >>> ids_text({1, 2, 3, 7, -5})
    '-5,1..3,7'
    """
    runs: list[list[int]] = []
    for v in sorted(ids):
        if runs and v == runs[-1][1] + 1:
            runs[-1][1] = v
        else:
            runs.append([v, v])
    return ",".join(str(first) if first == last else f"{first}..{last}" for first, last in runs)


def ids_from_text(text: Any, known: Collection[int]) -> frozenset[int]:
    """Return the ids that `ids_text` wrote; all must be known, and none be named twice.

    >>> sorted(ids_from_text("1..3,7", {1, 2, 3, 7}))
    [1, 2, 3, 7]
    """
    found: set[int] = set()
    for part in filter(None, _text(text).split(",")):
        match = re.fullmatch(r"(-?\d{1,16})(?:\.\.(-?\d{1,16}))?", part)
        first = int(match[1]) if match else 0
        last = int(match[2] or match[1]) if match else -1
        # The length first: a run must not be longer than the graph, whatever the file says.
        if not 0 <= last - first < len(known) or not all(v in known for v in range(first, last + 1)):
            raise EditDocumentError(f"The edits name nodes {part[:40]!r}, which the graph does not have.")
        run = range(first, last + 1)
        # Also a matter of time: a short address can unfold to the whole graph a hundred thousand times.
        if not found.isdisjoint(run):
            raise EditDocumentError(f"The edits name nodes {part!r} twice in one place; keep one.")
        found.update(run)
    return frozenset(found)


def _places_text(places: Mapping[int, Place]) -> dict[str, str]:
    of_device: dict[Place, list[int]] = {}
    for v, where in places.items():
        of_device.setdefault(where, []).append(v)
    return {where.name.lower(): ids_text(ids) for where, ids in sorted(of_device.items())}


class _Reader:
    """Reads places and steps of one graph, and counts the nodes they name.

    A few hundred characters can say of 500 steps that each moves, pins and ties the whole graph. So what is said again
    is not made again, and what is made may name MAX_NAMED nodes in all, beside the base.
    """

    def __init__(self, graph: DnnGraph) -> None:
        self._known = graph.node_by_id
        self._left = max(MAX_NAMED, NAMED_BY_A_STEP * len(graph.nodes)) + len(graph.nodes)
        self._made: dict[object, Any] = {}

    def places(self, document: Any) -> Mapping[int, Place]:
        """Return where nodes are, by a JSON object of texts by device."""
        named = tuple((name, _text(text)) for name, text in _object(document, "the places of the edits").items())
        places: Mapping[int, Place] = self._once(self._new_places, named)
        return places

    def step(self, document: Any) -> Step:
        """Return a step."""
        fields = _object(document, "a step of the edits")
        what, groups = fields.get("what"), fields.get("together", [])
        if not isinstance(what, str) or not isinstance(groups, list):
            raise EditDocumentError("A step of the edits has no text 'what', or no list 'together'.")
        shown = "".join(c if c.isprintable() else " " for c in what[:MAX_TEXT]).strip() or "An edit"
        together = self._once(self._new_groups, tuple(map(_text, groups)))
        pinned = self._once(self._new_ids, _text(fields.get("pinned", "")))
        return Step(shown, self.places(fields.get("moved", {})), pinned, together)

    def _once(self, make: Callable[[Any], Any], said: object) -> Any:
        key = make.__name__, said
        if key not in self._made:
            self._made[key] = make(said)
        return self._made[key]

    def _new_ids(self, text: str) -> frozenset[int]:
        ids = ids_from_text(text, self._known)
        self._left -= len(ids)
        if self._left < 0:
            raise EditDocumentError("The edits name more nodes in all than are read; keep the last steps of them.")
        return ids

    def _new_places(self, named: tuple[tuple[str, str], ...]) -> dict[int, Place]:
        places: dict[int, Place] = {}
        for name, text in named:
            match = re.fullmatch(r"(accelerator|cpu) (\d{1,4})", name)
            if match is None or not 1 <= int(match[2]) <= MAX_DEVICES:
                raise EditDocumentError(f"The edits name the device {name[:40]!r}; write 'accelerator 2' or 'cpu 1'.")
            where = Place(match[1] == "cpu", int(match[2]) - 1)
            for v in self._new_ids(text):
                if v in places:
                    raise EditDocumentError(f"The edits put node {v} on two devices at once; keep one.")
                places[v] = where
        return places

    def _new_groups(self, groups: tuple[str, ...]) -> tuple[tuple[int, ...], ...]:
        together: list[frozenset[int]] = []
        seen: set[int] = set()
        for text in groups:
            ids = self._new_ids(text)
            if not ids or not seen.isdisjoint(ids):
                raise EditDocumentError("A step of the edits has a group without nodes, or a node in two groups.")
            seen |= ids
            together.append(ids)
        return pins_of({}, together).together


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise EditDocumentError("The edits hold node ids that are no text such as '1..30,35'.")
    return value


def _object(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
        raise EditDocumentError(f"{what[0].upper()}{what[1:]} are not a JSON object.")
    return value
