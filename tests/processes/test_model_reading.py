"""Models that a process of its own imports for the app: as the library does, or refused in the same sentence."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

from explorer.form.importing import source_of_preset, source_of_upload
from explorer.server.byte_cache import VIEWS
from explorer.state.reading import Reading, read_model
from explorer.state.records import LoadedGraph, ModelSource
from solvers.hardware.catalogue import catalogue
from solvers.importers.hugging_face.presets import preset
from solvers.importers.sources import import_file, title_of
from solvers.importers.workload import SourceKind
from solvers.model.errors import PlacementError
from solvers.parameters.importing import devices_of, workload_of
from tests.support.archives import archive, two_blocks
from tests.support.profiles import PIPEDREAM, piper
from tests.support.small_models import SMALL
from tests.support.waiting import PATIENCE_S

FILES: dict[str, tuple[bytes, SourceKind]] = {
    "config.json": (json.dumps(SMALL["llama"]).encode(), SourceKind.CONFIG),
    "two.pt2": (archive(two_blocks(("s0", 6)).document()), SourceKind.ARCHIVE),
    "graph.txt": (PIPEDREAM.encode(), SourceKind.PIPEDREAM),
    "profile.json": (json.dumps(piper()).encode(), SourceKind.PIPER),
}
ASKED: dict[str, Any] = {"mode": "training", "granularity": "operators"}


@pytest.fixture(autouse=True)
def _nothing_remembered() -> None:
    VIEWS.clear()


def over(source: ModelSource, **values: str) -> Reading:
    reading = read_model(source, tuple(values.items()))
    assert reading.wait(PATIENCE_S)
    return reading


def uploaded(name: str, content: bytes) -> ModelSource:
    source = source_of_upload("1", name, content)
    assert source is not None
    return source


@pytest.mark.parametrize("name", FILES)
def test_a_process_imports_what_the_library_would_import(name: str) -> None:
    content, kind = FILES[name]
    source = uploaded(name, content)
    assert source.kind is kind
    known = catalogue()
    expected = import_file(io.BytesIO(content), workload_of({}), devices_of({}, known), name, title_of(Path(name)))
    found = over(source).outcome
    assert isinstance(found, LoadedGraph)
    assert found.facts is not None
    assert (found.graph.digest, found.deployment) == (expected.graph.digest, expected.deployment)
    assert (found.facts.totals, found.facts.assumptions) == (expected.totals, expected.assumptions)
    assert (found.origin, found.facts.key) == (expected.graph.name, source.key)


def test_options_are_those_of_the_table() -> None:
    found = over(source_of_preset(preset("gpt2")), mode="training", granularity="operators", batch="3", device="T4")
    assert isinstance(found.outcome, LoadedGraph)
    graph = found.outcome.graph
    assert graph.name == "GPT-2, training"
    assert graph.times is not None
    assert graph.times.accelerator == "T4"
    assert len(graph.nodes) > 200


@pytest.mark.parametrize(
    ("name", "content", "values"),
    [
        ("config.json", b'{"model_type": "none-such"}', {}),
        ("config.json", b'{"model_type": "llama", ', {}),
        ("config.json", json.dumps(SMALL["llama"]).encode(), {"mode": "training", "precision": "fp8"}),
        ("a.pt2", b"PK\x03\x04 and no more", {}),
        ("a.onnx", b"\x08\x07 and no more", {}),
        ("two.pt2", FILES["two.pt2"][0], {"dim": "t=3"}),
    ],
)
def test_what_cannot_be_imported_is_refused_in_the_librarys_sentence(
    name: str, content: bytes, values: dict[str, str]
) -> None:
    reading = over(uploaded(name, content), **values)
    assert reading.outcome is None
    from solvers.parameters.asked import BY_ADDRESS

    read = {BY_ADDRESS[address].name: BY_ADDRESS[address].codec.read(text) for address, text in values.items()}
    with pytest.raises(PlacementError) as refused:
        import_file(io.BytesIO(content), workload_of(read), devices_of(read, catalogue()), name, title_of(Path(name)))
    assert reading.error == str(refused.value)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b'{"nodes": [], "edges": []}',
        b'{"nodes": [{"id": 1, "name": "forward_compute_time=1 \\"model_type\\""}], "edges": []}',
        b'{"format": "dnn-placement-explorer project", "graph": {"file": {"name": "\\"model_type\\"", "nodes": []}}}',
        b"[" * 100_000,
    ],
    ids=["nothing", "broken", "list", "graph", "names", "project", "deep"],
)
def test_files_of_our_own_are_no_models(content: bytes) -> None:
    assert source_of_upload("1", "file.json", content) is None


def test_names_are_cut_and_printable() -> None:
    source = uploaded("a\0b\u202e" + "x" * 500 + ".json", FILES["config.json"][0])
    assert source.origin.isprintable()
    assert source.title.isprintable()
    assert len(source.title) <= 80
    assert over(source).error == ""
