"""Markdown of a run of `benchmarks.prediction`.

python -m benchmarks.prediction_table RUN.json > docs/explanation/prediction.md
"""

import json
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

HEAD = """# Predicted and measured

How far plans are from what they take when PyTorch runs them: {command}, of {date}, on {machine}. Written by
`python -m benchmarks.prediction_table`.

Each model is exported by `torch.export`, imported at the level of operators, measured as `placement profile
--neighbours 1 --threads 1` does, solved for two devices over the measured link ({bandwidth:.1f} GB/s), and exported
by `--to torch-pipelining`. Two processes over gloo run the script, one thread and one core each, with
{micro_batches} micro-batches, {repeats} times per plan and in turns. Before each run of a plan both processes pass
through the whole model once, and its operators are measured again as before: predictions are made of these times, so
that a machine that is faster or slower for some minutes, as virtual ones are, is so for both. Outputs and gradients are
compared with those of the whole model: the largest difference, as a share of the largest number of a tensor, is
{difference:.0e}.
"""

EXPLAINED = """
- *Predicted* periods are those of the evaluator (max-load; for GPipe the largest forward and the largest backward
  time), makespans those of the simulated schedule.
- *Measured* periods are medians of the time between micro-batches in steady state, by the clock; the *range* is
  between the quartiles. An interval in which another program had a core (a stage's
  thread ran for less than 97 % of the time of an action) is left out; where too few are left, all are used, with a
  * at the number.
- *Processor* is the processor time of the busiest process per micro-batch, gloo's threads among it: what the period
  comes to where nothing else runs and the busiest stage never waits. It depends less on
  other programs, which leave its caches cold all the same.
- Makespans are of the repeat that was disturbed least, with a * where its stages' threads ran for less than 97 % of
  the time of their actions. They run from the first action to the last: cutting the batch and scaling gradients is
  not in them.
- Plans are the optimum of the schedule's objective, the first half of the blocks on the first device, the first
  half of the parameters, and cuts where the first device has a share of the work.
"""

WRONG = """
## What was changed on the way

Of these changes only those to generated code and to the collector of garbage were measured by themselves.

- **Operators were measured by themselves**, over and over. One that is called again and again finds its inputs in
  the caches and the memory for its output at hand; in a model it meets what the others left. They are now measured
  in place, in passes through the whole model.
- **Backward passes computed gradients that nobody needs**, such as that of the images under a first convolution,
  and left out a cost that every pipeline has: adding a micro-batch's gradients to those before. Now the gradients
  of a pass run backwards through all operators, as autograd does, and weights keep theirs.
- **Two cores of one machine share caches, memory and clock.** `--neighbours 1` has another process run the same
  model while operators are measured, as the other stage will.
- **Other programs took the processor while an operator was measured.** A call of a single thread that had to wait
  counts with its processor time.
- **The stages of torch.distributed.pipelining were interpreted**, node by node: whole models of this benchmark as
  one stage, run by one thread for inference, took 100.3 ms (Llama-like) and 103.7 ms (GPT-2-like) of processor
  time, and 91.8 and 92.5 ms with generated code, which the exported script now asks for; their operators, measured,
  add up to 89.8 and 87.8 ms, and the models themselves take 85.4 and 90.3 ms.
- **The exported script sent what the plan did not**: masks and positions were computed on the first stage and sent
  to the second, with gradients. Now every stage computes its own. Tensors that do not lie in order, such as
  transposed ones, could not be sent at all.
- **Two inputs changed places** where the first stage read the second one first, as an encoder-decoder's optimum does:
  PyTorch 2.13 hands inputs over in the order in which they are read. The script now has them read in their own.
- **The machine changed its speed between the profile and the runs**, some minutes apart: in a run of the day before
  all plans of a model were off alike, those of the GPT-2-like model for inference 10 to 16 % too fast, those of the
  Llama-like model for training 14 to 25 % too slow, while in passes that take turns operators add up to the model
  within 6 %. Predictions are now made of operators that are measured between the runs; those of the profile before
  them are in the third row.
- **Asking for a gradient has a price in Python**, some 20 µs, that a pass of autograd pays once and the profile paid
  for each operator. What a call takes that computes nothing is measured in every pass, and subtracted.
- **Views took no time.** What they take is measured like everything, and now counts.
- **The benchmark held the graphs of ten plans in each process**, which Python's collector of garbage went through
  during the runs: some 3 % of the GPT-2-like model's micro-batches. What is there before the runs is now left alone
  by it.

Transfers take a few ms at most of these micro-batches, too little to tell whether gloo overlaps them with compute;
plans count them in full at both ends.

## What is left

- Where other programs ran beside a plan, which its row has a * for, its times by the clock say what these took. Its
  processor time is what the prediction can be compared with.
- A profile says what the machine does while it is measured. An earlier run, with a test run of 40 s beside its profile,
  predicted the Llama-like model 46 to 51 % too slow for every plan alike.
- What the framework adds to a micro-batch (keeping its inputs for the backward pass, handing tensors to gloo) is not in
  the operators: most predictions are a few per cent too fast.
- Constants of the exported graph (masks, positions, angles) are computed for every micro-batch; plans do not have them.
- The loss has to be in the model. The optimizer's step is not run.
"""


