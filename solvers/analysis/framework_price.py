"""What it costs that a framework has to be able to run the plan: the best of its plans against the best of all.

Let R* be the optimum among the splits that a framework can express and U* that among all, r <= R* <= R and
u <= U* <= U what is proven of them. Expressible splits are splits, so U* <= R*, and the price R* / U* - 1 lies between
max(0, r / U - 1) and R / u - 1.
"""

from dataclasses import dataclass
from typing import Any

from solvers.exporters.frameworks import FORMATS, Framework
from solvers.model.result import PROOF_TOLERANCE, SolveResult, SolveStatus
from solvers.quantities import milliseconds, percent


@dataclass(frozen=True, slots=True)
class FrameworkPrice:
    """The answers to a question with and without the restriction to what a framework can express.

    `least` and `most` are bounds on the price as a share of the best of all plans, None where nothing is proven.
    """

    framework: Framework
    expressible: SolveResult
    unrestricted: SolveResult

    @property
    def most(self) -> float | None:
        """The most that the restriction can cost, as a share; None without a plan or a bound."""
        value, bound = self.expressible.value_ms, self.unrestricted.lower_bound_ms
        if value is None or bound is None or bound <= 0:
            return None
        share = value / bound - 1
        return 0.0 if share <= PROOF_TOLERANCE else share

    @property
    def least(self) -> float:
        """The least that it costs, as a share."""
        bound, value = self.expressible.lower_bound_ms, self.unrestricted.value_ms
        if bound is None or value is None or value <= 0:
            return 0.0
        share = bound / value - 1
        return 0.0 if share <= PROOF_TOLERANCE else share

    @property
    def is_exact(self) -> bool:
        """Whether the price is known."""
        proven = (self.expressible.status, self.unrestricted.status)
        return self.most == 0 or proven == (SolveStatus.OPTIMAL, SolveStatus.OPTIMAL)


def price_text(price: FrameworkPrice) -> str:
    """Say in a sentence what the restriction costs, as far as that is proven."""
    title = FORMATS[price.framework].title
    ours, best = price.expressible, price.unrestricted
    if ours.value_ms is None:
        if ours.status is SolveStatus.INFEASIBLE and best.value_ms is not None:
            there_are = f"though there are plans: {milliseconds(best.value_ms)}"
            return f"No plan is expressible in {title} on these devices, {there_are}."
        return f"No plan that is expressible in {title} was found."
    what = f"Being expressible in {title} costs"
    if price.most == 0:
        return f"{what} nothing: no plan at all is faster than {milliseconds(ours.value_ms)}, which is proven."
    if price.is_exact and price.most is not None and best.value_ms is not None:
        return (
            f"{what} {percent(price.most)}: {milliseconds(ours.value_ms)}, where the best of all plans takes "
            f"{milliseconds(best.value_ms)}; both are proven optimal."
        )
    if price.most is None:
        return (
            f"{what} {percent(price.least)} or more; no bound on all plans is proven."
            if price.least
            else (f"What being expressible in {title} costs is not known: no bound on all plans is proven.")
        )
    if price.least:
        return f"{what} from {percent(price.least)} to {percent(price.most)}, as far as is proven."
    return f"{what} {percent(price.most)} at most, as far as is proven."


def price_document(price: FrameworkPrice) -> dict[str, Any]:
    """Return the JSON object that describes a price; numbers that do not exist are null."""
    return {
        "framework": str(price.framework),
        "unrestricted_status": str(price.unrestricted.status),
        "unrestricted_value_ms": price.unrestricted.value_ms,
        "unrestricted_lower_bound_ms": price.unrestricted.lower_bound_ms,
        "least_share": price.least,
        "most_share": price.most,
        "text": price_text(price),
    }
