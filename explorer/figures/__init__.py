"""Figures for print: one drawing of graph and timeline, as SVG and PNG."""
