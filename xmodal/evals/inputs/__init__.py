"""Sources of an evaluation: checked and ordered embeddings, scores or ranked lists."""
