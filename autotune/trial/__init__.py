"""Run it: one attempt of verl, from a request to events and a proven end.

Reading order: `request`, `environment` (what is started); `process_tree`, `supervisor` (the processes);
`tails`, `memory_sampler` (what they tell); `runner`, `launcher` (over Ray); `orphans`, `recorded`
(after a crash). `preparation` builds the requests of a job. Only `launcher` imports Ray.
"""
