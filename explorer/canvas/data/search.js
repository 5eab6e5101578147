/* The language of the search box, apart from the page: words and conditions, all of which must hold.

     attention  /q.?proj/  "aten::add"    in the name or layer: a regular expression, or as it stands in quotes
     query bias                           words side by side stand so in the name
     17                                   the node of this id, or a name with this number
     time>1  time<=0.5ms  memory>100MB  output>1MiB  transfer>0.1     times in ms unless a unit is given, sizes in bytes
     device:2  device:C1  layer:attention  name:bias  id:17
     cut  backward  forward               what is so; a minus in front (-cut) turns anything round */

const TIME_UNITS = { us: 1e-3, µs: 1e-3, ms: 1, s: 1e3, min: 6e4 };
const SIZE_UNITS = { b: 1, kb: 1e3, mb: 1e6, gb: 1e9, tb: 1e12, kib: 2 ** 10, mib: 2 ** 20, gib: 2 ** 30, tib: 2 ** 40 };
const QUANTITIES = {
  time: [TIME_UNITS, "timeMs"], transfer: [TIME_UNITS, "transferMs"], memory: [SIZE_UNITS, "memoryBytes"], output: [SIZE_UNITS, "outputBytes"],
};
const FLAGS = { cut: (node) => node.isCut, backward: (node) => node.isBackward, forward: (node) => !node.isBackward };
const COMPARISONS = {
  ">": (a, b) => a > b, ">=": (a, b) => a >= b, "<": (a, b) => a < b, "<=": (a, b) => a <= b, "=": (a, b) => a === b, "!=": (a, b) => a !== b,
};
const CONDITION = /^([\p{L}_]+)(>=|<=|!=|>|<|=)(.*)$/u;
const ATTRIBUTE = /^([\p{L}_]+):(?!:)(.*)$/u;
const KNOWN = "time, transfer, memory, output, device, layer, name, id, cut, backward, forward";

/** What a text asks for: {test(node), error}. `test` is null for an empty text and where `error` says what is wrong.

    A node is {id, name, layer, deviceLabel, deviceName, timeMs, transferMs, memoryBytes, outputBytes, isCut, isBackward}. */
export function parseSearch(text) {
  const tests = [];
  try {
    for (const { minus, quoted, pattern, word } of tokens(text)) {
      let test;
      if (quoted !== undefined) test = inNameOrLayer(literal(quoted));
      else if (pattern !== undefined) test = inNameOrLayer(regular(pattern));
      else test = parseWord(word);
      tests.push(minus ? (node) => !test(node) : test);
    }
  } catch (error) {
    if (error instanceof SearchError) return { test: null, error: error.message };
    throw error;
  }
  return { test: tests.length ? (node) => tests.every((one) => one(node)) : null, error: null };
}

/** The parts of a text: quoted, /patterns/, and words; plain words side by side are one part. */
function tokens(text) {
  const parts = [];
  let isOpen = false;
  for (const [whole, minus, quoted, pattern, word] of text.trim().matchAll(/(-?)(?:"([^"]*)"|\/((?:[^/\\]|\\.)+)\/(?=\s|$)|((?:[^\s"]|"[^"]*")+)|")/g)) {
    if (quoted === undefined && pattern === undefined && word === undefined) throw new SearchError(`the quote at ${whole} is not closed`);
    const isPlain = word !== undefined && !minus && !isFlag(word) && !CONDITION.test(word) && !ATTRIBUTE.test(word);
    if (isPlain && isOpen) parts.at(-1).word += ` ${word}`;
    else parts.push({ minus, quoted, pattern, word });
    isOpen = isPlain;
  }
  return parts;
}

class SearchError extends Error {}

function isFlag(word) {
  return Object.hasOwn(FLAGS, word.toLowerCase());
}

function parseWord(word) {
  if (isFlag(word)) return FLAGS[word.toLowerCase()];
  const condition = CONDITION.exec(word);
  if (condition) return comparison(condition[1].toLowerCase(), condition[2], condition[3]);
  const attribute = ATTRIBUTE.exec(word);
  if (attribute) return attributeTest(attribute[1].toLowerCase(), unquoted(attribute[2]), word);
  const test = inNameOrLayer(regular(word));
  return (node) => String(node.id) === word || test(node);
}

function comparison(name, operator, right) {
  if (!Object.hasOwn(QUANTITIES, name)) {
    throw new SearchError(`${name} cannot be compared; compare time, transfer, memory or output, or put the words in quotes`);
  }
  const [units, field] = QUANTITIES[name];
  const number = /^([\d.]+(?:e[+-]?\d+)?)\s*([a-zµ]*)$/i.exec(right);
  const value = number ? Number(number[1]) : NaN;
  const unit = number?.[2].toLowerCase() ?? "";
  if (Number.isNaN(value)) throw new SearchError(`${name}${operator} needs a number, as in ${name}${operator}${units === TIME_UNITS ? "1ms" : "100MB"}`);
  if (unit && !Object.hasOwn(units, unit)) throw new SearchError(`${name} has no unit ${number[2]}; use ${Object.keys(units).join(", ")}`);
  const limit = value * (unit ? units[unit] : 1);
  const compare = COMPARISONS[operator];
  // What the file does not say is neither more nor less than anything.
  return (node) => node[field] !== null && compare(node[field], limit);
}

function attributeTest(name, value, word) {
  if (!value) throw new SearchError(`${name}: needs a value, as in ${name === "device" ? "device:2" : `${name}:attention`}`);
  if (name === "device") {
    const wanted = value.toLowerCase();
    return (node) => node.deviceLabel?.toLowerCase() === wanted || node.deviceName?.toLowerCase() === wanted;
  }
  if (name === "id") return (node) => String(node.id) === value;
  if (name !== "layer" && name !== "name") {
    throw new SearchError(`no attribute ${name}; there are ${KNOWN}. Put "${word}" in quotes to find it in names`);
  }
  const test = regular(value);
  return (node) => node[name] !== null && test(node[name]);
}

function inNameOrLayer(test) {
  return (node) => test(node.name) || (node.layer !== null && test(node.layer));
}

function unquoted(text) {
  return text.length > 1 && text.startsWith('"') && text.endsWith('"') ? text.slice(1, -1) : text;
}

function literal(text) {
  const wanted = text.toLowerCase();
  return (name) => name.toLowerCase().includes(wanted);
}

function regular(source) {
  try {
    const pattern = new RegExp(source, "i");
    return (name) => pattern.test(name);
  } catch (error) {
    const reason = error.message.replace(/^.*\/[a-z]*:\s*/s, "").toLowerCase();
    throw new SearchError(`${source} is not a regular expression (${reason}); put it in quotes to find it as it stands`);
  }
}

/** The facts of every node that a search looks at. */
export function searchable({ graph, devices }) {
  const { nodes } = graph;
  return nodes.id.map((id, i) => {
    const device = devices[nodes.device[i]] ?? null;
    const isOnCpu = device?.label.startsWith("C") ?? false;
    return {
      id, name: nodes.name[i] ?? "", layer: nodes.layer[i], deviceLabel: device?.label ?? null, deviceName: device?.name ?? null,
      timeMs: isOnCpu ? nodes.cpuMs[i] : nodes.acceleratorMs[i], transferMs: nodes.transferMs[i],
      memoryBytes: nodes.memoryBytes[i], outputBytes: nodes.outputBytes[i], isCut: Boolean(nodes.cut[i]), isBackward: Boolean(nodes.backward[i]),
    };
  });
}
