"""What is written on boxes: the telling part of long names, and what stands for a name that does not fit."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence

COMMON_SHARE = 0.5
"""A beginning is common where at least this share of the names has it."""

MOST_CHARACTERS = 12
"""What stands for a name is abbreviated where it has more characters: it has to fit on a small box."""

ABBREVIATIONS = {
    "convolution": "conv",
    "normalization": "norm",
    "normalisation": "norm",
    "attention": "attn",
    "embedding": "embed",
}
"""Words as papers and model code shorten them."""


def telling_end(title: str) -> str:
    """Keep the telling end of a dotted or slashed name; other names stay whole.

    >>> telling_end("encoder.layer.3.attention.query.weight"), telling_end("gpu_0/res5_2_bn")
    ('query.weight', 'res5_2_bn')
    """
    if not re.fullmatch(r"[\w.:/-]+", title):
        return title
    end = title.rsplit("/", 1)[-1] or title
    parts = [part for part in re.split(r"\.", end) if part]
    return ".".join(parts[-2:]) if len(parts) > 2 else end


def short_names(labels: Sequence[str]) -> tuple[str, ...]:
    """Return what may stand for each label: what follows the longest beginning that most share, else its last word.

    Else what follows a beginning that two share, as short as it can be and still have a word; else how a word is
    usually abbreviated; "" where there is none. A box of several is called by their numbers rather than by nothing.
    Beginnings end between words and numbers; a last word is of letters. Long ones have usual abbreviations, and so has
    a last word: beside the whole name it is there to be short.

    >>> short_names(("down 1 conv 1", "down 1 conv 2", "up 1 conv 1", "Concat_8", "Concat_9", "MatMul_3", "Softmax"))
    ('conv 1', 'conv 2', '', '', '', '', '')
    >>> short_names(("embedding", "block 1", "block 2", "block 3", "output head"))
    ('embed', '1', '2', '3', 'head')
    >>> short_names(("stage 1 block 1", "stage 1 block 2", "stage 2 block 1", "stage 3 pool", "stage 4 pool"))
    ('1 block 1', '1 block 2', '2 block 1', '3 pool', '4 pool')
    >>> short_names(("down 1 pool", "up 3 up-convolution", "up 2 up-convolution", "up 1 crop"))
    ('pool', '3 up-conv', '2 up-conv', '1 crop')
    >>> short_names(("encoder embedding", "encoder 1", "decoder embedding", "decoder 1", "classifier"))
    ('embed', '', 'embed', '', '')
    >>> short_names(("embedding", "block 1–48", "loss"))
    ('embed', '1–48', '')
    """
    different = set(labels)
    holders = Counter(prefix for label in different for prefix in _prefixes(label))
    least = max(2.0, COMMON_SHARE * len(different))
    common = [[prefix for prefix in _prefixes(label) if holders[prefix] >= least] for label in labels]
    return tuple(
        _abbreviated(label.removeprefix(own[-1]) if own else _last_word(label) or _rest(label, holders))
        or ABBREVIATIONS.get(label.lower(), "")
        or _numbers(label)
        for label, own in zip(labels, common, strict=True)
    )


def _abbreviated(name: str) -> str:
    if len(name) <= MOST_CHARACTERS:
        return name
    return re.sub("|".join(ABBREVIATIONS), lambda found: ABBREVIATIONS[found[0].lower()], name, flags=re.IGNORECASE)


def _rest(label: str, holders: Mapping[str, int]) -> str:
    """Return what follows a beginning that another label has too: the shortest that begins with a word, "" for none."""
    rests = [label.removeprefix(prefix) for prefix in _prefixes(label) if holders[prefix] >= 2]
    return next((rest for rest in reversed(rests) if re.match(r"[^\W\d_]{2,}", rest)), "")


def _numbers(label: str) -> str:
    """Return the first and the last number that the name of several repeats ends in, "" for other names."""
    found = re.search(r"(?<!\d)\d+–\d+$", label)
    return found[0] if found else ""


def _last_word(label: str) -> str:
    """Return the last word of several, as it is usually abbreviated; "" where that is a number or a letter."""
    found = re.search(r"(?<=[\W_])[^\W\d_]{2,}$", label)
    return ABBREVIATIONS.get(found[0].lower(), found[0]) if found else ""


def _prefixes(label: str) -> list[str]:
    """Return the beginnings that end between two words, a word and a number, or at a sign between them."""
    words = re.findall(r"\d+|[^\W\d_]+|[\W_]+", label)
    ends = [sum(map(len, words[: i + 1])) for i in range(len(words) - 1)]
    return [label[:end] for end, following in zip(ends, words[1:], strict=True) if following[0].isalnum()]
