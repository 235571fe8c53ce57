"""Sources of an evaluation: embeddings, scores or ranked lists, checked and ordered."""
