"""VSE++, VSRN and VSE-infinity in torch, written from their descriptions, with released names."""

import math
import types

from published_polysemous import last_output, shake

FUNCTIONS = types.SimpleNamespace


def normalize(x, dim=-1):
    return x / x.pow(2).sum(dim, keepdim=True).sqrt()


def make_vsepp(torch, cnn, forward, *, channels, rows, variant, words=6, width=8):
    """VSE++ and similar models; without a CNN for stored features."""
    nn, is_order = torch.nn, variant.startswith("order")
    image, text = nn.Module(), make_text(nn, rows, words, width)
    if cnn is not None:
        cnn.fc = nn.Sequential()
        image.cnn = nn.Module()
        image.cnn.module = cnn
    image.fc = nn.Linear(channels, width)
    for module in (image, text):
        shake(torch, module)

    def last(x):
        return x.abs() if variant in ("order0", "order_absolute") else x

    def embed_images(x):
        if cnn is not None:
            x = normalize(forward(x).mean((2, 3)))
        x = image.fc(x)
        return last(x if variant == "vse0" else normalize(x))

    def embed_texts(ids, lengths):
        return last(normalize(last_output(torch, text.rnn, text.embed(ids), lengths)))

    def score(images, texts):
        if not is_order:
            return images @ texts.T
        return -(texts[None] - images[:, None]).clamp(min=0).pow(2).sum(2).sqrt()

    return [image, text], FUNCTIONS(images=embed_images, texts=embed_texts, score=score)


def make_vsrn(torch, *, channels, rows, is_flickr=False, words=6, width=8):
    nn = torch.nn
    image, text = nn.Module(), make_text(nn, rows, words, width)
    image.fc = nn.Linear(channels, width)
    image.img_rnn = nn.GRU(width, width, batch_first=True)
    graphs = []
    for number in range(1, 5):
        graph = nn.Module()
        for name in ("g", "theta", "phi"):
            graph.add_module(name, nn.Conv1d(width, width, 1))
        graph.W = nn.Sequential(nn.Conv1d(width, width, 1), nn.BatchNorm1d(width))
        image.add_module(f"Rs_GCN_{number}", graph)
        graphs.append(graph)
    if is_flickr:
        image.bn = nn.BatchNorm1d(width)
    for module in (image, text):
        shake(torch, module)
        shake_norms(torch, module)
    for graph in graphs:  # Products of three tokens grow quickly.
        graph.W[1].weight.data *= 0.1

    def embed_images(x):
        x = image.fc(x)
        x = (x if is_flickr else normalize(x, 1)).permute(0, 2, 1)
        for graph in graphs:
            relation = graph.theta(x).permute(0, 2, 1) @ graph.phi(x) / x.shape[-1]
            x = graph.W((relation @ graph.g(x).permute(0, 2, 1)).permute(0, 2, 1)) + x
        x = image.img_rnn(normalize(x.permute(0, 2, 1), 1))[1][0]
        return normalize(image.bn(x) if is_flickr else x)

    def embed_texts(ids, lengths):
        return normalize(last_output(torch, text.rnn, text.embed(ids), lengths))

    return [image, text], FUNCTIONS(images=embed_images, texts=embed_texts, score=inner)


