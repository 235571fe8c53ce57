"""Region and grid features in SCAN's layout."""
