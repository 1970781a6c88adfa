"""What can be known to be wrong before a GPU is used: small pure functions, one file a family.

`table.RULES` lists them; each has an id, a severity, a reason, and where there is one a fix.
"""
