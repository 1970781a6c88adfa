"""Share of public failure reports whose kind `autotune explain` finds, and how fast it reads."""
