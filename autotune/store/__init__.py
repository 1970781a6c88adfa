"""What is remembered: one database a job, read and written in frozen values (`store.py`, `reader.py`)."""
