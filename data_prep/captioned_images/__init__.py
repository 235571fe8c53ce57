"""Your own pictures and captions, in common layouts."""
