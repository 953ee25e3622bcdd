#include "driver.h"
#include <dlfcn.h>

typedef void *Handle;

/* Functions of the driver, by the names that have not changed since CUDA 11. Each returns 0 or the number of an error. */
#define FUNCTIONS(_)                                                                                                          \
    _(Init, (unsigned))                                                                                                       \
    _(DriverGetVersion, (int *))                                                                                              \
    _(DeviceGet, (int *, int))                                                                                                \
    _(DeviceGetAttribute, (int *, int, int))                                                                                  \
    _(DevicePrimaryCtxRetain, (Handle *, int))                                                                                \
    _(CtxGetCurrent, (Handle *))                                                                                              \
    _(CtxSetCurrent, (Handle))                                                                                                \
    _(ModuleLoadData, (Handle *, const void *))                                                                               \
    _(ModuleUnload, (Handle))                                                                                                 \
    _(ModuleGetFunction, (Handle *, Handle, const char *))                                                                    \
    _(FuncGetAttribute, (int *, int, Handle))                                                                                 \
    _(FuncSetAttribute, (Handle, int, int))                                                                                   \
    _(LaunchKernel, (Handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Handle, void **, void **)) \
    _(GraphLaunch, (Handle, Handle))                                                                                          \
    _(StreamIsCapturing, (Handle, int *))                                                                                     \
    _(StreamWaitEvent, (Handle, Handle, unsigned))                                                                            \
    _(EventCreate, (Handle *, unsigned))                                                                                      \
    _(EventRecord, (Handle, Handle))                                                                                          \
    _(EventDestroy_v2, (Handle))                                                                                              \
    _(MemcpyDtoDAsync_v2, (Handle, Handle, size_t, Handle))                                                                   \
    _(GetErrorName, (int, const char **))                                                                                     \
    _(GetErrorString, (int, const char **))

enum { MAX_THREADS_PER_BLOCK = 0, SHARED_SIZE_BYTES = 1, LOCAL_SIZE_BYTES = 3, NUM_REGS = 4, MAX_DYNAMIC_SHARED_SIZE_BYTES = 8 }; /* of functions */
enum { MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97 };                                                                                  /* of devices */
enum { ALWAYS_SHARED = 48 << 10 }; /* bytes that a block may have without asking */

static struct {
    void *library;
#define MEMBER(name, parameters) int(*name) parameters;
    FUNCTIONS(MEMBER)
} cuda;

/* Errors that a kernel leaves behind: whatever the process asks of the device from then on fails with the same one. */
static int is_lost(int code)
{
    return code == 700 || code == 702 || code == 710 || (code >= 714 && code <= 719);
}

static int driver_error(int code, const char *what, const char *whose)
{
    static const char *const lost = "; a kernel before it has made the device unusable for this process, and `dynamo-debug sanitize "
                                    "SCRIPT` finds which [DI023]";
    const char *name = "an unknown error", *text = "";
    if (cuda.GetErrorName(code, &name) || !name)
        name = "an unknown error";
    if (cuda.GetErrorString(code, &text) || !text)
        text = "";
    PyObject *message = PyUnicode_FromFormat("the CUDA driver could not %s %s: %s (%d) %s%s", what, whose, name, code, text,
                                             is_lost(code) ? lost : "");
    PyObject *error = message ? PyObject_CallOneArg(PyExc_RuntimeError, message) : NULL;
    Py_XDECREF(message);
    if (error && (!is_lost(code) || !PyObject_SetAttrString(error, "is_final", Py_True))) /* see dynamo/graph/rescue.py */
        PyErr_SetObject(PyExc_RuntimeError, error);
    Py_XDECREF(error);
    return -1;
}

