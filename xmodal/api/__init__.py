"""Loaded models: one call loads, one call embeds. `xmodal` defines the public names."""
