/* A CUDA driver without a GPU: it records what it is asked to do, and fails where a test says so. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 64, CELLS = 8 };
typedef struct {
    char name[64];
    int shared;
} Function;

typedef struct {
    void *function, *stream, *context;
    unsigned grid[3], threads, shared;
    uint64_t cells[CELLS];
} Record;

Record fake_launches[MOST];
int fake_count, fake_loads, fake_version = 12040, fake_fail_load, fake_fail_launch, fake_graphs, fake_cells = 2, fake_shared;
int fake_sets_flag; /* the last but `fake_cells` cell of a launch points at a flag */
static __thread void *current;
static int contexts[8];

#define API __attribute__((visibility("default"))) int
API cuInit(unsigned flags) { return (int)flags; }
API cuDriverGetVersion(int *version) { return *version = fake_version, 0; }
API cuDeviceGet(int *device, int index) { return *device = index, index < 8 ? 0 : 101; }
API cuDeviceGetAttribute(int *value, int attribute, int device) { return *value = attribute == 97 ? 227 << 10 : device, 0; }
API cuDevicePrimaryCtxRetain(void **context, int device) { return *context = &contexts[device], 0; }
API cuCtxGetCurrent(void **context) { return *context = current, 0; }
API cuCtxSetCurrent(void *context) { return current = context, 0; }
API cuModuleLoadData(void **module, const void *image) { return *module = (void *)image, fake_loads++, fake_fail_load; }
API cuModuleUnload(void *module) { return module == NULL; }
API cuModuleGetFunction(void **function, void *module, const char *name)
{
    Function *f = calloc(1, sizeof(Function));
    strncpy(f->name, name, sizeof f->name - 1);
    (void)module;
    return *function = f, 0;
}
API cuFuncGetAttribute(int *value, int attribute, void *function) { return *value = attribute == 0 ? 1024 : 0, function == NULL; }
API cuFuncSetAttribute(void *function, int attribute, int value) { return fake_shared = value, function == NULL || attribute != 8; }
API cuLaunchKernel(void *function, unsigned x, unsigned y, unsigned z, unsigned tx, unsigned ty, unsigned tz, unsigned shared, void *stream,
                   void **cells, void **extra)
{
    Record *r = &fake_launches[fake_count++ % MOST];
    *r = (Record){function, stream, current, {x, y, z}, tx * ty * tz, shared, {0}};
    for (int k = 0; k < fake_cells && k < CELLS; k++)
        r->cells[k] = *(uint64_t *)cells[k];
    if (fake_sets_flag)
        *(int *)(uintptr_t)r->cells[fake_cells - 1] = 1;
    return extra ? 1 : fake_fail_launch;
}
void (*fake_replay)(void *graph, void *stream);
int fake_copies, fake_waits, fake_capturing;
API cuGraphLaunch(void *graph, void *stream)
{
    fake_graphs++;
    if (fake_replay)
        fake_replay(graph, stream);
    return fake_fail_launch;
}
API cuStreamIsCapturing(void *stream, int *status) { return *status = fake_capturing, stream == NULL; }
API cuStreamWaitEvent(void *stream, void *event, unsigned flags) { return fake_waits++, stream == NULL || event == NULL || flags; }
API cuEventCreate(void **event, unsigned flags) { return *event = contexts, flags != 2; }
API cuEventRecord(void *event, void *stream) { return event == NULL || stream == NULL; }
API cuEventDestroy_v2(void *event) { return event == NULL; }
API cuMemcpyDtoDAsync_v2(void *to, void *from, size_t size, void *stream) { return memcpy(to, from, size), fake_copies++, stream == NULL; }
API cuGetErrorName(int code, const char **name) { return *name = code == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : code == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR", 0; }
API cuGetErrorString(int code, const char **text) { return *text = code == 2 ? "out of memory" : "it failed", 0; }
