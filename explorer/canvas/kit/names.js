/* Words where people read them. Those from files are in order, as `solvers/model/names.py` has them: those that run from right to left are
   set apart from what stands beside them, or numbers and arrows after them would change sides. */

const RIGHT_TO_LEFT = "\\u0590-\\u08ff\\ufb1d-\\ufdff\\ufe70-\\ufefc\\u{10800}-\\u{10fff}\\u{1e800}-\\u{1efff}";
const RUN = new RegExp(`[${RIGHT_TO_LEFT}](?:[${RIGHT_TO_LEFT}\\u200c\\u200d]| (?=[${RIGHT_TO_LEFT}]))*`, "gu");

export function inOrder(text) {
  return String(text).replace(RUN, "\u2068$&\u2069");
}

const BEFORE_UNIT = /(?<=[\d∞]) (?=(?:ms|s|%|×(?! [\dA-Z])|B|[KMG]iB|GB|[kMGTP]?FLOP|[\w-]+\/s)(?!\w))|(?<=\bAccelerator) (?=\d)|(?<=\bCPU) (?=\d)/g;

/** A text in which no line ends between a number and its unit, or before the number of a device, as `explorer/words/wording.py` makes it. */
export function unbroken(text) {
  return text.replace(BEFORE_UNIT, "\u00a0");
}