def make_vse_infinity(torch, *, channels, text, cnn=None, forward=None, width=8):
    """VSE-infinity of regions, or of the cells of a CNN; `text` is (module, function to tokens)."""
    nn = torch.nn
    sentences, read = text
    image = nn.Module()
    aggregate = image
    if cnn is not None:
        image.backbone = nn.Module()
        image.backbone.resnet = cnn
        image.backbone.base = nn.Sequential(cnn.conv1, cnn.bn1)
        image.image_encoder = aggregate = nn.Module()
    aggregate.fc = nn.Linear(channels, width)
    if cnn is None:
        aggregate.mlp = nn.Module()
        sizes = [(channels, width // 2), (width // 2, width)]
        aggregate.mlp.layers = nn.ModuleList(nn.Linear(*size) for size in sizes)
        aggregate.mlp.bns = nn.ModuleList(nn.BatchNorm1d(size[1]) for size in sizes)
    for module in (aggregate, sentences):
        module.gpool = nn.Module()
        module.gpool.gru = nn.GRU(32, 32, batch_first=True, bidirectional=True)
        module.gpool.linear = nn.Linear(32, 1, bias=False)
        if module is aggregate:
            shake_norms(torch, module)

    def embed_images(x):
        if cnn is not None:
            x = forward(x).flatten(2).transpose(1, 2)
        tokens = aggregate.fc(x)
        if cnn is None:
            norm = aggregate.mlp.bns[0]
            hidden = aggregate.mlp.layers[0](x)
            hidden = norm(hidden.flatten(0, 1)).relu().view(hidden.shape)
            tokens = tokens + aggregate.mlp.layers[1](hidden)
        return pool(torch, aggregate.gpool, tokens, [x.shape[1]] * len(x))

    def embed_texts(ids, lengths):
        return pool(torch, sentences.gpool, read(ids, lengths), lengths.tolist())

    return [image, sentences], FUNCTIONS(images=embed_images, texts=embed_texts, score=inner)


def pool(torch, gpool, tokens, lengths):
    """GPO, item by item without padding, and the L2 norm."""
    pooled = []
    for item, length in zip(tokens, lengths, strict=True):
        position = torch.arange(length)[:, None].float()
        rate = torch.exp(torch.arange(0, 32, 2).float() * -(math.log(10000.0) / 32))
        code = torch.zeros(length, 32)
        code[:, 0::2], code[:, 1::2] = torch.sin(position * rate), torch.cos(position * rate)
        outputs = gpool.gru(code[None])[0][0]
        weights = torch.softmax(gpool.linear((outputs[:, :32] + outputs[:, 32:]) / 2) / 0.1, 0)
        pooled.append((item[:length].sort(0, descending=True)[0] * weights).sum(0))
    return normalize(torch.stack(pooled))


def make_bigru(torch, rows, words=6, width=8):
    nn = torch.nn
    text = nn.Module()
    text.embed = nn.Embedding(rows, words)
    text.rnn = nn.GRU(words, width, batch_first=True, bidirectional=True)
    shake(torch, text)

    def read(ids, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(
            text.embed(ids), lengths, batch_first=True, enforce_sorted=False
        )
        tokens, _ = nn.utils.rnn.pad_packed_sequence(text.rnn(packed)[0], batch_first=True)
        return (tokens[..., :width] + tokens[..., width:]) / 2

    return text, read


def make_bert(torch, transformers, rows, width=8):
    """BERT of two small layers under transformers' names."""
    size = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 1}
    config = transformers.BertConfig(
        vocab_size=rows, intermediate_size=48, max_position_embeddings=12,
        attn_implementation="eager", **size,
    )  # fmt: skip
    text = torch.nn.Module()
    text.bert, text.linear = transformers.BertModel(config).eval(), torch.nn.Linear(64, width)

    def read(ids, lengths):
        mask = (torch.arange(ids.shape[1]) < lengths[:, None]).long()
        return text.linear(text.bert(ids, attention_mask=mask)[0])

    return text, read


def make_text(nn, rows, words, width):
    text = nn.Module()
    text.embed = nn.Embedding(rows, words)
    text.rnn = nn.GRU(words, width, batch_first=True)
    return text


def shake_norms(torch, module):
    """Sets nontrivial running statistics and evaluation mode."""
    generator = torch.Generator().manual_seed(2)
    for each in module.modules():
        if isinstance(each, torch.nn.BatchNorm1d):
            for tensor in (each.weight, each.running_mean, each.running_var):
                tensor.data = torch.rand(tensor.shape, generator=generator) + 0.5
    module.eval()


def inner(images, texts):
    return images @ texts.T
