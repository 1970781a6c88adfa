"""Reads the shell scripts that people launch verl with: parsed by tree-sitter, never executed.

`reading.py` is the door. `shell.py` follows assignments, branches, loops and functions as far as they can be
decided from the text alone, `expansion.py`, `arithmetic.py` and `conditions.py` work out words, and
`command_line.py` takes verl's own command apart. What cannot be decided keeps its shell text and the
reason, from where it arises to the override that it reaches.
"""
