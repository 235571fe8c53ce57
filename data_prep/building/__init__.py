"""What every build does with its records: checks, counts, hashes, lists what is left out."""
