"""A lesson as JSON, in the format of `docs/tutorials/a-class.md`: text in Markdown, a graph, hardware, and steps.

A lesson of somebody's is untrusted: it is text and numbers only. Its texts may hold no image, link or HTML, its graph
and hardware are read by the readers of graph files and addresses, its figures and values are named from the tables
below, and all of it is bounded. What is wrong is said in one sentence that names the place.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from explorer.lessons.desk import Desk, Setting, SettingError, link_of_setting, subject_of
from explorer.lessons.graphs import graph_scene
from explorer.lessons.named_figures import FIGURES, VALUES, NamedFigure, NamedValue
from explorer.lessons.records import Ask, AskChoice, AskNumber, Closing, Exercise, Lesson, Sketch, Step, Told
from explorer.lessons.scene import Scene
from explorer.server.byte_cache import remembered
from explorer.state.records import LoadedGraph
from solvers.formats.graph_json import graph_from_document
from solvers.formats.json_fields import parse_object
from solvers.model.errors import PlacementError
from solvers.quantities import number

FORMAT = "placement lesson"
VERSION = 1
MAX_FILE_BYTES = 2 * 2**20
MAX_STEPS, MAX_EXERCISES, MAX_VALUES, MAX_FIGURES, MAX_OPTIONS = 20, 30, 40, 4, 8
MAX_TEXT, MAX_LINE = 6_000, 200
MAX_NODES = 2_000
MAX_MINUTES = 300

NOT_TEXT = re.compile(
    r"!\[|\][(\[:]|<[a-z/!]|://|\bwww\.|\b(?:https?|ftp|mailto|xmpp|javascript|data):|[\w.+-]@[\w-]|&#?\w+;|:material/",
    re.IGNORECASE,
)
"""What in Markdown is more than text: images, links (also those that stand by themselves, and what defines one
elsewhere), HTML, characters written as entities, which could spell any of these, and icons."""
PLACEHOLDER = re.compile(r"\{([a-z][a-z0-9_]{0,30})\}")


class LessonError(PlacementError):
    """A file that is no usable lesson; the text says in one sentence where and what to give."""


def read_lesson(text: bytes, name: str) -> Lesson:
    """Return a lesson from its JSON, to be called `name` in addresses; LessonError for what is none."""
    return remembered("lesson", (text, name), lambda: _Reader(text, name).lesson(), lambda _: 20 * len(text))


class _Reader:
    """The reading of one file."""

    def __init__(self, text: bytes, name: str) -> None:
        if len(text) > MAX_FILE_BYTES:
            raise LessonError(f"The lesson is too long; up to {MAX_FILE_BYTES // 2**20} MiB are read.")
        self.name = name
        self.document = parse_object(text, "lesson", LessonError)
        self.loaded: LoadedGraph | None = None
        self.values: dict[str, tuple[NamedValue, Setting]] = {}
        self.setting: dict[str, str] = {}

    def lesson(self) -> Lesson:
        """Return the lesson."""
        top = self.document
        if top.get("format") != FORMAT or top.get("version") != VERSION:
            raise LessonError(f'The file is no lesson; it must say "format": "{FORMAT}", "version": {VERSION}.')
        known = "format version title question minutes assumes notes graph setting values steps closing exercises"
        _known_fields(top, known, "the lesson")
        if "graph" in top:
            self.loaded = self._graph(_object(top["graph"], "'graph'"))
        self.setting = self._setting(top.get("setting", {}), "'setting'", {})
        for name, raw in _object(top.get("values", {}), "'values'").items():
            self.values[name] = self._value(name, raw)
        if len(self.values) > MAX_VALUES:
            raise LessonError(f"'values' has {len(self.values)} entries; give up to {MAX_VALUES}.")
        steps = _list(top.get("steps"), "'steps'", 1, MAX_STEPS)
        closing = _object(top.get("closing"), "'closing'")
        minutes = top.get("minutes")
        if not isinstance(minutes, int) or isinstance(minutes, bool) or not 1 <= minutes <= MAX_MINUTES:
            raise LessonError(f"'minutes' must be a whole number from 1 to {MAX_MINUTES}.")
        return Lesson(
            name=self.name,
            title=_line(top, "title", "the lesson"),
            question=_line(top, "question", "the lesson"),
            minutes=minutes,
            assumes=_text(top.get("assumes", ""), "'assumes'"),
            steps=tuple(self._step(raw, f"step {i}") for i, raw in enumerate(steps, start=1)),
            closing=Closing(
                _text(closing.get("question"), "closing: 'question'"), _text(closing.get("answer"), "closing: 'answer'")
            ),
            exercises=tuple(
                self._exercise(raw, f"exercise {i}")
                for i, raw in enumerate(_list(top.get("exercises", []), "'exercises'", 0, MAX_EXERCISES), start=1)
            ),
            notes=_text(top.get("notes", ""), "'notes'"),
            setting=self.setting,
            own=self.loaded,
        )

    def _graph(self, raw: dict[str, Any]) -> LoadedGraph:
        nodes = raw.get("nodes")
        if isinstance(nodes, list) and len(nodes) > MAX_NODES:
            raise LessonError(f"'graph' has {len(nodes)} nodes; a lesson may have up to {MAX_NODES}.")
        try:
            graph, deployment = graph_from_document(raw, "graph of the lesson")
        except PlacementError as error:
            raise LessonError(f"'graph': {error}") from None
        return LoadedGraph(graph, deployment, graph.name)

    def _setting(self, raw: Any, place: str, base: Mapping[str, str]) -> dict[str, str]:
        fields = _object(raw, place)
        if not all(isinstance(value, str | int | float) and not isinstance(value, bool) for value in fields.values()):
            raise LessonError(f"{place}: every part must be a text or a number, as in an address of Explore.")
        setting = {**base, **{name: str(value) for name, value in fields.items()}}
        try:
            link = link_of_setting(setting, self.loaded)
            if link.sample is None and link.graph is None:
                raise LessonError(f"{place}: there is no graph; give a 'graph' to the lesson or a 'sample' here.")
            if any((link.edits, link.shared, link.keep, link.lesson, link.step)):
                raise LessonError(f"{place}: give graph, hardware and solver only.")
            subject_of(setting, self.loaded)
        except SettingError as error:
            raise LessonError(f"{place}: {error}") from None
        return setting

    def _value(self, name: str, raw: Any) -> tuple[NamedValue, Setting]:
        place = f"value '{name[:40]}'"
        if PLACEHOLDER.fullmatch(f"{{{name}}}") is None:
            raise LessonError(f"{place}: a name is of small letters, digits and _, up to 30.")
        fields = _object(raw, place)
        _known_fields(fields, "of setting schedule micro_batches", place)
        make = VALUES.get(str(fields.get("of")))
        if make is None:
            raise LessonError(f"{place}: 'of' must be one of {', '.join(VALUES)}.")
        setting = self._setting(fields.get("setting", {}), f"{place}: 'setting'", self.setting)
        try:
            return make(fields), setting
        except ValueError as error:
            raise LessonError(f"{place}: {error}") from None

    def _step(self, raw: Any, place: str) -> Step:
        fields = _object(raw, place)
        _known_fields(fields, "title text figures ask reveal after", place)
        return Step(
            _line(fields, "title", place),
            self._told(fields.get("text"), f"{place}: 'text'"),
            self._figures(fields.get("figures", []), f"{place}: 'figures'"),
            None if fields.get("ask") is None else self._ask(_object(fields["ask"], f"{place}: 'ask'"), place),
            self._told(fields.get("reveal", ""), f"{place}: 'reveal'"),
            self._figures(fields.get("after", []), f"{place}: 'after'"),
        )

    def _figures(self, raw: Any, place: str) -> Callable[[Any], None] | None:
        drawn: list[tuple[NamedFigure, Setting]] = []
        for i, one in enumerate(_list(raw, place, 0, MAX_FIGURES), start=1):
            where = f"{place} {i}"
            fields = _object(one, where)
            _known_fields(fields, "show setting schedule micro_batches title against against_title", where)
            make = FIGURES.get(str(fields.get("show")))
            if make is None:
                raise LessonError(f"{where}: 'show' must be one of {', '.join(FIGURES)}.")
            for name in ("title", "against_title"):
                if name in fields:
                    _line(fields, name, where)
            setting = self._setting(fields.get("setting", {}), f"{where}: 'setting'", self.setting)
            if "against" in fields:
                fields = {**fields, "against": self._setting(fields["against"], f"{where}: 'against'", setting)}
            try:
                drawn.append((make({**fields, "place": f"{place[:12]}{i}"}), setting))
            except ValueError as error:
                raise LessonError(f"{where}: {error}") from None
        if not drawn:
            return None

        def draw(desk: Any) -> None:
            for figure, setting in drawn:
                figure(desk, setting)

        return draw

    def _ask(self, fields: dict[str, Any], step: str) -> Ask:
        place = f"{step}: 'ask'"
        _known_fields(fields, "prompt number choice options unit tolerance right wrong", place)
        prompt = self._told(fields.get("prompt"), f"{place}: 'prompt'")
        right, wrong = (self._told(fields.get(name, ""), f"{place}: '{name}'") for name in ("right", "wrong"))
        if ("number" in fields) == ("choice" in fields):
            raise LessonError(f"{place}: give either 'number' or 'choice'.")
        if "choice" in fields:
            raw = _list(fields.get("options"), f"{place}: 'options'", 2, MAX_OPTIONS)
            options = tuple(_text(one, f"{place}: 'options'")[:MAX_LINE] for one in raw)
            at = fields["choice"]
            if not isinstance(at, int) or isinstance(at, bool) or not 1 <= at <= len(options):
                raise LessonError(f"{place}: 'choice' must be the place of the right option, from 1.")
            return AskChoice(prompt, options, at - 1, right, wrong)
        tolerance = fields.get("tolerance", 0.02)
        if not isinstance(tolerance, int | float) or isinstance(tolerance, bool) or not 0 <= tolerance <= 1:
            raise LessonError(f"{place}: 'tolerance' must be a share from 0 to 1.")
        unit = _text(fields.get("unit", ""), f"{place}: 'unit'")[:20]
        return AskNumber(prompt, self._number(fields["number"], f"{place}: 'number'"), unit, tolerance, right, wrong)

    def _number(self, raw: Any, place: str) -> Any:
        if isinstance(raw, str):
            if raw not in self.values:
                raise LessonError(f"{place}: there is no value '{raw[:40]}'; name one of 'values', or give a number.")
            value, setting = self.values[raw]
            return lambda desk: value(desk, setting)
        if not isinstance(raw, int | float) or isinstance(raw, bool) or not abs(raw) < 1e15:
            raise LessonError(f"{place} must be a number, or the name of one of 'values'.")
        return float(raw)

    def _exercise(self, raw: Any, place: str) -> Exercise:
        fields = _object(raw, place)
        _known_fields(fields, "question answer graph plan", place)
        question = _text(fields.get("question"), f"{place}: 'question'")
        answer = self._told(fields.get("answer"), f"{place}: 'answer'")
        return Exercise(question, answer, *(self._sketch(fields, name, place) for name in ("graph", "plan")))

    def _sketch(self, fields: dict[str, Any], name: str, place: str) -> Sketch | None:
        if name not in fields:
            return None
        setting = self._setting(fields[name], f"{place}: '{name}'", self.setting)

        def drawn(desk: Desk) -> Scene:
            subject = desk.subject(setting)
            result = desk.answer(setting) if name == "plan" else None
            return graph_scene(subject.graph, subject.question.deployment, None if result is None else result.split)

        return drawn

    def _told(self, raw: Any, place: str) -> Told:
        """Return a text, in which a value's name in braces stands for its number."""
        text = _text(raw, place)
        names = PLACEHOLDER.findall(text)
        for name in names:
            if name not in self.values:
                raise LessonError(f"{place} has {{{name}}}, and 'values' has no such name; add it there.")
        if not names:
            return text

        def told(desk: Any) -> str | None:
            found: dict[str, str] = {}
            for name in names:
                value, setting = self.values[name]
                got = value(desk, setting)
                if got is None:
                    return None
                found[name] = number(got)
            return PLACEHOLDER.sub(lambda match: found[match[1]], text)

        return told


