"""Turns texts into ids, without TensorFlow."""
