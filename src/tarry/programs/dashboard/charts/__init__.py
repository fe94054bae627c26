"""Charts as SVG paths and numbers: pure functions; the templates draw them."""
