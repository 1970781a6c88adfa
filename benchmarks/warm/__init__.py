"""What a trial costs beyond its own steps, warm against cold, and whether both measure the same."""
