"""Readers of files from elsewhere, none of which executes what a file contains.

`pickles` loads plain data, `picture_formats` has the formats and the largest picture, and `names`
keeps names inside their folder.
"""
