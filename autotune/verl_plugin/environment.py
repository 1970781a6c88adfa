"""Environment variables that a verl trial on CPU needs, and why."""

from __future__ import annotations

from collections.abc import Mapping

PLUGIN_MODULE = "autotune.verl_plugin.register"

CPU_ENVIRONMENT: Mapping[str, str] = {
    "VERL_USE_EXTERNAL_MODULES": PLUGIN_MODULE,
    "AUTOTUNE_CPU": "1",
    # vLLM's sampler compiles a ten-line function with Inductor, 20 s of g++ at the first token.
    "TORCH_COMPILE_DISABLE": "1",
    # vLLM otherwise pins its threads to cores that the trainer needs as well.
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    # The vLLM worker may then live in the engine's process (`distributed_executor_backend: uni`), which
    # saves a process and its 10 s of imports; without it vLLM's CPU platform turns `uni` into `mp`.
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    # The transfer queue asks for 8 threads around each call and warns of it each time on fewer cores.
    "TQ_NUM_THREADS": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "HF_HUB_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
"""Fixed ones; sizes (OMP_NUM_THREADS, VLLM_CPU_KVCACHE_SPACE) come from the job."""
