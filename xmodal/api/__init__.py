"""Loaded models: one call loads, one call embeds. `xmodal` itself names what is public."""
