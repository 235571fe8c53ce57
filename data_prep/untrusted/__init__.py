"""Bounds on files from elsewhere, whoever wrote them; `xmodal` uses them, too.

What a file may make its reader do is decided here, once: `pickles` has the
only unpickler, `pictures` the formats and the largest picture.
"""
