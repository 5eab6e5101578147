"""What a program can check of WCAG 2.1 AA on a page: contrast, names, roles, keys to what scrolls."""

from typing import Any

RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"], "resultTypes": ["violations"]}


def faults(page: Any) -> list[str]:
    """Return what axe finds, a line each with the element; it looks into shadow roots, too."""
    # Only tests in a browser need it.
    from axe_playwright_python.sync_playwright import Axe

    page.evaluate("Promise.all(document.getAnimations().map(one => one.finished.catch(() => 0)))")
    found = Axe().run(page, options=RULES).response["violations"]
    return [f"{fault['help']}: {node['html'][:200]}" for fault in found for node in fault["nodes"]]