def _object(value: Any, place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise LessonError(f"{place} must be an object with named fields.")
    return value


def _list(value: Any, place: str, least: int, most: int) -> list[Any]:
    if not isinstance(value, list) or not least <= len(value) <= most:
        raise LessonError(f"{place} must be a list of {least} to {most} entries.")
    return value


def _known_fields(fields: Mapping[str, Any], known: str, place: str) -> None:
    for name in fields:
        if name not in known.split():
            raise LessonError(f"{place} has a field '{name[:40]}'; the fields are {', '.join(known.split())}.")


def _line(fields: Mapping[str, Any], name: str, place: str) -> str:
    text = _text(fields.get(name), f"{place}: '{name}'")
    if not text.strip() or len(text) > MAX_LINE or "\n" in text:
        raise LessonError(f"{place}: '{name}' must be one line of up to {MAX_LINE} characters.")
    return text


def _text(value: Any, place: str) -> str:
    if not isinstance(value, str):
        raise LessonError(f"{place} must be a text.")
    if len(value) > MAX_TEXT:
        raise LessonError(f"{place} has {len(value)} characters; give up to {MAX_TEXT}.")
    if (found := NOT_TEXT.search(value)) is not None:
        raise LessonError(f"{place} has '{found[0]}'; a lesson is text, without images, links, icons and HTML.")
    return value.encode("utf-8", "replace").decode("utf-8")
