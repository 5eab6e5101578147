"""A lesson as data: its steps with what is shown, asked and revealed, its closing question, and exercises for paper.

Lessons of the course are written in Python or in JSON (`explorer.lessons.reader`); both become these records, so the
page knows one kind. Texts are Markdown. What a lesson shows or takes for right is a function of the `Desk`, which has
the graph, the hardware and the answers of the real solvers.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from explorer.lessons.desk import Desk
from explorer.lessons.scene import Scene
from explorer.state.records import LoadedGraph
from explorer.words.wording import unbroken_formulas

Draw = Callable[[Desk], None]
"""Draws a part of a step into the page."""
Told = str | Callable[[Desk], str | None]
"""A text, or what makes one of what was computed; None while a solver is still at work."""
Sketch = Callable[[Desk], Scene]
"""Makes a figure for paper."""
Number = float | Callable[[Desk], float | None]


@dataclass(frozen=True, slots=True)
class AskNumber:
    """A number to predict. An answer is right within `tolerance`, relative; `right` and `wrong` comment on it."""

    prompt: Told
    answer: Number
    unit: str = ""
    tolerance: float = 0.02
    right: Told = ""
    wrong: Told = ""


@dataclass(frozen=True, slots=True)
class AskChoice:
    """A choice among options, the right one by its place from 0."""

    prompt: Told
    options: tuple[str, ...]
    answer: int | Callable[[Desk], int | None]
    right: Told = ""
    wrong: Told = ""


Ask = AskNumber | AskChoice


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a lesson: `text` and `draw` are there at once, `reveal` and `after` once a prediction was made.

    Without a question `reveal` and `after` are there at once, too. `is_wide` says that its figures need all of the
    width where it is presented, below the words rather than beside them.
    """

    title: str
    text: Told
    draw: Draw | None = None
    ask: Ask | None = None
    reveal: Told = ""
    after: Draw | None = None
    is_wide: bool = False


@dataclass(frozen=True, slots=True)
class Exercise:
    """An exercise for paper, with its answer; both are plain text, each with a figure where that helps."""

    question: str
    answer: Told
    given: Sketch | None = None
    drawn: Sketch | None = None


@dataclass(frozen=True, slots=True)
class Closing:
    """The question at the end, and the sentence that a student should be able to say."""

    question: str
    answer: str


def said(told: Told, desk: Desk) -> str | None:
    """Return a text as it is shown; None while a solver is still at work on a number in it."""
    text = told if isinstance(told, str) else told(desk)
    return None if text is None else unbroken_formulas(text)


@dataclass(frozen=True)
class Lesson:
    """One lesson. `name` is what addresses call it; `minutes` is how long it takes, `assumes` what it builds on.

    `setting` are parts of an address of Explore: the graph and hardware that "Open in Explore" opens. `own` is the
    graph that it brings, if it does. `has_results` says that what is submitted on its boards goes into the address.
    """

    name: str
    title: str
    question: str
    minutes: int
    assumes: str
    steps: tuple[Step, ...]
    closing: Closing
    exercises: tuple[Exercise, ...] = ()
    notes: str = ""
    setting: Mapping[str, str] = field(default_factory=dict)
    own: LoadedGraph | None = None
    has_results: bool = False

    @property
    def num_steps(self) -> int:
        """Steps with the closing question, which is the last."""
        return len(self.steps) + 1
