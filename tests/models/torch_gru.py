"""torch's GRU with the weights of our cells, and its gradients under their names."""

import numpy as np

GATES = ("r", "z", "n")
ENDS = {"forward": "l0", "backward": "l0_reverse"}


def make_gru(torch, cells):
    """A one-layer GRU from `{"forward": cell, ...}`, with one or both directions."""
    width, inputs = (
        cells["forward"]["hr"]["kernel"].shape[1], cells["forward"]["ir"]["kernel"].shape[0]
    )  # fmt: skip
    gru = torch.nn.GRU(inputs, width, 1, batch_first=True, bidirectional="backward" in cells)
    with torch.no_grad():
        for direction, cell in cells.items():
            for kind in "ih":
                kernels = [cell[f"{kind}{gate}"]["kernel"].T for gate in GATES]
                biases = [cell[f"{kind}{gate}"].get("bias", np.zeros(width)) for gate in GATES]
                end = ENDS[direction]
                getattr(gru, f"weight_{kind}h_{end}").copy_(torch.tensor(np.concatenate(kernels)))
                getattr(gru, f"bias_{kind}h_{end}").copy_(torch.tensor(np.concatenate(biases)))
    return gru


def check_gradients(gru, cells, tolerance=1e-4):
    """Checks gradients of our cells against those of torch's GRU, for the biases that they have."""
    for direction, cell in cells.items():
        end = ENDS[direction]
        for kind in "ih":
            got = np.concatenate([cell[f"{kind}{gate}"]["kernel"].T for gate in GATES])
            check(got, getattr(gru, f"weight_{kind}h_{end}").grad, tolerance)
            wanted = getattr(gru, f"bias_{kind}h_{end}").grad.chunk(len(GATES))
            got = [cell[f"{kind}{gate}"].get("bias") for gate in GATES]
            pairs = zip(got, wanted, strict=True)
            got, wanted = zip(*(pair for pair in pairs if pair[0] is not None), strict=True)
            check(np.concatenate(got), np.concatenate(wanted), tolerance)


def check(got, wanted, tolerance=1e-4):
    """Checks that arrays are equal up to a fraction of the largest number."""
    wanted = np.asarray(wanted)
    np.testing.assert_allclose(got, wanted, atol=tolerance * np.abs(wanted).max(), rtol=tolerance)
