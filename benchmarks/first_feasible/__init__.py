"""How many trials it takes to find a first configuration that fits, where few do."""
