/* The picture on a page without Streamlit: in a report that is one file, say. Nothing is sent anywhere. */

import { PlacedPipeline } from "./main.js";

const SYSTEM_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif";
const STANDALONE_THEMES = {
  light: { "background-color": "#ffffff", "secondary-background-color": "#f0f2f6", "text-color": "#31333f", "border-color": "rgba(49, 51, 63, 0.2)",
    "primary-color": "#0b66c3", "red-text-color": "#b3261e" },
  dark: { "background-color": "#0e1117", "secondary-background-color": "#262730", "text-color": "#fafafa", "border-color": "rgba(250, 250, 250, 0.2)",
    "primary-color": "#7ab8ff", "red-text-color": "#ff8f8b" },
};

/** Show a message (see payload.js) in an element.

    `theme` is "light", "dark", "auto" for what the reader's system prefers, or an object of CSS variables by the names
    Streamlit gives them without "--st-". Return {setTheme, show, destroy}. */
export function mountStandalone(element, bytes, theme = "auto") {
  const picture = new PlacedPipeline(element);
  picture.root.classList.add("standalone");
  const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");
  let wanted = theme;
  let message = bytes;
  const draw = () => {
    const name = wanted === "auto" ? (prefersDark.matches ? "dark" : "light") : wanted;
    for (const [variable, value] of Object.entries({ font: SYSTEM_FONT, ...(STANDALONE_THEMES[name] ?? name) })) {
      element.style.setProperty(`--st-${variable}`, value);
    }
    picture.update({ data: message, setStateValue() {}, setTriggerValue() {} });
  };
  prefersDark.addEventListener("change", draw);
  draw();
  return {
    setTheme(value) {
      wanted = value;
      draw();
    },
    show(value) {
      message = value;
      draw();
    },
    destroy() {
      prefersDark.removeEventListener("change", draw);
      picture.destroy();
    },
  };
}

/** The bytes that a base64 text stands for. */
export function bytesFromBase64(text) {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}
