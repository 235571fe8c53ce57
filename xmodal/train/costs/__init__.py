"""What the programs of a run cost: memory, operations and traffic, as the compiler has them."""
