/* A libnvidia-ml.so.1 that tells what the file named by STUB_NVML_STATE says, read at every call.
 *
 * One line each:
 *   gpu <index> <uuid> <total bytes> <used bytes> <mig: 0 or 1>
 *   process <gpu index> <pid> <bytes, or NA>
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct { unsigned long long total, free, used; } memory_t;
typedef struct { unsigned int version; unsigned long long total, reserved, free, used; } memory_v2_t;
typedef struct { unsigned int pid; unsigned long long used; unsigned int gpu_instance, compute_instance; } process_t;
typedef struct { char uuid[80]; unsigned long long total, used; unsigned int mig; } gpu_t;

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, INSUFFICIENT_SIZE = 7, UNKNOWN = 999 };

static int read_gpu(unsigned int wanted, gpu_t *gpu, unsigned int *count) {
    FILE *state = fopen(getenv("STUB_NVML_STATE"), "r");
    char line[256];
    unsigned int index, found = 0;
    gpu_t one;
    if (!state) return UNKNOWN;
    *count = 0;
    while (fgets(line, sizeof line, state)) {
        if (sscanf(line, "gpu %u %79s %llu %llu %u", &index, one.uuid, &one.total, &one.used, &one.mig) != 5) continue;
        (*count)++;
        if (index == wanted) { *gpu = one; found = 1; }
    }
    fclose(state);
    return found ? SUCCESS : INVALID_ARGUMENT;
}

static int of_handle(void *handle, gpu_t *gpu) {
    unsigned int count;
    return read_gpu((unsigned int)(size_t)handle - 1, gpu, &count);
}

int nvmlInitWithFlags(unsigned int flags) { (void)flags; return getenv("STUB_NVML_STATE") ? SUCCESS : UNKNOWN; }
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) { return SUCCESS; }
const char *nvmlErrorString(int code) { return code == SUCCESS ? "Success" : "Stub error"; }

int nvmlSystemGetDriverVersion(char *text, unsigned int length) {
    snprintf(text, length, "570.00");
    return SUCCESS;
}

int nvmlDeviceGetCount_v2(unsigned int *count) {
    gpu_t gpu;
    int code = read_gpu(0, &gpu, count);
    return code == UNKNOWN ? UNKNOWN : SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **handle) {
    gpu_t gpu;
    unsigned int count;
    *handle = (void *)(size_t)(index + 1);
    return read_gpu(index, &gpu, &count);
}

int nvmlDeviceGetUUID(void *handle, char *text, unsigned int length) {
    gpu_t gpu;
    int code = of_handle(handle, &gpu);
    if (code == SUCCESS) snprintf(text, length, "%s", gpu.uuid);
    return code;
}

int nvmlDeviceGetName(void *handle, char *text, unsigned int length) {
    (void)handle;
    snprintf(text, length, "NVIDIA Stub 80GB");
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo(void *handle, memory_t *memory) {
    gpu_t gpu;
    int code = of_handle(handle, &gpu);
    if (code != SUCCESS) return code;
    memory->total = gpu.total;
    memory->used = gpu.used;
    memory->free = gpu.total - gpu.used;
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo_v2(void *handle, memory_v2_t *memory) {
    gpu_t gpu;
    int code = of_handle(handle, &gpu);
    if (code != SUCCESS) return code;
    memory->total = gpu.total;
    memory->reserved = 0;
    memory->used = gpu.used;
    memory->free = gpu.total - gpu.used;
    return SUCCESS;
}

int nvmlDeviceGetMigMode(void *handle, unsigned int *current, unsigned int *pending) {
    gpu_t gpu;
    int code = of_handle(handle, &gpu);
    if (code != SUCCESS) return code;
    if (gpu.mig > 1) return NOT_SUPPORTED;
    *current = *pending = gpu.mig;
    return SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *handle, unsigned int *count, process_t *processes) {
    FILE *state = fopen(getenv("STUB_NVML_STATE"), "r");
    char line[256], used[64];
    unsigned int index, pid, found = 0;
    if (!state) return UNKNOWN;
    while (fgets(line, sizeof line, state)) {
        if (sscanf(line, "process %u %u %63s", &index, &pid, used) != 3) continue;
        if (index != (unsigned int)(size_t)handle - 1) continue;
        if (processes && found < *count) {
            memset(&processes[found], 0, sizeof processes[found]);
            processes[found].pid = pid;
            processes[found].used = strcmp(used, "NA") ? strtoull(used, NULL, 10) : ~0ULL;
        }
        found++;
    }
    fclose(state);
    int code = found > *count ? INSUFFICIENT_SIZE : SUCCESS;
    *count = found;
    return code;
}
