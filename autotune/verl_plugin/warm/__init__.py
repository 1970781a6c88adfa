"""A warm session: one verl process that runs many candidates, one after the other.

`live_keys`   what a session can change between two candidates; everything else is its cold key.
`wire`        how the runner hands over candidates and learns what became of them: files, no imports.
`session`     the entry in place of `verl.trainer.main_ppo`; starts verl once, then serves candidates.
`candidate`   makes the trainer train one candidate, and brings everything back to the start before it.
`rollout`     the agent loops and vLLM's servers: new settings and seed, or a new engine.
`workers`     the part that runs inside verl's training workers: fresh optimizer, live settings, fingerprint.

For verl 0.9.1's synchronous V1 trainer with FSDP and vLLM; `live_keys.cold_only` names what it is not for.
"""
