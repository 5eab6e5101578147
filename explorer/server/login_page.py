"""The page that asks for the password: one form, no script, nothing from elsewhere."""

import base64
import hashlib
from html import escape

STYLE = """
:root { color-scheme: light dark; --ground: #ffffff; --text: #1f2430; --line: #80868f; --accent: #0b5cad; --on: #ffffff;
  --bad: #a3161b; }
@media (prefers-color-scheme: dark) { :root { --ground: #0e1117; --text: #fafafa; --line: #8b929c; --accent: #6cb2ff;
  --on: #0e1117; --bad: #ff9a96; } }
* { box-sizing: border-box; }
body { margin: 0; padding: 12vh 1.25rem 2rem; background: var(--ground); color: var(--text);
  font: 1rem/1.5 "Source Sans", system-ui, sans-serif; }
main { max-width: 24rem; margin: 0 auto; }
h1 { font-size: 1.5rem; margin: 0 0 1rem; }
label { display: block; margin-bottom: 0.3rem; }
input, button { width: 100%; font: inherit; padding: 0.55rem 0.7rem; border-radius: 0.4rem; }
input { border: 1px solid var(--line); background: transparent; color: inherit; }
button { margin-top: 0.9rem; border: 0; background: var(--accent); color: var(--on); cursor: pointer; }
:is(input, button):focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
p { margin: 0 0 1rem; }
.problem { color: var(--bad); }
"""
_DIGEST = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
CONTENT_SECURITY_POLICY = (
    f"default-src 'none'; style-src 'sha256-{_DIGEST}'; img-src data:; form-action 'self'; frame-ancestors 'none'; "
    "base-uri 'none'"
)


def login_page(problem: str = "") -> str:
    """Return the page, with a sentence on what was wrong; its form goes to the address it is shown at."""
    told = f'<p class="problem" id="problem" role="alert">{escape(problem)}</p>' if problem else ""
    described = 'aria-invalid="true" aria-describedby="problem" ' if problem else ""
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Password – DNN Placement Explorer</title>
<link rel="icon" href="data:,">
<style>{STYLE}</style>
</head>
<body>
<main>
<h1>DNN Placement Explorer</h1>
{told}
<form method="post">
<label for="password">Password of this server</label>
<input id="password" name="password" type="password" autocomplete="current-password" required autofocus {described}>
<button type="submit">Open</button>
</form>
</main>
</body>
</html>
"""
