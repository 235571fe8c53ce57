"""The released part of Pinterest40M."""
