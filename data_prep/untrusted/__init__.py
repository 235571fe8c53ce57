"""Bounds on files from elsewhere, whoever wrote them; `xmodal` uses them, too.

What a file may make its reader do is decided here, once: `limits` has the numbers, `pickles` the
only unpickler.
"""
