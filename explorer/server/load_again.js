// A page that was there and is gone is loaded again, a few times a minute at most: what ends it each time would else
// have the browser load it for ever.

const KEY = "placement-explorer: loaded again at";
const MOST = 3;
const WITHIN_MS = 60_000;

function loadAgain() {
  const now = Date.now();
  const before = JSON.parse(sessionStorage.getItem(KEY) ?? "[]").filter((then) => now - then < WITHIN_MS);
  if (before.length >= MOST) return;
  sessionStorage.setItem(KEY, JSON.stringify([...before, now]));
  location.reload();
}

const root = document.getElementById("root");
let wasThere = root.childElementCount > 0;
new MutationObserver(() => {
  if (root.childElementCount > 0) wasThere = true;
  else if (wasThere) loadAgain();
}).observe(root, { childList: true });
