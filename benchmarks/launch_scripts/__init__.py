"""How exactly launch scripts are read, over verl's public examples."""
