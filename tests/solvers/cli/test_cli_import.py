"""`placement import`: what it prints, writes and refuses."""

import json
import re
import shlex
from pathlib import Path

import pytest

from solvers.formats.graph_json import read_graph
from solvers.importers.hugging_face.config import MODEL_TYPES
from solvers.importers.hugging_face.presets import presets
from solvers.parameters.parameter import ModelWish
from tests.support.archives import archive, two_blocks
from tests.support.command_line import Run
from tests.support.profiles import PIPEDREAM, piper
from tests.support.root import ROOT
from tests.support.small_models import SMALL


@pytest.fixture
def config_file(tmp_path: Path) -> Path:
    folder = tmp_path / "my-model"
    folder.mkdir()
    path = folder / "config.json"
    path.write_text(json.dumps(SMALL["llama"]), encoding="utf-8")
    return path


def test_a_config_becomes_a_graph_that_is_solved(placement: Run, config_file: Path, tmp_path: Path) -> None:
    output = tmp_path / "graph.json"
    answer = placement("import", config_file, "--output", output, "--mode", "training", "--batch", 4)
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith(f"my-model, training\n{config_file}\n")
    assert "Assumed:\n- " in answer.out
    graph, deployment = read_graph(output)
    assert (graph.name, graph.is_training, deployment.num_accelerators) == ("my-model, training", True, 8)
    assert placement("solve", output).json["status"] == "OPTIMAL"


def test_a_folder_and_its_config_are_the_same_source(placement: Run, config_file: Path) -> None:
    whole, folder = placement("import", config_file, "--json"), placement("import", config_file.parent, "--json")
    assert whole.json == folder.json
    assert whole.json["totals"]["parameters"] > 0
    assert whole.json["assumptions"]


def test_large_numbers_of_parameters_are_written_as_people_say_them(placement: Run) -> None:
    """The published one is rounded; of the graph's own all digits are there too."""
    rows = placement("import", "--list").out.splitlines()
    (row,) = [row for row in rows if row.startswith("llama-3.1-70b ")]
    assert " 70.6 billion " in row
    assert not any(",000,000" in row for row in rows)
    assert "70.55 billion (70,553,706,496)" in placement("import", "llama-3.1-70b").out


def test_a_preset_needs_no_file(placement: Run, tmp_path: Path) -> None:
    output = tmp_path / "graph.json"
    answer = placement(
        *("import", "llama-3.1-70b", "--batch", 8, "--sequence", 4096, "--mode", "training", "--json"),
        *("--output", output),
    )
    assert answer.code == 0
    assert answer.json["totals"]["parameters"] == 70_553_706_496
    assert answer.json["nodes"] == 2 * 82
    graph, deployment = read_graph(output)
    fewest = answer.json["fewest_accelerators"]
    assert (answer.err, fewest > 8, deployment.num_accelerators % 8) == ("", True, 0)
    assert fewest <= deployment.num_accelerators < fewest + 16
    few = placement("import", "llama-3.1-70b", "--mode", "training", "--accelerators", 8)
    assert re.search(r"memory of \d+ or more such accelerators, and there are 8; give --accelerators\.", few.err)
    assert graph.times is not None
    assert graph.times.accelerator == ModelWish().device


def test_operators_are_placed_on_the_devices_that_are_asked_for(placement: Run, tmp_path: Path) -> None:
    output = tmp_path / "graph.json"
    answer = placement(
        *("import", "gpt2", "--level", "operators", "--device", "T4", "--link", "ethernet-10", "--precision", "fp16"),
        *("--accelerators", 3, "--cpus", 1, "--host", "EPYC-9654", "--output", output),
    )
    assert answer.code == 0
    graph, deployment = read_graph(output)
    assert (deployment.num_accelerators, deployment.num_cpus, deployment.memory_bytes) == (3, 1, 16e9)
    assert graph.bandwidth_bytes_per_ms == pytest.approx(1.187e6)
    assert "roofline on T4 and, for CPUs, EPYC-9654" in answer.out


def test_the_list_names_every_preset_with_its_source(placement: Run) -> None:
    text = placement("import", "--list").out
    assert all(preset.name in text and preset.config_source in text for preset in presets())
    listed = placement("import", "--list", "--json").json
    assert [entry["name"] for entry in listed] == [preset.name for preset in presets()]
    assert all(entry["published_source"].startswith("https://") for entry in listed)


def test_what_the_page_on_importing_shows_runs(
    placement: Run,
    config_file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "how-to" / "import-a-model.md").read_text(encoding="utf-8")
    commands, example = (re.findall(rf"```{what}\n(.*?)```", page, flags=re.DOTALL)[0] for what in ("sh", "python"))
    for command in commands.replace("path/to/config.json", str(config_file)).splitlines():
        answer = placement(*shlex.split(command)[1:])
        assert (answer.code, answer.err) == (0, ""), command
    exec(compile(example, "docs/how-to/import-a-model.md", "exec"), {})  # noqa: S102 -- our own text
    assert capsys.readouterr().out.startswith("8030261248\n")
    known = page.partition("## Configs")[2].partition("Any other")[0]
    assert set(MODEL_TYPES) <= set(re.findall(r"\w+", known))


