"""CVSE in torch, written from its description, with the names of the released files."""

import types

FUSION, WEIGHTS = 0.85, (3, 5, 1, 2)


def unit(x):
    return x / (x.pow(2).sum(-1, keepdim=True).sqrt() + 1e-12)


def make_cvse(torch, *, channels, rows, vectors, weights, words=6, width=8):
    """Returns eight modules, and the function of a batch to the vectors of both modalities.

    Args:
      torch: the library.
      channels: width of a region.
      rows: number of words.
      vectors: word vectors of the concepts [K, E].
      weights: their graph A0 [K, K], which the checkpoint holds.
      words: width of a word vector.
      width: D.
    """
    nn, functional = torch.nn, torch.nn.functional
    image, text = nn.Module(), nn.Module()
    image.fc = nn.Linear(channels, width)
    text.embed = nn.Embedding(rows, words)
    text.rnn = nn.GRU(words, width, batch_first=True, bidirectional=True)
    attentions = [_attention(nn, width, regions) for regions in (36, 0)]
    predictions = [_prediction(nn, width) for _ in range(2)]
    graph = nn.Module()
    graph.gc1, graph.gc2 = nn.Module(), nn.Module()
    graph.gc1.weight = nn.Parameter(torch.randn(vectors.shape[1], width // 2))
    graph.gc2.weight = nn.Parameter(torch.randn(width // 2, width))
    for name in ("adj_all", "adj_O_P", "adj_O_M"):
        graph.register_parameter(name, nn.Parameter(torch.tensor(weights)))
    graph.joint_att_emb = nn.Linear(width, width)
    modules = [image, text, *attentions, *predictions, graph, nn.Module()]

    def attend(module, tokens, query):
        hidden = module.embedding_1(tokens) * module.embedding_2(query)[:, None]
        weights = functional.softmax(module.embedding_3(hidden)[..., 0], 1)
        return unit((weights[..., None] * tokens).sum(1))

    def concepts():
        adjacency = graph.adj_all.detach()
        root = torch.diag(adjacency.sum(1) ** -0.5)
        adjacency = (adjacency @ root).T @ root
        x = functional.leaky_relu(adjacency @ (vectors @ graph.gc1.weight), 0.2)
        return unit(adjacency @ (x @ graph.gc2.weight))

    def predict(module, own, labels):
        basis = concepts()
        hidden = module.embedding_1(basis)[None] * module.embedding_2(own)[:, None]
        found = functional.softmax(10 * module.embedding_3(hidden)[..., 0], 1)
        if labels is not None:
            found = 0.4 * functional.softmax(10 * labels, 1) + 0.6 * found
        return unit((found[..., None] * basis).sum(1)), found

    def fuse(own, consensus, share):
        return unit(share * own + (1 - share) * consensus)

    def embed_images(regions, share):
        tokens = unit(image.fc(regions))
        own = attend(attentions[0], tokens, tokens.mean(1))
        consensus, found = predict(predictions[0], own, None)
        return own, consensus, fuse(own, consensus, share), found

    def embed_texts(ids, lengths, labels, share):
        packed = nn.utils.rnn.pack_padded_sequence(
            text.embed(ids), lengths, batch_first=True, enforce_sorted=False
        )
        tokens, _ = nn.utils.rnn.pad_packed_sequence(text.rnn(packed)[0], batch_first=True)
        tokens = unit((tokens[..., :width] + tokens[..., width:]) / 2)
        own = attend(attentions[1], tokens, unit(tokens.mean(1)))
        consensus, found = predict(predictions[1], own, labels)
        return own, consensus, fuse(own, consensus, share), found

    return modules, types.SimpleNamespace(images=embed_images, texts=embed_texts)


def compute_loss(torch, images, texts):
    """Three hinge losses on the hardest negatives, and the divergence of the concepts."""

    def hinges(x, y):
        scores = x @ y.T
        own, same = scores.diag(), torch.eye(len(x)) > 0
        costs = [(0.2 + scores - each).clamp(min=0) for each in (own[:, None], own[None])]
        costs = [each.masked_fill(same, 0) for each in costs]
        return costs[0].max(1)[0].sum() + costs[1].max(0)[0].sum()

    divergence = (texts[3] * (texts[3].log() - images[3].log())).sum()
    losses = [hinges(images[at], texts[at]) for at in (2, 0, 1)] + [divergence]
    return sum(weight * loss for weight, loss in zip(WEIGHTS, losses, strict=True)), losses


def compute_scores(images, texts):
    return 0.95 * images[2] @ texts[2].T + 0.05 * images[1] @ texts[1].T


def _attention(nn, width, regions):
    """`fc1` to `fc4` are the same layers under a second name, or never used."""
    module = nn.Module()
    for name in ("fc1", "fc2", "fc2_2", "fc4"):
        module.add_module(name, nn.Linear(width, width))
    module.fc3 = nn.Linear(width, 1)
    of_tokens = [nn.BatchNorm1d(regions)] if regions else []
    of_query = [nn.BatchNorm1d(width)] if regions else []
    module.embedding_1 = nn.Sequential(module.fc1, *of_tokens, nn.Tanh())
    module.embedding_2 = nn.Sequential(module.fc2, *of_query, nn.Tanh())
    module.embedding_2_2 = nn.Sequential(module.fc2_2, nn.BatchNorm1d(width), nn.Tanh())
    module.embedding_3 = nn.Sequential(module.fc3)
    return module


def _prediction(nn, width):
    module = nn.Module()
    module.fc1, module.fc2 = nn.Linear(width, width), nn.Linear(width, width)
    module.fc3 = nn.Linear(width, 1)
    module.embedding_1 = nn.Sequential(module.fc1, nn.BatchNorm1d(width), nn.Tanh())
    module.embedding_2 = nn.Sequential(module.fc2, nn.BatchNorm1d(width), nn.Tanh())
    module.embedding_3 = nn.Sequential(module.fc3)
    return module
