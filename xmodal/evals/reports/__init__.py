"""From results by query to numbers with intervals, tables, comparisons and files."""
