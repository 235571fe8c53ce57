"""Published results, their files and commands, and whether this code reproduces them."""
