"""A tiny text encoder with operations of TensorFlow Text, in three layouts of SavedModels."""

import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text

BUCKETS, WIDTH = 97, 8
TABLE = np.random.default_rng(0).normal(size=(BUCKETS, WIDTH)).astype(np.float32)


def embed(texts):
    """The same vectors without the SavedModel: the sum of a text's words by their hashes."""
    rows = [tf.strings.to_hash_bucket_fast(text.split(), BUCKETS).numpy() for text in texts]
    return np.stack([TABLE[each].sum(axis=0) for each in rows])


def _graph(table, texts):
    words = tf_text.WhitespaceTokenizer().tokenize(texts)
    rows = tf.gather(table, tf.strings.to_hash_bucket_fast(words.flat_values, BUCKETS))
    return tf.math.unsorted_segment_sum(rows, words.value_rowids(), tf.cast(words.nrows(), "int32"))


class _Encoder(tf.Module):
    def __init__(self):
        super().__init__()
        self.table = tf.Variable(TABLE)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def __call__(self, inputs):
        return _graph(self.table, inputs)


def save_callable(folder):
    """As TF-Hub's models of TensorFlow 2."""
    tf.saved_model.save(_Encoder(), folder)


def save_signature(folder):
    """A model that cannot be called itself."""
    model, holder = _Encoder(), tf.Module()
    holder.table = model.table
    serve = tf.function(
        lambda text: {"norms": tf.norm(model(text), axis=1), "outputs": model(text)},
        input_signature=[tf.TensorSpec([None], tf.string, "text")],
    )
    tf.saved_model.save(holder, folder, signatures={"serving_default": serve})


def save_module(folder):
    """As TF-Hub's modules of TensorFlow 1: no tags, and a second graph for training."""
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        texts = v1.placeholder(tf.string, [None])
        vectors = _graph(v1.get_variable("table", initializer=TABLE), texts)
        session.run(v1.global_variables_initializer())
        signature = v1.saved_model.predict_signature_def({"text": texts}, {"default": vectors})
        builder = v1.saved_model.Builder(folder)
        builder.add_meta_graph_and_variables(session, [], {"default": signature})
        builder.add_meta_graph(["train"], {"default": signature})
        builder.save()
    with open(f"{folder}/tfhub_module.pb", "wb"):
        pass
