"""Readers of files from elsewhere, none of which executes what a file contains.

`pickles` loads plain data, `saved_arrays` NumPy's files, and `picture_formats` has the formats and
the largest picture.
"""
