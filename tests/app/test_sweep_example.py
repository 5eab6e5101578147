"""The page Sweep before its first sweep: an example that is solved, and goes when there is one."""

from dataclasses import replace

import pytest
from streamlit.testing.v1 import AppTest

from explorer.sweep.example import ACCELERATORS, SAMPLE
from solvers.samples import read_sample
from solvers.solve import solve
from tests.support.waiting import PATIENCE_S, eventually

pytestmark = pytest.mark.usefixtures("solver_processes")
TITLE = "##### An example"


def sweep_page() -> None:
    from explorer.sweep.page import show

    show()


def drawn(app: AppTest) -> AppTest:
    app.run()
    assert not app.exception
    return app


def shows_example(app: AppTest) -> bool:
    return any(text.value == TITLE for text in app.markdown) and bool(app.get("plotly_chart"))


def test_an_example_is_solved_and_drawn_until_there_is_a_sweep() -> None:
    app = AppTest.from_function(sweep_page, default_timeout=PATIENCE_S)
    for name, value in {"sample": "teaching_chain", "over": "accelerators", "values": "1"}.items():
        app.query_params[name] = value
    run = drawn(app).session_state["batch sweep example"]
    eventually(lambda: not run.state().is_running)
    assert shows_example(drawn(app))
    graph, deployment = read_sample(SAMPLE)
    for (i,), result in run.state().answers.items():
        fresh = solve(graph, replace(deployment, num_accelerators=ACCELERATORS[i])).value_ms
        assert result.value_ms == pytest.approx(fresh, rel=1e-9)
    assert len(run.state().answers) == len(ACCELERATORS)

    app.button(key="start_sweep").click()
    assert not shows_example(drawn(app))
    eventually(lambda: not app.session_state["sweep"].run.state().is_running)
    assert not shows_example(drawn(app))
