"""Readers of files: tables, JSON, archives, images, and the output of image downloaders."""
