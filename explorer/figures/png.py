"""Figures as pixels for slides and documents that take no SVG, rendered from the very same SVG.

With resvg (package `resvg_py`): a renderer of static SVG in Rust, in a wheel of one and a half megabytes for Linux,
macOS and Windows under the MIT licence, which draws text with the font files it is given. Rejected: CairoSVG needs the
cairo library of the system, skia-python and PyMuPDF bring tens of megabytes (the latter under the AGPL), and a headless
browser is more than a download should start.
"""

from explorer.figures.font import font_paths, is_covered

PRINT_DPI = 300


def png_bytes(svg: str, dpi: int = PRINT_DPI) -> bytes:
    """Return a PNG of an SVG of ours; `dpi` pixels for each of its inches.

    Text is drawn in the shipped font; only where that lacks a letter, such as a Chinese one, may the system's help out.
    """
    import resvg_py

    family = "Liberation Sans"
    return bytes(
        resvg_py.svg_to_bytes(
            svg_string=svg,
            zoom=dpi / 96,
            dpi=96,
            font_files=[str(path) for path in font_paths()],
            skip_system_fonts=is_covered(svg),
            font_family=family,
            sans_serif_family=family,
        )
    )
