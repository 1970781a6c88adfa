"""How well the memory forecast tells configurations that run from those that run out of memory."""
