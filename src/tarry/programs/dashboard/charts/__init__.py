"""Pictures as paths and numbers: pure functions, drawn as SVG by the templates."""
