"""SemEval STS."""
