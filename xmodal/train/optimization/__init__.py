"""The optimizer of a run: update rules, schedules, parameter groups, outliers."""
