"""What a Streamlit page shows, put together from the messages of its server as the browser does it.

A page is a tree. A message sets the element or the block at a path of it; what a finished run did not set again goes.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Path = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Node:
    """An element or a block, the run of the page that set it, its fragment (empty: none), and when it came."""

    message: Any
    is_block: bool
    run_id: str
    fragment_id: str
    came_s: float

    @property
    def kind(self) -> str:
        """Return what it is: "metric", "alert", "expandable", ..."""
        return self.message.WhichOneof("type") or ""


class ElementTree:
    """The elements of one page by path."""

    def __init__(self) -> None:
        self._nodes: dict[Path, Node] = {}
        self.run_id = ""

    def begin(self, run_id: str) -> None:
        """Note that what comes from now on is set by this run."""
        self.run_id = run_id

    def clear(self) -> None:
        """Forget everything: another page is shown."""
        self._nodes.clear()

    def set_element(self, path: Path, element: Any, fragment_id: str, came_s: float) -> None:
        """Put an element at a path; what was below a block there goes with the block."""
        known = self._nodes.get(path)
        if known is not None and known.is_block:
            self._drop_below(path)
        self._nodes[path] = Node(element, False, self.run_id, fragment_id, came_s)

    def set_block(self, path: Path, block: Any, fragment_id: str, came_s: float) -> None:
        """Put a block at a path; it keeps what is in a block of the same type, until the run is over."""
        known = self._nodes.get(path)
        if known is None or not known.is_block or known.kind != (block.WhichOneof("type") or ""):
            self._drop_below(path)
        self._nodes[path] = Node(block, True, self.run_id, fragment_id, came_s)

    def end(self, run_id: str, fragment_ids: tuple[str, ...]) -> None:
        """Drop what a run, of the page or of some of its fragments, did not set again."""
        if not fragment_ids and run_id != self.run_id:
            return  # another run has begun: it will tell
        stale = {
            path
            for path, node in self._nodes.items()
            if node.run_id != run_id and (not fragment_ids or node.fragment_id in fragment_ids)
        }
        blocks = {path for path in stale if self._nodes[path].is_block}
        self._nodes = {
            path: node
            for path, node in self._nodes.items()
            if path not in stale and (not blocks or not any(path[:k] in blocks for k in range(1, len(path))))
        }

    def nodes(self, kind: str = "") -> Iterator[Node]:
        """Return the nodes from top to bottom, all or those of a kind."""
        for path in sorted(self._nodes):
            node = self._nodes[path]
            if not kind or node.kind == kind:
                yield node

    def elements(self, kind: str) -> Iterator[Any]:
        """Return the elements of a kind from top to bottom, as their own messages."""
        for node in self.nodes(kind):
            if not node.is_block:
                yield getattr(node.message, kind)

    def _drop_below(self, path: Path) -> None:
        for below in [known for known in self._nodes if len(known) > len(path) and known[: len(path)] == path]:
            del self._nodes[below]
