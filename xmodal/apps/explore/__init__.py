"""Looking at models: retrieved items, inspected labels and compared runs."""
