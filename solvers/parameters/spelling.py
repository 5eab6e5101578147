"""Sentences that name options of the command line, as a form says them: by the labels of its fields.

Whoever refuses something writes the remedy once, with the option: "solve with --expressible-in vllm".
"""

import re
from collections.abc import Iterable
from typing import Any

from solvers.parameters.parameter import Parameter


def in_the_form(sentence: str, parameters: Iterable[Parameter[Any]]) -> str:
    """Return a sentence with each option of these parameters, and its values behind it, as the form has it.

    >>> from solvers.parameters.schedule import SCHEDULE
    >>> in_the_form("choose one of --schedule gpipe, 1f1b.", [SCHEDULE])
    'choose one of “Schedule”: GPipe, 1F1B.'
    >>> from solvers.parameters.question import EXPRESSIBLE_IN
    >>> in_the_form("solve with --expressible-in vllm.", [EXPRESSIBLE_IN])
    'solve with “Expressible in”: vLLM.'
    >>> from solvers.parameters.importing import DIM
    >>> in_the_form("give --dim a=SIZE --dim b=SIZE, or --dim '*=SIZE'.", [DIM])
    "give “Open dimensions” a=SIZE, b=SIZE, or “Open dimensions” '*=SIZE'."
    """
    for parameter in parameters:
        if parameter.flag is None:
            continue
        names = {parameter.codec.write(value): value for value in parameter.codec.one_of if value is not None}
        word = "|".join(map(re.escape, sorted(names, key=len, reverse=True))) or "(?!)"
        value = rf"(?:{word})(?![\w-])"

        def said(found: re.Match[str], parameter: Parameter[Any] = parameter, names: dict[str, Any] = names) -> str:
            label = f"“{parameter.label}”"
            texts = [] if found[1] is None else found[1].split(", ")
            values = ", ".join(parameter.names.get(names[text], text) for text in texts)
            return f"{label}: {values}" if values else label

        sentence = re.sub(rf"(=\S+) {parameter.flag} ", r"\1, ", sentence)  # repeated, which in a form is one field
        sentence = re.sub(rf"{parameter.flag}(?![\w-])(?:[ =]({value}(?:, {value})*))?", said, sentence)
    return sentence
