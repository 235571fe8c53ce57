"""Bounds on files from elsewhere, whoever wrote them; `xmodal` uses them, too.

Each bound stands here once: `pickles` has the only unpickler, `picture_formats` the formats and the
largest picture, `archives` the largest expanded size; `hdf5` and `lmdb_files` read only numbers
inside a file, and `names` only names inside a folder.
"""