/* open_driver(path): the driver's version, 13010 for 13.1. Raises OSError without a driver, RuntimeError without a device. */
static PyObject *open_driver(PyObject *module, PyObject *args)
{
    const char *path;
    int version = 0, code;
    (void)module;
    if (!PyArg_ParseTuple(args, "s", &path))
        return NULL;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return PyErr_Format(PyExc_OSError, "no CUDA driver: %s", dlerror()), NULL;
#define FIND(name, parameters)                                                                                           \
    if (!(cuda.name = (int(*) parameters)(uintptr_t)dlsym(library, "cu" #name)))                                         \
        return PyErr_Format(PyExc_OSError, "%s is too old: it has no function cu%s", path, #name), dlclose(library), NULL;
    FUNCTIONS(FIND)
    if ((code = cuda.Init(0)))
        return driver_error(code, "start", path), NULL;
    if ((code = cuda.DriverGetVersion(&version)))
        return driver_error(code, "tell the version of", path), NULL;
    cuda.library = library;
    return PyLong_FromLong(version);
}

static int is_open(void)
{
    if (!cuda.library)
        PyErr_SetString(PyExc_RuntimeError, "the CUDA driver is not open");
    return cuda.library != NULL;
}

/* device_context(index): the context that torch uses on a device. It stays as long as the process. */
static PyObject *device_context(PyObject *module, PyObject *index)
{
    int device, code, number = (int)PyLong_AsLong(index);
    Handle context;
    (void)module;
    if (PyErr_Occurred() || !is_open())
        return NULL;
    if ((code = cuda.DeviceGet(&device, number)) || (code = cuda.DevicePrimaryCtxRetain(&context, device)))
        return driver_error(code, "use", "a device"), NULL;
    return PyLong_FromVoidPtr(context);
}

/* More shared memory than every block may have has to be asked for. */
static int allow_shared(Handle function, int shared, int index)
{
    int device, most = 0, fixed = 0, code;
    if (shared <= ALWAYS_SHARED)
        return 0;
    if ((code = cuda.DeviceGet(&device, index)) || (code = cuda.DeviceGetAttribute(&most, MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, device)) ||
        (code = cuda.FuncGetAttribute(&fixed, SHARED_SIZE_BYTES, function)))
        return code;
    return cuda.FuncSetAttribute(function, MAX_DYNAMIC_SHARED_SIZE_BYTES, most - fixed > shared ? most - fixed : shared);
}

/* load_kernel(image, name, shared, context, device): (function, registers, bytes of spills, most threads of a block). */
static PyObject *load_kernel(PyObject *unused, PyObject *args)
{
    const char *image, *name;
    Py_ssize_t size;
    unsigned long long context;
    int shared, device, registers = 0, spills = 0, threads = 0, code;
    Handle module = NULL, function = NULL, before = NULL;
    (void)unused;
    if (!PyArg_ParseTuple(args, "y#siKi", &image, &size, &name, &shared, &context, &device) || !is_open())
        return NULL;
    if (driver_enter((Handle)(uintptr_t)context, &before))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    if (!(code = cuda.ModuleLoadData(&module, image)) && !(code = cuda.ModuleGetFunction(&function, module, name)) &&
        !(code = allow_shared(function, shared, device)) && !(code = cuda.FuncGetAttribute(&registers, NUM_REGS, function)) &&
        !(code = cuda.FuncGetAttribute(&spills, LOCAL_SIZE_BYTES, function)))
        code = cuda.FuncGetAttribute(&threads, MAX_THREADS_PER_BLOCK, function);
    if (code && module)
        cuda.ModuleUnload(module);
    Py_END_ALLOW_THREADS
    driver_leave(before);
    if (code)
        return driver_error(code, "load", name), NULL;
    return Py_BuildValue("(Kiii)", (unsigned long long)(uintptr_t)function, registers, spills, threads);
}

int driver_enter(void *context, void **before)
{
    void *now = NULL;
    int code = cuda.CtxGetCurrent(&now);
    *before = NULL;
    if (!code && now != context) { /* a thread that has not used this device: autograd's, or one that the program started */
        code = cuda.CtxSetCurrent(context);
        *before = now;
    }
    return code ? driver_error(code, "use", "a device") : 0;
}

void driver_leave(void *before)
{
    if (before)
        cuda.CtxSetCurrent(before);
}

int driver_launch(void *function, const unsigned *grid, unsigned threads, unsigned shared, void *stream, void **cells, PyObject *name)
{
    int code;
    Py_BEGIN_ALLOW_THREADS /* the driver waits where a thousand kernels are queued */
    code = cuda.LaunchKernel(function, grid[0], grid[1], grid[2], threads, 1, 1, shared, stream, cells, NULL);
    Py_END_ALLOW_THREADS
    return code ? driver_error(code, "launch", PyUnicode_AsUTF8(name)) : 0;
}

int driver_launch_graph(void *executable, void *stream)
{
    int code = cuda.GraphLaunch(executable, stream);
    return code ? driver_error(code, "launch", "a captured graph") : 0;
}

int driver_copy(void *to, void *from, size_t nbytes, void *stream)
{
    int code = cuda.MemcpyDtoDAsync_v2(to, from, nbytes, stream);
    return code ? driver_error(code, "copy", "an input or result of a captured graph") : 0;
}

int driver_is_capturing(void *stream)
{
    int status = 0;
    return cuda.StreamIsCapturing(stream, &status) || status; /* an error: another capture forbids to ask */
}

int driver_follow(void **event, void *earlier, void *stream)
{
    enum { DISABLE_TIMING = 2 };
    int code = *event ? 0 : cuda.EventCreate(event, DISABLE_TIMING);
    if (!code)
        code = cuda.EventRecord(*event, earlier);
    if (!code)
        code = cuda.StreamWaitEvent(stream, *event, 0);
    return code ? driver_error(code, "order", "two streams") : 0;
}

void driver_forget_event(void *event)
{
    if (event)
        cuda.EventDestroy_v2(event);
}

PyMethodDef driver_methods[] = {
    {"open_driver", open_driver, METH_VARARGS, "open_driver(path, /)\n--\n\nFind the CUDA driver; its version."},
    {"device_context", device_context, METH_O, "device_context(index, /)\n--\n\nThe context that torch uses on a device."},
    {"load_kernel", load_kernel, METH_VARARGS,
     "load_kernel(image, name, shared, context, device, /)\n--\n\n(function, registers, bytes of spills, most threads of a block) of a compiled kernel."},
    {NULL, NULL, 0, NULL},
};
