"""Code that runs inside verl's own processes. The only room that imports verl, torch or vllm.

verl imports `register` in each of its processes (`VERL_USE_EXTERNAL_MODULES`); nothing happens unless
the environment of the process asks for it, so stock verl stays stock. Every patch names the place in
verl 0.9.1 that makes it necessary.

`register`       reads the environment and calls the others.
                 Asked by `VERL_USE_EXTERNAL_MODULES=autotune.verl_plugin.register`.
`after_import`   patches a module right after its first import, so that nothing heavy is imported early.
`cpu_platform`   verl on a machine without an accelerator, with `cpu_device` as its device.
                 Asked by `AUTOTUNE_CPU=1`.
`cpu_vllm`       vLLM's CPU build keeps weights that can be loaded again.
                 Asked by verl's `rollout.engine_kwargs.vllm.worker_extension_cls`.
`memory_cap`     real allocation failures: a limit on what one training worker may allocate.
                 Asked by `AUTOTUNE_CPU_MEMORY_CAP_GB`; says so in `AUTOTUNE_MEMORY_CAP_DIR`.
`mirrors`        the user's own trackers cannot fail or hold up a trial. Asked by `AUTOTUNE_MIRRORS`.
`phases`         a line at each begin and end of a part of a step, with the workers' peak memory.
                 Asked by `AUTOTUNE_PHASES_PATH`.
`load_monitor`   tokens, samples and micro batches of each rank and step.
                 Asked by `AUTOTUNE_RANK_LOAD_PATH`.
`length_buckets`     micro batches of similar length. Asked by `AUTOTUNE_LENGTH_BUCKETS=sorted`.
`adaptive_clipping`  gradients clipped unit by unit. Asked by `AUTOTUNE_ADAPTIVE_CLIPPING`.
`token_check`        ids and masks against the chat template. Asked by `AUTOTUNE_TOKEN_CHECK=first_step`.
`replay_poll`    polls the replay buffer more often than every 2 s.
                 Asked by `AUTOTUNE_REPLAY_POLL_S`.
`trial_sockets`  keeps two trials on one host from loading each other's weights.
                 Asked by `AUTOTUNE_TRIAL_KEY`.
`warm`           a session: one verl process that runs many candidates; asked by `AUTOTUNE_SESSION_FOLDER`.
`environment`    the environment variables that a trial on CPU needs.
`tiny_job`       makes a model, data and reward (`tiny_reward`) that train in seconds on two cores.
`validator`      verl's own configuration checks, for a parent process that does not import verl.
"""
