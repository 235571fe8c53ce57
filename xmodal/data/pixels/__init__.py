"""Turns encoded images into pixels, as arrays, without TensorFlow."""
