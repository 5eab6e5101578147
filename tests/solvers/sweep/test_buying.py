"""docs/how-to/choose-what-to-buy.md: its commands print what it shows, and what it says of them is so."""

import re
import shlex
from pathlib import Path

import pytest

from tests.support.command_line import Run
from tests.support.root import ROOT

DOCS = (ROOT / "docs" / "how-to" / "choose-what-to-buy.md").read_text(encoding="utf-8")


def commands(block: str) -> list[list[str]]:
    return [shlex.split(line)[1:] for line in block.replace("\\\n", " ").splitlines()]


@pytest.fixture
def printed(placement: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """What is shown, each with what is printed by the commands above it."""
    monkeypatch.chdir(tmp_path)
    shown, printed = [], ""
    for language, block in re.findall(r"```(sh|text)\n(.*?)```", DOCS, flags=re.DOTALL):
        if language == "text":
            shown.append((block, printed))
            printed = ""
            continue
        for command in commands(block):
            answer = placement(*command)
            assert answer.code == 0, answer.err
            printed += answer.out
    return shown


def test_the_example_is_as_it_says(printed: list[tuple[str, str]]) -> None:
    for shown, output in printed:
        lines = output.splitlines()
        for line in shown.splitlines():
            assert line == "..." or line in lines
    kinds, mix, links = (output for _, output in printed)

    def cells(output: str, row: str) -> list[float]:
        line = next(line for line in output.splitlines() if line.startswith(f"{row} "))
        return [float(word) for word in line[len(row) :].split() if word != "infeasible"]

    table = {k: cells(kinds, f"{k} accelerator{'s' * (k > 1)}") for k in range(1, 13)}
    one, three, nine, ten, eleven, twelve = (table[k] for k in (1, 3, 9, 10, 11, 12))
    assert nine[1] > 40 > table[8][1], "nine L40S are needed"
    assert three[3] > 40 > table[2][3], "three H100 are needed"
    assert nine[2] > 40 > table[8][2], "nine A100 are needed"
    assert twelve[0] < 40, "no number of L4 up to twelve is enough"
    assert 9 * 1.2 < 3 * 4 < 9 * 2
    assert one[3] / one[1] == pytest.approx(2.75, abs=0.005)
    assert pytest.approx(2.73, abs=0.005) == 989.4 / 362.05
    assert eleven == ten
    assert all(more > less for more, less in zip(twelve, eleven, strict=True))
    front = kinds.split("Pareto front")[1].split("Cheapest")[0]
    fronted = [line for line in front.splitlines()[1:] if line]
    first_h100 = next(i for i, line in enumerate(fronted) if "H100" in line)
    assert fronted[first_h100 - 1].startswith("12 accelerators, L40S")
    assert "A100" not in front

    with_one = cells(mix, "1 × H100-SXM")
    assert with_one[6] == nine[1], "an H100 and six L40S are as fast as nine L40S"
    assert pytest.approx(10.8 * 1.04, rel=0.005) == 4 + 6 * 1.2
    assert with_one[8] > 50
    assert max(cells(mix, "0 × H100-SXM")) < 50, "ten L40S do not reach 50"
    assert table[11][1] < 50 < table[12][1], "nor do eleven, but twelve"
    assert table[3][3] < 50 < table[4][3], "four H100 are needed for 50"
    assert 4 + 8 * 1.2 < 12 * 1.2 < 4 * 4

    def line_of(row: str) -> str:
        return next(line for line in links.splitlines() if line.startswith(f"{row} "))

    def ms(row: str) -> float:
        return float(line_of(row).split("OPTIMAL")[1].split()[0])

    assert line_of("1 x bandwidth").endswith("knee")
    usual, faster, slower = (ms(f"{factor} x bandwidth") for factor in ("1", "10", "0.1"))
    assert usual / faster - 1 == pytest.approx(0.056, abs=0.001)
    assert usual / slower == pytest.approx(2 / 3, abs=0.02)
    slowest, fastest = ms("0.0001 x bandwidth"), ms("100 x bandwidth")
    assert 1000 / slowest == pytest.approx(one[1], rel=5e-4)
    assert slowest / 9 == pytest.approx(20.6, abs=0.05)
    assert slowest / 9 < fastest < faster < usual
