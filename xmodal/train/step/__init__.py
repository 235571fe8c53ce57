"""Tasks, views, the step, the state and the optimizer of training: pure functions of arrays."""
