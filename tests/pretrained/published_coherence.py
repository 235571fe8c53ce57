"""CMCM in torch, written from its description, with the names of the released code."""

import math
import types

from published_matching import normalize, shake_norms
from published_polysemous import shake


def make_cmcm(torch, cnn, forward, *, channels, rows, attention, relations=6, words=6, width=5):
    """CMCM; `forward` maps pixels to the cells of `cnn`, `attention` is "", "scaled" or "unscaled".

    Returns:
      The modules by the keys of a checkpoint, and the functions of pixels, of texts (with the
      attention weights of each), and of both vectors to the logits of relations.
    """
    nn = torch.nn
    text, image, classifier = nn.Module(), nn.Module(), nn.Module()
    text.sent_encoder = sentence = nn.Module()
    sentence.embed_layer = nn.Embedding(rows, words, padding_idx=0)
    sentence.rnn = nn.LSTM(words, width, bidirectional=True, batch_first=True)
    if attention:
        sentence.atten_layer = nn.Module()
        sentence.atten_layer.u = nn.Parameter(torch.randn(2 * width))
        sentence.atten_layer.fc = nn.Linear(2 * width, 2 * width)
    text.bn, text.fc = nn.BatchNorm1d(2 * width), nn.Linear(2 * width, 8)
    shake(torch, text)
    image.bottleneck = nn.Sequential(nn.BatchNorm1d(channels), nn.Linear(channels, 8))
    classifier.fc = nn.Linear(16, relations)
    for module in (image, classifier):
        shake(torch, module)
    for module in (image, text):
        shake_norms(torch, module)
    image.resnet = nn.Module()
    layers = [getattr(cnn, name) for name in ("layer1", "layer2", "layer3") if hasattr(cnn, name)]
    image.resnet.encoder = nn.Sequential(
        cnn.conv1, cnn.bn1, nn.ReLU(), nn.MaxPool2d(3, 2, 1), *layers, nn.AdaptiveAvgPool2d(1)
    )

    def embed_images(pixels):
        return normalize(image.bottleneck(forward(pixels).mean((2, 3))))

    def embed_texts(ids, lengths):
        vectors, weights = [], []
        for row, length in zip(ids, lengths, strict=True):
            tokens, (state, _) = sentence.rnn(sentence.embed_layer(row[None, :length]))
            if not attention:
                vectors.append(state[:, 0].flatten())
                continue
            scores = torch.tanh(sentence.atten_layer.fc(tokens[0])) @ sentence.atten_layer.u
            if attention == "scaled":
                scores = scores / math.sqrt(2 * width)
            weights.append(torch.softmax(scores, 0))
            vectors.append(weights[-1] @ tokens[0])
        return normalize(text.fc(text.bn(torch.stack(vectors)))), weights

    def classify(texts, images):
        return classifier.fc(torch.cat([texts, images], 1))

    modules = {"text_encoder": text, "image_encoder": image, "discourse_classifier": classifier}
    functions = types.SimpleNamespace(images=embed_images, texts=embed_texts, classify=classify)
    return modules, functions


def refine(torch, functions, images, texts, strength=0.12, gap=0.05):
    """Refined similarities of every text, one query and one candidate at a time."""
    rows = []
    for text in texts:
        row = [(text @ image).item() for image in images]
        best, second = sorted(row, reverse=True)[:2]
        if best - second < gap:
            for place, image in enumerate(images):
                x = torch.sigmoid(functions.classify(text[None], image[None]))[0]
                row[place] *= sum(math.exp(strength * abs(p.item() - 0.5)) for p in x)
        rows.append(row)
    return rows
