"""Your own pictures and captions, in the layouts that people have."""
