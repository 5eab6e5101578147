"""The entry point that Streamlit runs: title, navigation, nothing else."""

import streamlit as st

from explorer.compare import page as compare
from explorer.explore import page as explore
from explorer.lessons import page as lessons
from explorer.plan.reload import begin_visit, end_visit
from explorer.server.front_page import COMPARE, LEARN, SWEEP
from explorer.state import session
from explorer.sweep import page as sweep

# Wide enough for every name that a list at the side offers (tests/browser/test_first_screen_browser.py).
SIDE_BAR_PX = 312
st.set_page_config(page_title="DNN Placement Explorer", layout="wide", initial_sidebar_state=SIDE_BAR_PX)
# As options of a theme these would replace both of Streamlit's own themes, light and dark, by one.
st.html(
    """<style>
    .stAppHeader { min-height: 0; height: 2.5rem; }
    .stMainBlockContainer { padding: 2.75rem 1.6rem 3rem; }
    .stMainBlockContainer h3 { padding: 0 0 0.3rem; font-size: 1.5rem; }
    .stMainBlockContainer h3 span span { font-weight: 400; }
    .stMainBlockContainer h3 [data-testid="stHeaderActionElements"] { display: none; }
    [data-testid="stSidebarUserContent"] { margin: 0 -0.65rem; }
    [data-testid="stSidebarUserContent"] .stVerticalBlock { gap: 0.55rem; }
    [data-testid="stSidebarUserContent"] h4 { padding: 0.3rem 0 0.8rem; font-size: 1rem; }
    .stMainBlockContainer .stVerticalBlock { gap: 0.6rem; }
    .stMainBlockContainer [data-testid="stAlert"] { margin-top: 0.4rem; }
    /* Beside the buttons there is no room for the number; the arrow keys do the same. */
    [data-testid="stSidebar"] :is([data-testid="stNumberInputStepDown"], [data-testid="stNumberInputStepUp"]) {
      display: none; }
    [data-testid="stSidebarHeader"] { height: 2rem; margin-bottom: 0; }
    :is([data-testid="stSidebar"], .st-key-device_picker) [data-testid="stSelectbox"] input {
      padding-inline: 0.5rem 0; text-overflow: ellipsis; }
    /* No wider than the side bar: the result of each pick is to be seen beside it. */
    @media (min-width: 641px) {
      [data-testid="stPopoverBody"]:has(.st-key-device_picker) { width: 18.25rem; }
      [data-testid="stPopoverBody"]:has(.st-key-import_picker) { width: 19.5rem; padding: 0.9rem; }
      /* Low and wide: the heat map, whose colours follow the prices, is to be seen below it. */
      [data-testid="stPopoverBody"]:has(.st-key-price_picker) {
        width: min(46rem, 100vw - 2rem); min-width: 0; max-width: none; padding: 0.6rem 0.9rem; }
      .st-key-price_picker.stVerticalBlock { flex-flow: row wrap; align-items: start; }
      .st-key-price_picker > .stElementContainer { flex: 1 1 6.5rem; width: auto; }
      .st-key-price_picker > .stElementContainer:has(.stButtonGroup) { flex: none; }
      .st-key-price_picker > .stElementContainer:last-child { flex-basis: 100%; }
      .st-key-price_picker :is([data-testid="stNumberInputStepDown"], [data-testid="stNumberInputStepUp"]) {
        display: none; }
    }
    [data-testid="stPopoverBody"] :is(.st-key-device_picker, .st-key-import_picker, .st-key-price_picker) {
      gap: 0.6rem; }
    .stVerticalBlock.st-key-sweep_button { max-height: 2.5rem; overflow: clip; overflow-clip-margin: 0.25rem; }
    /* As high without the button, or the title would be cut off, and move when the plan comes. */
    .stHorizontalBlock.st-key-title { min-height: 2.3rem; }
    /* Two lines of a long title are whole, and a single one stands where it would. */
    @media (min-width: 1101px) {
      .st-key-title [data-testid="stMarkdownContainer"] { margin-bottom: 0; }
      .st-key-title h3 { padding: 0.1rem 0 0; }
    }
    .st-key-keep { flex: none; }
    .st-key-keep button { min-height: 1.9rem; padding: 0 0.6rem; white-space: nowrap; }
    .st-key-keep button p { font-size: 0.85rem; }
    /* As Streamlit has them they are 3.9 : 1 on white; 4.5 : 1 is the least that is read easily. */
    [data-testid="stCaptionContainer"], .stMarkdown blockquote { opacity: 0.8; }
    [data-testid="stButtonGroup"] button:is([aria-checked="true"], [aria-pressed="true"]) p {
      color: color-mix(in srgb, currentColor, CanvasText 25%); }
    /* Popovers stand outside what knows whether the page is dark. */
    [data-testid="stPopoverBody"] [data-testid="stButtonGroup"]
      button:is([aria-checked="true"], [aria-pressed="true"]) p {
      color: color-mix(in srgb, currentColor, INK 25%); }
    [data-testid="stMetric"] > div { gap: 0; }
    [data-testid="stMetricLabel"] { min-height: 1.2rem; }
    [data-testid="stMetricValue"] { font-size: 1.35rem; padding: 0; line-height: 1.3; }
    [data-testid="stMetricDelta"] { font-size: 0.75rem; }
    /* On two lines where it is too long for one: cut off it would keep back what is proven. */
    .st-key-headline [data-testid="stMetricDelta"] :is([data-testid="stMarkdownContainer"], p) {
      white-space: normal; line-height: 1.15; }
    /* While a solve runs it is often two lines, at its end one: there is room for two, or the picture would move. */
    @media (min-width: 640px) and (max-width: 1700px) {
      .st-key-headline { min-height: 5.2rem; margin-bottom: -0.4rem; } }
    /* So is what a number is called, on a phone. */
    .st-key-headline [data-testid="stMetricLabel"] :is([data-testid="stMarkdownContainer"], p) {
      white-space: normal; line-height: 1.3; }
    /* So is a bottleneck with a long name, whose number stands at its end. */
    .st-key-headline [data-testid="stMetricValue"] :is([data-testid="stMarkdownContainer"], p) {
      white-space: normal; overflow-wrap: anywhere; }
    .stElementContainer:has(> .stHtml > .plan-standing) { display: none; }
    .st-key-headline:has(.plan-standing[data-state="stale"]) [data-testid="stMetricValue"] { opacity: 0.5; }
    /* Banners and the strip of a solve lie over the foot of the window and after all else, so that the picture stays
       where it is. */
    .stMainBlockContainer > .stVerticalBlock > [data-testid="stLayoutWrapper"]:has(.st-key-notices, .st-key-running) {
      order: 99; position: sticky; bottom: 0.5rem; z-index: 60; }
    .stVerticalBlock:has(.st-key-running) > [data-testid="stLayoutWrapper"]:has(.st-key-notices) { bottom: 9.2rem; }
    [data-testid="stLayoutWrapper"]:has(> :is(.st-key-notices, .st-key-notices_without_plan):empty) { display: none; }
    .st-key-notices [data-testid="stAlert"] { margin: 0; border-radius: 0.5rem; background: Canvas; }
    /* A table of what would make a plan possible is to leave some of the page in sight. */
    .st-key-notices { max-height: 45vh; overflow-y: auto; }
    .stVerticalBlock.st-key-running { padding: 0.25rem 0.75rem; border-radius: 0.5rem; background: Canvas;
      box-shadow: 0 2px 12px color-mix(in srgb, CanvasText 22%, transparent); }
    @media (min-width: 641px) {
      .st-key-running [data-testid="stHorizontalBlock"] { flex-wrap: nowrap; }
      .st-key-running [data-testid="stColumn"]:last-child { min-width: 5.5rem; }
    }
    /* More than banners would let the page show through between its parts. */
    .st-key-notices:has(.stButton) { padding: 0.5rem; border-radius: 0.5rem; background: Canvas;
      box-shadow: 0 0 0 1px color-mix(in srgb, CanvasText 20%, transparent); }
    @media (min-width: 641px) and (max-width: 1100px) {
      .st-key-running [data-testid="stColumn"]:first-child { flex: 1 0 19rem; }
      .st-key-running [data-testid="stColumn"]:has([data-testid="stVegaLiteChart"]) { min-width: 0; }
      .stMainBlockContainer h3 { padding-bottom: 1rem; }
      .stMainBlockContainer h3 span span { display: block; line-height: 1.3; }
      /* As wide in the second row as in the first, or they do not stand below each other. */
      .st-key-headline [data-testid="stColumn"] { min-width: calc(33.3% - 1rem); flex: 0 0 calc(33.3% - 1rem); }
      .st-key-explanation > [data-testid="stLayoutWrapper"] > .stHorizontalBlock > .stColumn { min-width: 100%; }
    }
    /* Below each other they need no more room between them than paragraphs. */
    @media (max-width: 1100px) {
      .st-key-explanation > [data-testid="stLayoutWrapper"] > .stHorizontalBlock { row-gap: 1rem; }
    }
    @media (max-width: 960px) {
      .st-key-duel > [data-testid="stLayoutWrapper"] > .stHorizontalBlock > .stColumn { min-width: 100%; }
    }
    @media (max-width: 640px) {
      .stMainBlockContainer { padding: 2.75rem 1rem 3rem; }
      .stMainBlockContainer h3 span span { display: block; line-height: 1.3; }
      .stMainBlockContainer h3 { padding-bottom: 1rem; }
      .st-key-running [data-testid="stColumn"]:has([data-testid="stVegaLiteChart"]) { display: none; }
      .st-key-title { flex-direction: column; align-items: stretch; }
      .st-key-sweep_measure [data-testid="stButtonGroup"] > div:last-child { flex-wrap: wrap; row-gap: 0.25rem; }
      /* Cells are narrower than their numbers here; a tap on one tells. */
      .st-key-sweep_numbers_of_many .textpoint { display: none; }
      .st-key-headline [data-testid="stColumn"] { min-width: calc(50% - 1rem); flex: 1 1 calc(50% - 1rem); }
    }
    </style>""".replace("INK", "white" if st.context.theme.type == "dark" else "black")
)
begin_visit()
kept = len(session.kept())
explorer = st.Page(explore.show, title="Explore", default=True)
page = st.navigation(
    [
        explorer,
        st.Page(compare.show, title=f"Compare ({kept})" if kept else "Compare", url_path=COMPARE),
        st.Page(sweep.show, title="Sweep", url_path=SWEEP),
        st.Page(lessons.show, title="Learn", url_path=LEARN),
    ],
    position="top",
)
session.enter_page(page.url_path)
if (way := session.take_way_to_explore()) is not None:
    st.switch_page(explorer, query_params=way)
page.run()
if page.url_path:
    end_visit()
