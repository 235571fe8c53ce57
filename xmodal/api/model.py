"""A loaded dual encoder that maps texts and images to embeddings and similarities."""

import dataclasses
import functools
import hashlib
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from absl import logging
from jax.sharding import Mesh

from xmodal.api.item_embeddings import ItemEmbeddings, join
from xmodal.api.scoring import compare_tokens, compute_weights, score_given_pairs
from xmodal.core.errors import UserError
from xmodal.core.tree_paths import leaves_by_path
from xmodal.data.given_items import GivenItems, Picture, prepare_image
from xmodal.data.pixels.images import ImageConfig
from xmodal.data.text.text_counts import TextCounts, count_texts
from xmodal.data.text.tokenizers import Tokenizer
from xmodal.evals.scores.embed import Embedder
from xmodal.evals.scores.pair_scores import PairFunctions
from xmodal.evals.scores.sources import Embeddings
from xmodal.similarity.vectors import in_precision

if TYPE_CHECKING:
    from xmodal.api.bundles.bundle import BundledEncoders
    from xmodal.models import DualEncoder

Embed = Callable[..., Embeddings]
Vectors = np.ndarray | ItemEmbeddings
_AT_A_TIME = 1 << 14  # Items of an iterator in memory.


class Model:
    """Embeds texts and images as the evaluation does, and compares the embeddings.

    Attributes:
      name: name of the run or folder it was loaded from.
      modalities: "image", "text" or both.
      similarity_name: name of the similarity that compares embeddings, such as `cosine`.
      measure: the similarity and its learned numbers.
      source: the folder it was loaded from.
      step: step of a run, else None.
      images: preprocessing of an image tower, of size 0 if it takes stored features; else None.
      pairs: the functions of its cross-encoder; None without one.
    """

    def __init__(
        self,
        source: str,
        model: "DualEncoder | BundledEncoders",
        params: Any,
        model_state: Any,
        *,
        mesh: Mesh,
        images: ImageConfig | None = None,
        tokenizer: Tokenizer | None = None,
        lengths: Sequence[int] = (),
        step: int | None = None,
        pairs: PairFunctions | None = None,
    ) -> None:
        """Assembles a model from its parts; use `xmodal.load` instead.

        Args:
          source: the folder it was loaded from.
          model: the model that embeds.
          params: parameters by modality, and those of `similarity` and `cross_encoder`, if any.
          model_state: running statistics by modality.
          mesh: devices that items are sharded over.
          images: preprocessing of an image tower.
          tokenizer: tokenizer of a text tower.
          lengths: the only padded lengths of texts, see `GivenItems`.
          step: step of a run.
          pairs: the functions of its cross-encoder, if it has one.
        """
        self.source, self.step, self._mesh = source, step, mesh
        self.name = source if step is None else f"{source} step {step}"
        self.modalities, similarity = tuple(model.towers), model.similarity
        self.similarity_name = similarity.name
        self._params, self._model_state, self.pairs = params, model_state, pairs
        self.images, self._tokenizer = images, tokenizer
        self._warns = True  # Only once: a caller may embed a dataset batch by batch.
        self._lengths = lengths
        # Larger batches have more padding, and on a CPU they are no faster.
        self._texts = 32 if mesh.devices.flat[0].platform == "cpu" else 256
        make = functools.partial(
            Embedder, modalities=model.towers, similarity=similarity, mesh=mesh
        )
        longest = 0 if tokenizer is None else tokenizer.max_length
        embed = make(lambda *inputs: model.embed(*inputs)[0])
        self._embed = functools.partial(embed, field=similarity.config.field)
        self._embed_pairs: Any = pairs and make(lambda *x: model.embed(*x)[0], pairs=pairs)
        self._attend = make(functools.partial(compute_weights, model, self.name, longest))
        learned = params.get("similarity", {})
        if similarity.module is not None:
            self.measure = (similarity, similarity.select_parameters(learned))
            return
        self.measure = similarity, {k: float(learned[k]) for k in similarity.parameters}
        prepare, score = similarity.scorer(self.measure[1])
        self._score = jax.jit(lambda left, right: score(prepare(left), prepare(right)))

    def __repr__(self) -> str:
        return (
            f"<xmodal.Model {self.name}: {' and '.join(self.modalities)}, {self.similarity_name}>"
        )

    def embed_texts(self, texts: Iterable[str], *, batch_size: int | None = None) -> Vectors:
        """Embeds texts; texts of similar length share a batch.

        Logs a warning of texts that are cut or without a known word.

        Args:
          texts: any number of texts, also from an iterator.
          batch_size: items per call over all devices; by default 32 on a CPU, else 256.

        Returns:
          float32 [N, D] in the given order, or `ItemEmbeddings` if the model has several vectors
          per item, an uncertainty, or a similarity that is not symmetric (`order`).
        """
        return self._embed_texts(self._embed, texts, batch_size)

    def embed_images(
        self,
        images: Iterable[Picture] | np.ndarray,
        *,
        batch_size: int = 64,
        upright: bool = True,
        unreadable: dict[int, str] | None = None,
    ) -> Vectors:
        """Embeds images, cropped and resized as in the evaluation of the model.

        Args:
          images: paths, contents of files (bytes), PIL images, or uint8 arrays [H, W, 3], any
            number, also from an iterator; float features [F] or [R, F] for a model of features,
            of which one with `data.image.max_regions` reads at most that many rows.
            Transparent pixels are put on white, as in prepared datasets. JPEG files are decoded
            with TensorFlow's fast DCT, as in training, so that their embeddings differ slightly
            from those of PIL images.
          batch_size: items per call over all devices.
          upright: whether files, their contents and PIL images are rotated according to their EXIF
            orientation. Training and evaluation ignore it, as published code does, so False embeds
            a picture of a dataset as they do.
          unreadable: receives the position and the fault of every picture that cannot be read; its
            embedding has no meaning. By default, such a picture is an error.

        Returns:
          float32 [N, D] in the given order, or `ItemEmbeddings` if the model has several vectors
          per item, an uncertainty, or a similarity that is not symmetric (`order`).
        """
        given = {"upright": upright, "unreadable": unreadable}
        return self._embed_images(self._embed, images, batch_size, **given)

    def similarity(self, left: Vectors, right: Vectors) -> np.ndarray:
        """Compares embeddings by the model's own similarity; larger is more similar.

        For PCME, it is the log-odds of a match. `order` compares an image with a text, whichever
        comes first; of two items of one modality, the left one counts as the image, as the query
        does in search.

        Args:
          left: N items from `embed_texts` or `embed_images`, or vectors [N, D] or [N, K, D]; for
            `order`, vectors need their modality: `ItemEmbeddings(vectors, modality="image")`.
          right: M such items.

        Returns:
          float32 [N, M].
        """
        similarity = self.measure[0]
        if similarity.module is not None:
            return compare_tokens(*self.measure, left, right, self._mesh)
        first, second = (np.asarray(each, np.float32) for each in (left, right))
        modalities = tuple(getattr(each, "modality", "") for each in (left, right))
        if not similarity.symmetric and not set(modalities) <= {"image", "text"}:
            raise UserError(
                f"Similarity {self.similarity_name!r} depends on which modality is the image, but "
                f"the modalities of the embeddings are {list(modalities)}: pass what embed_images "
                "and embed_texts return, or xmodal.ItemEmbeddings(vectors, modality='image') or "
                "'text'."
            )
        first, second = similarity.place(first, second)
        with in_precision(first.dtype):
            if not similarity.symmetric and modalities == ("text", "image"):
                return np.asarray(self._score(second, first), np.float32).T
            return np.asarray(self._score(first, second), np.float32)

    def score_pairs(
        self,
        images: Sequence[Picture],
        texts: Sequence[str],
        *,
        batch_size: int = 64,
        upright: bool = True,
    ) -> np.ndarray:
        """Returns the scores of image i with text i, float32 [N]; repeated items are encoded once.

        See `embed_images` for the arguments, `config.model.cross_encoder.score` for the definition.
        Raises UserError if the model has no cross-encoder, or an item has no partner.
        """
        if self._embed_pairs is None:
            raise UserError(
                f"{self.name} has no cross-encoder; compare embeddings by `similarity`."
            )
        if isinstance(images, str | bytes) or len(images) != len(texts):
            raise UserError("score_pairs takes as many images as texts, in two lists.")
        _check_strings(texts)
        weights = self._params, self._model_state
        embed = functools.partial(self._embed_pairs, *weights, batch_size=batch_size)
        given = {"config": self._require("image"), "tokenizer": self._tokenizer}
        return score_given_pairs(embed, images, texts, upright=upright, **given)

    def attend(
        self, texts: Iterable[str], *, batch_size: int | None = None
    ) -> list[list[tuple[str, float]]]:
        """Returns the tokens of every text with their weights in the model's attention.

        The weights of a text sum to 1; a word outside the vocabulary is the unknown token.

        Args:
          texts: any number of texts.
          batch_size: see `embed_texts`.
        """
        texts = texts if isinstance(texts, str) else list(texts)
        weights = self._embed_texts(self._attend, texts, batch_size)
        tokenizer = self._require("text")
        found = []
        for row, mask, of_text in zip(*tokenizer.encode(texts), np.asarray(weights), strict=True):
            words = [tokenizer.vocabulary[token] for token in row[mask > 0]]
            found.append(list(zip(words, of_text[mask > 0].tolist(), strict=True)))
        return found

    def attend_images(
        self, images: Iterable[Picture] | np.ndarray, *, batch_size: int = 64, upright: bool = True
    ) -> np.ndarray:
        """Returns the weights of an image's patches in the attention that pools them.

        It is that of the head, such as SigLIP's `multihead_attention_pool` or `attention_pool` of
        CLIP's ResNets; with `cls`, as in CLIP's ViTs, that of the first token in the last layer.
        See `embed_images`.

        Returns:
          float32 [N, G, G], means over heads with the sum 1, over the square of `preprocess`.
        """
        found = np.asarray(self._embed_images(self._attend, images, batch_size, upright=upright))
        return found.reshape(-1, *[math.isqrt(found.shape[1])] * 2)

    def tokenize(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Returns the inputs of the text encoder: ids and mask, int32 [N, T]."""
        _check_strings(texts)
        return self._require("text").encode(list(texts))

    def count_texts(self, texts: Sequence[str]) -> TextCounts:
        """Returns how many texts are cut or without a known word."""
        return count_texts(self._require("text"), texts)

    def preprocess(self, images: Iterable[Picture], *, upright: bool = True) -> np.ndarray:
        """Returns the inputs of the image encoder, uint8 [N, size, size, 3] for pictures."""
        config = self._require("image")
        return np.stack([prepare_image(each, config, upright=upright) for each in images])

    def hash_weights(self) -> str:
        """Returns the SHA-256 of the weights, the tokenizer and the preprocessing of images.

        It is the same for a bundle and its model.
        """
        images = self.images and dataclasses.replace(self.images, augment=None)
        words = self._tokenizer and (self._tokenizer.identity, self._tokenizer.rules)
        similarity, learned = self.measure
        numbers = learned if similarity.module is None else similarity.options
        with_arrays = () if similarity.module is None else ("similarity",)
        digest = hashlib.sha256(repr((images, words, numbers)).encode())
        for part in sorted((*self.modalities, *with_arrays)):
            trees = self._params.get(part, {}), self._model_state.get(part, {})
            leaves = {path: leaf for tree in trees for path, leaf in leaves_by_path(tree).items()}
            # Names in a bundle begin with `params/`.
            arrays = {path.removeprefix("params/"): np.asarray(x) for path, x in leaves.items()}
            for path, array in sorted(arrays.items()):
                digest.update(f"{part} {path} {array.dtype} {array.shape}".encode())
                digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()

    def _embed_texts(self, embed: Embed, texts: Iterable[str], batch_size: int | None) -> Vectors:
        tokenizer = self._require("text")
        batch_size = self._texts if batch_size is None else batch_size
        counts: list[TextCounts] = []

        def items(part: Sequence[str], _: int) -> GivenItems:
            _check_strings(part)
            counts.append(self.count_texts(part))
            return GivenItems(texts=part, tokenizer=tokenizer, lengths=self._lengths)

        found = self._embed_all(embed, "text", texts, items, batch_size)
        if self._warns and (said := TextCounts.total(counts).describe("texts")):
            logging.warning("%s", said)
            self._warns = False
        return found

    def _embed_images(self, embed: Embed, images: Any, batch_size: int, **given: Any) -> Vectors:
        config = self._require("image")

        def items(part: Any, first: int) -> GivenItems:
            return GivenItems(images=part, config=config, first=first, **given)

        return self._embed_all(embed, "image", images, items, batch_size)

    def _embed_all(
        self, embed: Embed, modality: str, given: Iterable[Any], items: Any, batch_size: int
    ) -> Vectors:
        # The letters of a string would be items, and so would the rows of a picture.
        one = isinstance(given, np.ndarray) and given.dtype == np.uint8 and given.ndim < 4
        if one or isinstance(given, str | bytes) or not hasattr(given, "__iter__"):
            raise UserError(f"{given!r:.80} is not several {modality}s: put one in a list.")
        found, first, iterator = list[Embeddings](), 0, iter(given)
        while part := list(itertools.islice(iterator, _AT_A_TIME)):
            found.append(embed(self._params, self._model_state, items(part, first), batch_size))
            first += len(part)
        if not found:
            raise UserError(f"There is nothing to embed: no {modality} was given.")
        if not found[0].vectors(modality).shape[-1]:
            raise UserError(
                f"{self.name} has no embeddings, only a cross-encoder; compare images and texts by "
                "`score_pairs`."
            )
        return join(found, modality, keep_modality=not self.measure[0].symmetric)

    def _require(self, modality: str) -> Any:
        """The tokenizer, or the preprocessing of images."""
        if modality not in self.modalities:
            raise UserError(f"{self.name} has no {modality} tower, only {self.modalities[0]}.")
        return self._tokenizer if modality == "text" else self.images


def _check_strings(texts: Any) -> None:
    wrong = [texts] if isinstance(texts, str) else [x for x in texts if not isinstance(x, str)]
    if wrong:
        raise UserError(f"{wrong[0]!r:.80} is given: pass several texts, all of them strings.")
