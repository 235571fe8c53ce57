"""TensorBoard files of a run: scalars, pictures of queries, similarities, and embeddings.

SCALARS     losses, norms, learning rates; perf/...; the tags of metrics.json
IMAGES      EVALUATOR/DIRECTION/queries/N: a query, the items that it finds, and its positives with
            their ranks and ratings; the queries are the same at every step
HISTOGRAMS  EVALUATOR/DIRECTION/similarity/positive and /other, for the same pairs at every step
TEXT        config, parameters, EVALUATOR/report
PROJECTOR   embeddings of images and captions of the final evaluation
HPARAMS     settings and final metrics, a row per finished run

`config.tensorboard` sets the number of each; zero leaves it out. All processes take part, because
scores come from all devices; process 0 draws and writes.
"""