def table(document: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of the page."""
    results, effort = document["results"], document["effort"]
    differences = [max(one["output_difference"], one["gradient_difference"] or 0.0) for one in results]
    yield HEAD.format(
        command="`python -m benchmarks.prediction`",
        date=document["date"],
        machine=document["machine"],
        bandwidth=document["link"]["bandwidth_bytes_per_ms"] / 1e6,
        micro_batches=effort["micro_batches"],
        repeats=effort["repeats"],
        difference=max(differences),
    )
    yield "| figure | plans | median error | worst error |"
    yield "|---|---:|---:|---:|"
    undisturbed = [one for one in results if not _is_disturbed(one, effort)]
    for name, among, predicted, measured in (
        ("period, by the clock, undisturbed", undisturbed, "predicted_period_ms", "period_ms"),
        ("period, by the clock, all", results, "predicted_period_ms", "period_ms"),
        ("the same, by the operators' times of before the runs", results, "planned_period_ms", "period_ms"),
        ("period, processor", results, "predicted_period_ms", "processor_period_ms"),
    ):
        yield _summary(name, [abs(_error(one[predicted], one[measured])) for one in among])
    calm = [one for one in results if max(one["processor_shares"]) >= UNDISTURBED]
    for name, among in (("makespan, undisturbed", calm), ("makespan, all", results)):
        yield _summary(name, [abs(_error(one["predicted_makespan_ms"], _makespan(one)[0])) for one in among])
    yield ""
    agree, compared = _order(undisturbed, "period_ms")
    of_processors = " of ".join(map(str, _order(results, "processor_period_ms")))
    yield (
        f"Of {compared} undisturbed pairs of plans of one model and schedule, whose measured periods differ by more "
        f"than the larger of their ranges, {agree} are predicted in the measured order; by processor time, of those "
        f"that differ by more than {100 * NOISE:.0f} %, {of_processors}."
    )
    yield ""
    yield _neighbours(results)
    yield EXPLAINED
    columns = (
        "model", "schedule", "plan", "predicted, ms", "measured, ms", "range, ms", "error", "processor, ms", "error",
        "makespan: predicted, ms", "measured, ms", "error",
    )  # fmt: skip
    yield f"| {' | '.join(columns)} |"
    yield f"|{'---|' * 3}{'---:|' * 9}"
    for one in results:
        period, processor = one["period_ms"], one["processor_period_ms"]
        makespan, share = _makespan(one)
        predicted = one["predicted_period_ms"]
        yield (
            f"| {one['model']} | {one['schedule']} | {one['plan']} | {predicted:.1f} | "
            f"{period:.1f}{'*' * _is_disturbed(one, effort)} | {one['period_range_ms']:.1f} | "
            f"{_error(predicted, period):+.1f} % | {processor:.1f} | {_error(predicted, processor):+.1f} % | "
            f"{one['predicted_makespan_ms']:.0f} | {makespan:.0f}{'*' * (share < UNDISTURBED)} | "
            f"{_error(one['predicted_makespan_ms'], makespan):+.1f} % |"
        )
    yield WRONG


UNDISTURBED, NOISE = 0.97, 0.03


def _error(predicted: float, measured: float) -> float:
    return 100 * (predicted / measured - 1)


def _makespan(one: dict[str, Any]) -> tuple[float, float]:
    share, makespan = max(zip(one["processor_shares"], one["makespans_ms"], strict=True))
    return makespan, share


def _is_disturbed(one: dict[str, Any], effort: dict[str, Any]) -> bool:
    """Whether intervals in which something else ran had to be used."""
    every = (one["micro_batches"] - 2) * len(one["makespans_ms"]) * (2 if one["schedule"] == "gpipe" else 1)
    return bool(one["intervals"] + one["disturbed"] > every)


def _neighbours(results: Sequence[dict[str, Any]]) -> str:
    """Return how much slower a model is beside another process, and by how much models changed their speed."""
    modes: dict[tuple[str, bool], list[dict[str, Any]]] = defaultdict(list)
    for one in results:
        modes[one["model"], one["schedule"] == "inference"].append(one)
    beside = [own[0]["beside_ms"] / own[0]["alone_ms"] - 1 for own in modes.values()]
    drifts = [statistics.median(abs(_error(one["planned_period_ms"], one["predicted_period_ms"])) for one in own)
              for own in modes.values()]  # fmt: skip
    return (
        f"A pass through a model takes {100 * min(beside):.0f} % to {100 * max(beside):.0f} % more processor time "
        "beside another one than alone. From the profile before the runs to the passes between them, predicted periods "
        "changed by "
        f"{min(drifts):.0f} % to {max(drifts):.0f} %, model by model."
    )


def _summary(name: str, errors: Sequence[float]) -> str:
    if not errors:
        return f"| {name} | 0 | | |"
    return f"| {name} | {len(errors)} | {statistics.median(errors):.1f} % | {max(errors):.1f} % |"


def _order(results: Sequence[dict[str, Any]], measured: str) -> tuple[int, int]:
    """Return how many pairs of plans are predicted in the measured order, and of how many."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for one in results:
        groups[one["model"], one["schedule"]].append(one)
    agree = compared = 0
    for plans in groups.values():
        for a, b in combinations(plans, 2):
            by_clock = measured == "period_ms"
            noise = (
                max(a["period_range_ms"], b["period_range_ms"]) if by_clock else NOISE * max(a[measured], b[measured])
            )
            difference = a[measured] - b[measured]
            if abs(difference) > noise:
                compared += 1
                agree += (a["predicted_period_ms"] - b["predicted_period_ms"]) * difference > 0
    return agree, compared


if __name__ == "__main__":
    print("\n".join(table(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))))
