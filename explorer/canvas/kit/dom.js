/* Elements of the page. Texts are set as text, never as HTML: names of nodes come from files. */

import { inOrder, unbroken } from "./names.js";

/** Make an element: tag, class, text, attributes and listeners (`onclick`), children. */
export function make(tag, { className, text, ...rest } = {}, children = []) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = unbroken(inOrder(text));
  for (const [name, value] of Object.entries(rest)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}
