"""Studies of labels and metrics, each with a command of its own.

- `sample_pairs`: pairs of captions and images to be rated, as Crisscrossed Captions chose them;
- `describe`: the figures of that paper for any rated pairs;
- `agree`: how alike metrics rank models;
- `label_quality`: precision and recall of one set of positives, judged by another;
- `bradley_terry`: scores of items from preferences between two of them.
"""
