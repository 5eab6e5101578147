"""The page of the client that tries the server: a tree made of deltas, as the browser makes it."""

from streamlit.proto.Block_pb2 import Block
from streamlit.proto.Element_pb2 import Element

from benchmarks.element_tree import ElementTree


def text(body: str) -> Element:
    element = Element()
    element.markdown.body = body
    return element


def container() -> Block:
    block = Block()
    block.flex_container.border = False
    return block


def expander() -> Block:
    block = Block()
    block.expandable.label = "Details"
    return block


def bodies(tree: ElementTree) -> list[str]:
    return [markdown.body for markdown in tree.elements("markdown")]


def page(*texts: str) -> ElementTree:
    tree = ElementTree()
    tree.begin("first")
    for i, body in enumerate(texts):
        tree.set_element((0, i), text(body), "", 0.0)
    tree.end("first", ())
    return tree


def test_elements_are_in_the_order_of_the_page_whatever_the_order_they_came_in() -> None:
    tree = ElementTree()
    tree.begin("run")
    for i in (10, 2, 0):
        tree.set_element((0, i), text(str(i)), "", 0.0)
    assert bodies(tree) == ["0", "2", "10"]


def test_what_a_run_does_not_set_again_goes_when_it_ends() -> None:
    tree = page("one", "two", "three")
    tree.begin("second")
    tree.set_element((0, 0), text("new"), "", 1.0)
    assert bodies(tree) == ["new", "two", "three"]
    tree.end("second", ())
    assert bodies(tree) == ["new"]


def test_the_end_of_a_run_that_another_has_overtaken_drops_nothing() -> None:
    tree = page("one", "two")
    tree.begin("second")
    tree.begin("third")
    tree.end("second", ())
    assert bodies(tree) == ["one", "two"]


def test_a_run_of_a_fragment_drops_only_what_is_its_own() -> None:
    tree = page("page")
    tree.set_element((0, 1), text("strip"), "fragment", 0.0)
    tree.set_element((0, 2), text("button"), "fragment", 0.0)
    tree.begin("fragment run")
    tree.set_element((0, 1), text("strip again"), "fragment", 1.0)
    tree.end("fragment run", ("fragment",))
    assert bodies(tree) == ["page", "strip again"]


def test_a_block_keeps_its_children_until_the_run_ends_if_its_type_stays() -> None:
    tree = page()
    tree.set_block((0, 0), container(), "", 0.0)
    tree.set_element((0, 0, 0), text("child"), "", 0.0)
    tree.begin("second")
    tree.set_block((0, 0), container(), "", 1.0)
    assert bodies(tree) == ["child"]
    tree.set_block((0, 0), expander(), "", 1.0)
    assert bodies(tree) == []


def test_an_element_in_the_place_of_a_block_takes_what_was_in_it_away() -> None:
    tree = page()
    tree.set_block((0, 0), container(), "", 0.0)
    tree.set_element((0, 0, 0), text("child"), "", 0.0)
    tree.set_element((0, 0), text("alone"), "", 0.0)
    assert bodies(tree) == ["alone"]


def test_with_a_block_goes_what_is_below_it() -> None:
    tree = page()
    tree.set_block((0, 0), container(), "", 0.0)
    tree.set_block((0, 0, 0), container(), "", 0.0)
    tree.begin("second")
    tree.set_element((0, 0, 0, 0), text("deep"), "", 1.0)
    tree.end("second", ())
    assert bodies(tree) == []
