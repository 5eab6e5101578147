"""What the canvas is told: graph and timeline as plain data, and the component that shows them."""
