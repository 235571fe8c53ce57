"""PVSE and PCME in torch, written from their description, with the names of the released files."""

import types

import numpy as np


def make_pcme(torch, cnn, forward, *, channels, rows, words=6, width=8):
    """PCME without its sampling; `forward` maps pixels to the cells of `cnn`.

    Returns:
      The module, the function (pixels, ids, lengths) -> mean and log sigma of both modalities, and
      the criterion with the scale and the shift.
    """
    nn = torch.nn
    model = nn.Module()
    model.img_enc, model.txt_enc = image, text = nn.Module(), nn.Module()
    image.cnn, image.fc = cnn, nn.Linear(channels, width)
    text.embed = nn.Embedding(rows, words)
    text.rnn = _gru(nn, words, width)
    for encoder, inputs in ((image, channels), (text, words)):
        encoder.pie_net = _pie(nn, 1, inputs, width)
        encoder.uncertain_net = _attention_and_fc(nn, 1, inputs, width)
    image.uncertain_net.fc2 = nn.Linear(channels, width)
    text.uncertain_net.rnn = _gru(nn, words, width)
    criterion = nn.Module()
    criterion.shift = nn.Parameter(torch.tensor([1.3]))
    criterion.negative_scale = nn.Parameter(torch.tensor([0.7]))
    shake(torch, model)

    def embed_images(pixels):
        cells = forward(pixels).flatten(2).transpose(1, 2)
        pooled = cells.mean(1)
        means, _, _ = _apply_pie(torch, image.pie_net, image.fc(pooled), cells)
        log_sigma, _ = attend(torch, image.uncertain_net, cells)
        return means[:, 0], log_sigma[:, 0] + image.uncertain_net.fc2(pooled)

    def embed_texts(ids, lengths):
        vectors = text.embed(ids)
        mask = torch.arange(ids.shape[1]) < lengths[:, None]
        means, _, _ = _apply_pie(
            torch, text.pie_net, last_output(torch, text.rnn, vectors, lengths), vectors, mask
        )
        log_sigma, _ = attend(torch, text.uncertain_net, vectors, mask)
        last = last_output(torch, text.uncertain_net.rnn, vectors, lengths)
        return means[:, 0], log_sigma[:, 0] + last

    return model, types.SimpleNamespace(images=embed_images, texts=embed_texts), criterion


def make_pvse(torch, cnn, forward, *, channels, rows, embeddings, legacy=True, words=6, width=8):
    """PVSE; `forward` maps pixels to the cells of `cnn`.

    Returns:
      The module, and the functions of both modalities to embeddings [N, K, D], residuals [N, K, D]
      and attention [N, T, K].
    """
    nn = torch.nn
    model = nn.Module()
    model.img_enc, model.txt_enc = image, text = nn.Module(), nn.Module()
    image.cnn, image.fc = cnn, nn.Linear(channels, width)
    image.pie_net = _pie(nn, embeddings, channels, width)
    text.embed = nn.Embedding(rows, words)
    text.rnn = _gru(nn, words, width)
    text.pie_net = _pie(nn, embeddings, words, width)
    shake(torch, model)

    def embed_images(pixels):
        cells = forward(pixels).flatten(2).transpose(1, 2)
        return _apply_pie(torch, image.pie_net, image.fc(cells.mean(1)), cells)

    def embed_texts(ids, lengths):
        vectors = text.embed(ids)
        mask = torch.arange(ids.shape[1]) < lengths[:, None]
        if legacy:
            state = last_output(torch, text.rnn, vectors, lengths)
        else:
            rows = zip(vectors, lengths, strict=True)
            finals = [text.rnn(row[None, :length])[1][:, 0] for row, length in rows]
            state = torch.stack([final.flatten() for final in finals])
        return _apply_pie(torch, text.pie_net, state, vectors, mask)

    return model, types.SimpleNamespace(images=embed_images, texts=embed_texts)


def shake(torch, model):
    """Gives all weights nontrivial values, except those of batch normalizations."""
    generator = torch.Generator().manual_seed(1)
    for name, tensor in model.named_parameters():
        if ".cnn." not in f".{name}":
            tensor.data = 0.5 * torch.randn(tensor.shape, generator=generator)


def attend(torch, module, x, mask=None):
    """Attended tokens through the linear layer [N, K, D], and the weights [N, T, K]."""
    scores = module.attention.w_2(torch.tanh(module.attention.w_1(x)))
    if mask is not None:
        scores = scores.masked_fill(~mask[..., None], -torch.inf)
    weights = torch.softmax(scores, dim=1)
    return module.fc(weights.transpose(1, 2) @ x), weights


def last_output(torch, gru, vectors, lengths):
    """Outputs of both directions at the last real token, one text at a time without padding."""
    rows = zip(vectors, lengths, strict=True)
    return torch.stack([gru(row[None, :length])[0][0, -1] for row, length in rows])


def _gru(nn, inputs, width):
    return nn.GRU(inputs, width // 2, bidirectional=True, batch_first=True)


def _attention_and_fc(nn, heads, inputs, width):
    module = nn.Module()
    module.attention = nn.Module()
    module.attention.w_1 = nn.Linear(inputs, inputs // 2, bias=False)
    module.attention.w_2 = nn.Linear(inputs // 2, heads, bias=False)
    module.fc = nn.Linear(inputs, width)
    return module


def _pie(nn, heads, inputs, width):
    module = _attention_and_fc(nn, heads, inputs, width)
    module.layer_norm = nn.LayerNorm(width)
    return module


def _apply_pie(torch, module, summary, x, mask=None):
    attended, weights = attend(torch, module, x, mask)
    residuals = torch.sigmoid(attended)
    out = module.layer_norm(summary[:, None] + residuals)
    return out / out.norm(dim=-1, keepdim=True), residuals, weights


def torch_hinges(torch, scores, margin):
    """Mean of the hardest negatives of rows and columns."""
    pairs = torch.diag(scores)
    off = ~torch.eye(len(scores), dtype=bool)
    rows = (margin + scores - pairs[:, None]).clamp(min=0) * off
    columns = (margin + scores - pairs[None]).clamp(min=0) * off
    return rows.max(1)[0].mean() + columns.max(0)[0].mean()


def torch_pixels(torch, images):
    """Images as expected by torchvision's weights: [N, 3, H, W], normalized for ImageNet."""
    mean, std = np.float32([0.485, 0.456, 0.406]), np.float32([0.229, 0.224, 0.225])
    return torch.tensor((images / np.float32(255) - mean) / std).permute(0, 3, 1, 2)
