"""What happened? Pure functions and folds from an attempt's events to a verdict.

Reading order: `phases`, `kinds` (the vocabulary); `console_line`, `traceback`, `patterns`,
`attribution`, `log_reader` (lines to evidence); `evidence`, `guards` (events to a decision to end
early); `figures`, `classify`, `verdict` (what was made of it). Nothing here reads a clock or a file.
"""
