"""Commands and the flags that they share."""
