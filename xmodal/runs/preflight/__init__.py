"""Checks a run before it starts: compiled programs, their memory, cost and traffic.

`--dry_run` does everything that a start does, but writes nothing to the run's folder: it checks the
config, the data, and the weights or checkpoint, compiles the training step and the function that
embeds each side, and runs two steps and one evaluation. Tables show, per device and call, memory
and capacity, FLOPs, bytes moved from and to main memory, collectives, estimated time, and the bytes
that each part of the model moves.

`--topology=v3:4x4` compiles with libtpu for a TPU slice that this machine does not have: generation
and chips along each axis (`v4:2x4x4`, `v5e:4x8`, `v5p:2x4x4`, `v6e:4x8`). Where the compiler gives
no time, it is that of the products at the published peak or of the traffic at the published
bandwidth, whichever is longer (`accelerators`); on CPUs there is none. XLA counts the body of a
loop once in FLOPs, traffic and time, so these are lower bounds for the programs whose loops the
table names; memory and collectives include all iterations.
"""
