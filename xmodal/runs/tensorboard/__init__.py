"""TensorBoard files of a run: scalars, pictures of queries, similarities, and embeddings."""