def test_an_onnx_file_and_profiles_are_imported_by_their_content(placement: Run, tmp_path: Path) -> None:
    """Whatever they are called."""
    pytest.importorskip("onnx", reason="this test needs the package onnx, which is an optional extra")
    from tests.support.onnx_models import perceptrons

    path, graph = tmp_path / "model", tmp_path / "graph.json"
    path.write_bytes(perceptrons(batch="rows").SerializeToString())
    refused = placement("import", str(path))
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "give --dim rows=SIZE" in refused.err
    answer = placement("import", str(path), "--dim", "rows=8", "--output", str(graph))
    assert answer.code == 0
    assert "rows = 8" in answer.out
    assert placement("solve", str(graph)).json["status"] == "OPTIMAL"
    auto = placement("import", str(path), "--dim", "*=8", "--level", "auto", "--json")
    assert (
        auto.json["nodes"]
        == placement("import", str(path), "--dim", "*=8", "--level", "operators", "--json").json["nodes"]
    )
    for content, told in ((PIPEDREAM, "6.5 ms"), (json.dumps(piper()), "4.5 ms")):
        path.write_text(content, encoding="utf-8")
        assert told in placement("import", str(path)).out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "Give a file, the folder of a config.json, or a name that `placement import --list` has."),
        (("llama-3",), 'no file and no preset "llama-3"; the nearest names are llama-3.2-1b'),
        (("nothing.json",), '"nothing.json" cannot be read: No such file or directory.'),
        (("a\0b",), "no file and no preset"),
        (("x" * 5000,), "no file and no preset"),
        (("gpt2", "--dim", "batch"), "names no size; give one, such as batch=8"),
        (("gpt2", "--dim", "batch=many"), "is no whole number"),
        (("gpt2", "--dim", "a=0"), "--dim a is 0; give a whole number from 1"),
        (("gpt2", "--dim", "a=1", "--dim", "a=2"), "--dim names a dimension twice"),
        (("gpt2", "--time-unit", "min"), "is none of none, s, ms, us"),
        (("gpt2", "--list"), "--list lists all; leave the source out."),
        (("gpt2", "--batch", "many"), '--batch: "many" is not usable; give a whole number from 1 to'),
        (("gpt2", "--batch", "0"), '--batch: "0" is out of range; give a whole number from 1 to'),
        (("gpt2", "--sequence", "4096"), "--sequence is 4,096, and the model has positions for 1,024"),
        (("gpt2", "--mode", "guess"), "is none of prefill, decode, training"),
        (("gpt2", "--device", "H1000"), "There is no accelerator"),
        (("gpt2", "--device", "TPU-v4"), "TPU-v4 has no link in the catalogue; give --link, such as ethernet-100."),
        (("gpt2", "--device", "TPU-v4", "--link", "ethernet-100", "--precision", "fp16"), "no published peak in fp16"),
        (("gpt2", "--output", "/nowhere/graph.json"), '"/nowhere/graph.json" cannot be written'),
    ],
)
def test_bad_input_is_refused_in_a_sentence(placement: Run, arguments: tuple[str, ...], told: str) -> None:
    answer = placement("import", *arguments)
    assert (answer.code, answer.out) == (2, "")
    assert told in answer.err
    assert answer.err.count("\n") == 1


def test_a_damaged_file_is_refused_in_a_sentence(placement: Run, config_file: Path) -> None:
    config_file.write_text('{"model_type": "llama", ', encoding="utf-8")
    answer = placement("import", config_file)
    assert (answer.code, answer.out) == (2, "")
    assert "The config is not valid JSON" in answer.err


@pytest.fixture
def archive_file(tmp_path: Path) -> Path:
    path = tmp_path / "small.anything"
    path.write_bytes(archive(two_blocks(("s0", 6)).document()))
    return path


def test_an_archive_is_known_by_its_content_and_is_solved(placement: Run, archive_file: Path, tmp_path: Path) -> None:
    output = tmp_path / "graph.json"
    answer = placement(
        *("import", archive_file, "--mode", "training", "--level", "auto", "--nodes", 12, "--dim", "s0=64"),
        *("--tied", "copy", "--output", output),
    )
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith(f"small, training\n{archive_file}\n")
    assert "Open sizes are taken to be s0 = 64" in answer.out
    graph, _ = read_graph(output)
    assert len(graph.nodes) <= 12
    assert placement("solve", output).json["status"] == "OPTIMAL"
    named, all_open = (placement("import", archive_file, "--dim", f"{name}=48", "--json") for name in ("s0", "*"))
    assert (all_open.code, all_open.json) == (0, named.json)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--dim", "s0"), "'s0' names no size; give one, such as batch=8"),
        (("--dim", "s0=x"), "'x' is no whole number"),
        (("--dim", "*=4294967296"), "--dim * is 4294967296; give a whole number from 1 to"),
        (("--dim", "t=4"), "the archive has no size of that name; its open sizes are s0."),
        (("--nodes", "4"), "--nodes is how many nodes --level auto may make"),
        (("--level", "auto", "--nodes", "2"), "this model has 3 nodes; give --nodes 3 or more."),
        (("--mode", "decode"), "An archive holds the one pass that was exported"),
    ],
)
def test_what_an_archive_has_not_is_refused(
    placement: Run, archive_file: Path, arguments: tuple[str, ...], told: str
) -> None:
    answer = placement("import", archive_file, *arguments)
    assert (answer.code, answer.out) == (2, "")
    assert told in answer.err
    assert answer.err.count("\n") == 1


def test_a_damaged_archive_is_refused_in_a_sentence(placement: Run, archive_file: Path) -> None:
    archive_file.write_bytes(archive_file.read_bytes()[:-30])
    answer = placement("import", archive_file)
    assert (answer.code, answer.out) == (2, "")
    assert "The archive is damaged or incomplete" in answer.err
    assert answer.err.count("\n") == 1


@pytest.mark.parametrize("content", [None, json.dumps(SMALL["llama"]), PIPEDREAM, json.dumps(piper())])
def test_only_onnx_files_and_archives_leave_sizes_open(placement: Run, tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "model"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    answer = placement("import", "gpt2" if content is None else path, "--dim", "s0=4")
    assert (answer.code, answer.out) == (2, "")
    assert "--dim gives sizes that an ONNX file or an archive of torch.export leaves open" in answer.err
