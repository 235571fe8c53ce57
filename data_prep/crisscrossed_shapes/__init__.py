"""`crisscrossed_shapes`: rendered scenes, captions that disagree, and graded pairs as in CxC."""
