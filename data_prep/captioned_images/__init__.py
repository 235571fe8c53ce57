"""Your own pictures and captions, in one of four layouts."""
