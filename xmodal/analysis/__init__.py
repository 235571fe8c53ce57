"""Studies of labels and metrics, each with its own command.

- `sample_pairs`: pairs of captions and images to be rated, chosen as in Crisscrossed Captions;
- `describe`: the figures of that paper for any rated pairs;
- `agree`: how similarly metrics rank models;
- `label_quality`: precision and recall of one set of positives against another;
- `bradley_terry`: scores of items from preferences between two of them.
"""
