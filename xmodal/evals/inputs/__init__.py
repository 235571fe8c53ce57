"""What a user hands over: embeddings, scores or ranked lists, checked and put in gallery order."""
