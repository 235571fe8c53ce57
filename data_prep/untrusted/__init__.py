"""Bounds on files from elsewhere, whoever wrote them; `xmodal` uses them, too.

What a file may make its reader do is decided here, once: `pickles` has the only unpickler,
`picture_formats` the formats and the largest picture, `archives` what files may expand to, `hdf5`
which numbers are a file's own, `names` which names stay in their folder.
"""
