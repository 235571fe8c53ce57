"""SCAN, SGR and SAF in torch, written from their descriptions, with released names.

Scores are computed caption by caption, for all images at once, as the authors' codes do.
"""

import types

from published_polysemous import shake

FUNCTIONS = types.SimpleNamespace


def unit(x, dim=-1):
    return x / (x.pow(2).sum(dim, keepdim=True).sqrt() + 1e-8)


def attend(torch, context, queries, scale):
    """Context [I, C, D] and queries [I, Q, D] -> the attended vectors [I, Q, D]."""
    products = unit(torch.nn.functional.leaky_relu(context @ queries.transpose(1, 2), 0.1), 2)
    return torch.softmax(scale * products, 1).transpose(1, 2) @ context


def score_scan(torch, images, words, options):
    """Scores [I] of the regions [I, R, D] of images with one caption [T, D], by LogSumExp."""
    words = words.expand(len(images), *words.shape)
    context, queries = (images, words) if options["cross_attn"] == "t2i" else (words, images)
    found = attend(torch, context, queries, options["lambda_softmax"])
    cosines = torch.nn.functional.cosine_similarity(queries, found, dim=2, eps=1e-8)
    return (options["lambda_lse"] * cosines).exp().sum(1).log() / options["lambda_lse"]


def make_scan(torch, options, *, channels, rows, words=6, width=8, bidirectional=True):
    image, text = torch.nn.Module(), make_words(torch, "rnn", rows, words, width, bidirectional)
    image.fc = torch.nn.Linear(channels, width)
    for module in (image, text):
        shake(torch, module)

    def score(regions, tokens):
        return torch.stack([score_scan(torch, regions, each, options) for each in tokens], 1)

    return [image, text], FUNCTIONS(
        images=lambda x: unit(image.fc(x)),
        texts=lambda ids, lengths: read_words(torch, text, "rnn", ids, lengths),
        score=score,
        loss_score=score,
    )


def make_words(torch, name, rows, words, width, bidirectional=True):
    text = torch.nn.Module()
    text.embed = torch.nn.Embedding(rows, words)
    gru = torch.nn.GRU(words, width, batch_first=True, bidirectional=bidirectional)
    text.add_module(name, gru)
    return text


def read_words(torch, text, name, ids, lengths):
    """The unit tokens [T, D] of each text, without padding."""
    gru, found = getattr(text, name), []
    for row, length in zip(ids, lengths, strict=True):
        tokens = gru(text.embed(row[None, :length]))[0][0]
        if gru.bidirectional:
            tokens = (tokens[:, : gru.hidden_size] + tokens[:, gru.hidden_size :]) / 2
        found.append(unit(tokens))
    return found


def make_sgraf(torch, kind, *, channels, rows, words=6, width=8, size=5, regions=36, steps=3):
    """SGR or SAF without dropout."""
    nn = torch.nn
    image, text = nn.Module(), make_words(torch, "cap_rnn", rows, words, width)
    image.fc = nn.Linear(channels, width)
    pairs = nn.Module()
    for modality, norms in (("v", [regions, width]), ("t", [])):
        module = nn.Module()
        for number, part in enumerate(("local", "global")):
            norm = [nn.BatchNorm1d(norms[number])] if norms else []
            module.add_module(f"embedding_{part}", nn.Sequential(nn.Linear(width, width), *norm))
        module.embedding_common = nn.Sequential(nn.Linear(width, 1))
        pairs.add_module(f"{modality}_global_w", module)
    pairs.sim_tranloc_w, pairs.sim_tranglo_w = nn.Linear(width, size), nn.Linear(width, size)
    pairs.sim_eval_w = nn.Linear(size, 1)
    if kind == "saf":
        pairs.SAF_module = nn.Module()
        pairs.SAF_module.attn_sim_w = nn.Linear(size, 1)
        pairs.SAF_module.bn = nn.BatchNorm1d(1)
    else:
        pairs.SGR_module = nn.ModuleList(nn.Module() for _ in range(steps))
        for step in pairs.SGR_module:
            for name in ("graph_query_w", "graph_key_w", "sim_graph_w"):
                step.add_module(name, nn.Linear(size, size))
    for module in (image, text, pairs):
        shake(torch, module)

    def weigh(module, tokens):
        """The unit global vectors [N, D] of tokens [N, T, D]."""
        local = torch.tanh(module.embedding_local(tokens))
        whole = torch.tanh(module.embedding_global(tokens.mean(1)))
        common = module.embedding_common(local * whole[:, None])[..., 0]
        return unit((torch.softmax(common, 1)[..., None] * tokens).sum(1))

    def combine(nodes):
        if kind == "saf":
            gates = pairs.SAF_module.attn_sim_w(nodes).transpose(1, 2)
            gates = torch.sigmoid(pairs.SAF_module.bn(gates))
            return unit((gates / (gates.sum(-1, keepdim=True) + 1e-8) @ nodes)[:, 0])
        for step in pairs.SGR_module:
            edges = step.graph_query_w(nodes) @ step.graph_key_w(nodes).transpose(1, 2)
            nodes = step.sim_graph_w(torch.softmax(edges, -1) @ nodes).relu()
        return nodes[:, 0]

    def score(images, tokens):
        wholes, scores = weigh(pairs.v_global_w, images), []
        for each in tokens:
            word = each.expand(len(images), *each.shape)
            local = (unit(attend(torch, images, word, 9.0)) - word).pow(2)
            whole = (wholes - weigh(pairs.t_global_w, each[None])).pow(2)
            local, whole = pairs.sim_tranloc_w(local), pairs.sim_tranglo_w(whole)
            nodes = torch.cat([unit(whole)[:, None], unit(local)], 1)
            scores.append(pairs.sim_eval_w(combine(nodes))[:, 0])
        return torch.stack(scores, 1)

    return [image, text, pairs], FUNCTIONS(
        images=lambda x: unit(image.fc(x)),
        texts=lambda ids, lengths: read_words(torch, text, "cap_rnn", ids, lengths),
        score=score,
        loss_score=lambda images, tokens: torch.sigmoid(score(images, tokens)),
    )
