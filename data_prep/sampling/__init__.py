"""The sampling scheme of Crisscrossed Captions: which pairs of captions and images are rated."""
