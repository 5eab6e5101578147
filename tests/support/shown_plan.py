"""One plan on the whole page as AppTest runs it: what it shows, and every file that it offers, read back."""

import csv
import html as html_text
import io
import json
import re
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import streamlit
from streamlit.testing.v1 import AppTest

from explorer.state.records import LoadedGraph
from tests.support.messages import unpack
from tests.support.opened_app import solved, visited
from tests.support.waiting import PATIENCE_S

Content = str | bytes | Callable[[], str | bytes]


@dataclass
class Shown:
    """What the page shows of a plan; `files` are the contents of the buttons in sight by their labels."""

    app: AppTest
    files: dict[str, str | bytes]

    @property
    def metrics(self) -> dict[str, tuple[str, str]]:
        """Value and small print of each headline number, by its label; escapes of Markdown taken out."""
        return {metric.label: (_plain(metric.value), _plain(metric.delta)) for metric in self.app.metric}

    @property
    def picture(self) -> dict[str, Any]:
        """The header of the message to the picture."""
        return unpack(self.app.get("bidi_component")[0].proto.bytes)[0]

    @property
    def html(self) -> str:
        """All HTML of the page, all spaces alike."""
        return " ".join(element.proto.body for element in self.app.get("html")).replace("\xa0", " ")

    @property
    def load_bars(self) -> dict[str, dict[str, str]]:
        """The parts of each device's load as they are written, by its name."""
        (table,) = re.findall(r'<table class="loads".*?</table>', self.html, re.DOTALL)
        rows = re.findall(r'<tr><th scope="row">(.*?)</th>(.*?)<td class="number">(.*?)</td></tr>', table)
        found = {}
        for name, bar, load in rows:
            parts = (text.rsplit(" ", 2) for text in re.findall(r'title="(.*?)"', bar))
            found[html_text.unescape(name)] = {
                "Load": html_text.unescape(load),
                **{part: html_text.unescape(f"{value} {unit}") for part, value, unit in parts},
            }
        return found

    @property
    def paragraphs(self) -> dict[str, list[str]]:
        """The sentences of Explain by their headings."""
        sections = re.findall(r'<section class="insight-words"><h4>(.*?)</h4>(.*?)</section>', self.html, re.DOTALL)
        return {
            html_text.unescape(title): [html_text.unescape(text) for text in re.findall(r"<p>(.*?)</p>", body)]
            for title, body in sections
        }

    @property
    def tables(self) -> dict[str, list[dict[str, str]]]:
        """The CSV tables by their names, a dictionary a row."""
        data = self.files["Tables (CSV)"]
        assert isinstance(data, bytes)
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            texts = {name.removesuffix(".csv"): archive.read(name).decode() for name in archive.namelist()}
        return {name: list(csv.DictReader(io.StringIO(text, newline=""))) for name, text in texts.items()}

    def document(self, label: str) -> Any:
        """The JSON of a file."""
        return json.loads(self.files[label])

    @property
    def report(self) -> "Report":
        """The report, read."""
        text = self.files["Report (HTML)"]
        assert isinstance(text, str)
        return Report(text)


@dataclass
class Report:
    """The report as a reader sees it."""

    text: str

    @property
    def headline(self) -> dict[str, str]:
        """Its facts; what qualifies a value stands behind a dot, the same in another unit behind an equals sign."""
        pairs = re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", self.text)
        return {_bare(name): _bare(value.replace("<small>=", " =").replace("<small>", " · ")) for name, value in pairs}

    @property
    def words(self) -> dict[str, list[str]]:
        """Its sentences by their headings."""
        sections = re.findall(r"<section><h3>(.*?)</h3>(.*?)</section>", self.text, re.DOTALL)
        return {_bare(title): [_bare(p) for p in re.findall(r"<p>(.*?)</p>", body)] for title, body in sections}

    def table(self, heading: str) -> list[dict[str, str]]:
        """The rows of the table below a heading, by the names of its columns."""
        body = self.text.split(f"<h2>{heading}</h2>", 1)[1].split("</table>", 1)[0]
        names = [_bare(name) for name in re.findall(r"<th.*?>(.*?)</th>", body)]
        rows = (re.findall(r"<td.*?>(.*?)</td>", row) for row in re.findall(r"<tr>(<td.*?)</tr>", body, re.DOTALL))
        return [dict(zip(names, map(_bare, row), strict=True)) for row in rows]

    @property
    def commands(self) -> dict[str, list[str]]:
        """The words of each command, without `placement`, by its name."""
        found = re.findall(r"<pre><code>placement (.*?)</code></pre>", self.text)
        return {words.split()[0]: html_text.unescape(words).split() for words in found}

    def data(self, identifier: str) -> Any:
        """JSON that it holds."""
        found = re.search(rf'<script type="application/json" id="{identifier}-data">(.*?)</script>', self.text, re.S)
        assert found is not None
        return json.loads(found[1])


def _bare(text: str) -> str:
    return html_text.unescape(re.sub(r"<[^>]*>", "", text)).replace("\xa0", " ").strip()


def _plain(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text or "").replace("\xa0", " ")


@contextmanager
def _kept_files(files: dict[str, Content]) -> Iterator[None]:
    """Keep what every button of a download would give."""
    button = streamlit.download_button

    def keep(label: str, data: Content, *others: Any, disabled: bool = False, **options: Any) -> Any:
        if not disabled:
            files[label] = data
        return button(label, data, *others, disabled=disabled, **options)

    with patch.object(streamlit, "download_button", keep):
        yield


def shown_sample(**query: str) -> Shown:
    """Return the page of an example at an address, solved."""
    shown = _shown(visited(**query))
    assert shown is not None
    return shown


def shown_upload(loaded: LoadedGraph, **query: str) -> Shown | None:
    """Return the page of an upload with inputs as in an address, solved; None where there is no plan."""
    app = AppTest.from_function(_uploaded, default_timeout=PATIENCE_S, kwargs={"loaded": loaded})
    for name, value in {"graph": loaded.graph.digest[:12], **query}.items():
        app.query_params[name] = value
    return _shown(solved(app.run()))


def _shown(app: AppTest) -> Shown | None:
    """Have it solved, read the files that the tab of exports offers, then go back to the explanation."""
    if not app.metric:
        app.button(key="solve").click()
        solved(app.run())
    if not app.metric:
        return None
    kept: dict[str, Content] = {}
    with _kept_files(kept):
        app.session_state["below"] = "Share and export"
        app.run()
    assert not app.exception
    files = {label: data() if callable(data) else data for label, data in kept.items()}
    app.session_state["below"] = "Explain"
    app.run()
    assert not app.exception
    return Shown(app, files)


def _uploaded(loaded: object) -> None:
    import runpy

    from explorer.state import session
    from tests.support.opened_app import APP

    if session.uploaded_graph() is None:
        session.remember_upload(loaded)  # type: ignore[arg-type]
    runpy.run_path(APP)
