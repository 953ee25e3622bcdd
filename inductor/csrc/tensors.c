/* The C shim of libtorch (aoti_torch_*), by addresses that Python finds. torch's C++ headers are not used: a handle of the shim is the
 * address of the at::Tensor inside the Python object; where that is, is measured by inductor/runtime/layout.py and checked. */
#include "tensors.h"
#include <pthread.h>

typedef void *Handle;

/* Addresses of libtorch functions, set once by configure(). */
static struct {
    Py_ssize_t handle_offset;
    int32_t (*data_ptr)(Handle, void **);
    int32_t (*strides)(Handle, int64_t **);
    int32_t (*empty_strided)(int64_t, const int64_t *, const int64_t *, int32_t, int32_t, int32_t, Handle *);
    int32_t (*reinterpret)(Handle, int64_t, const int64_t *, const int64_t *, int64_t, Handle *);
    int32_t (*delete_object)(Handle);
    PyObject *(*wrap)(Handle);
    int (*threads)(void);
    Team team; /* NULL: torch has another thread pool than OpenMP's */
    PyObject *guard; /* makes a context manager that switches autograd and autocast dispatch off */
    PyObject *enter, *exit; /* names of its methods */
} torch;

static volatile int after_fork; /* the OpenMP pool does not survive fork: children run on one thread */

static void in_child(void) { after_fork = 1; }

static inline Handle handle_of(PyObject *tensor) { return (char *)tensor + torch.handle_offset; }

static int shim_error(const char *what)
{
    if (!PyErr_Occurred())
        PyErr_Format(PyExc_RuntimeError, "libtorch failed to %s", what);
    return -1;
}

/* Python object of a new at::Tensor; takes the handle. */
static PyObject *wrap(Handle handle)
{
    PyObject *tensor = torch.wrap(handle);
    torch.delete_object(handle);
    return tensor;
}

int host_data_ptr(PyObject *tensor, void **data) { return torch.data_ptr(handle_of(tensor), data) ? shim_error("read a data pointer") : 0; }

int host_strides(PyObject *tensor, int64_t **strides) { return torch.strides(handle_of(tensor), strides) ? shim_error("read strides") : 0; }

/* The shim says only that it failed; on a device that is for want of memory. */
static PyObject *no_memory(int ndim, const int64_t *sizes, int device_type)
{
    PyObject *module = device_type ? PyImport_ImportModule("torch") : NULL;
    PyObject *error = module ? PyObject_GetAttrString(module, "OutOfMemoryError") : NULL;
    long long elements = 1;
    for (int i = 0; i < ndim; i++)
        elements *= sizes[i];
    if (!PyErr_Occurred())
        PyErr_Format(error ? error : PyExc_RuntimeError, "libtorch failed to allocate a result of %lld elements", elements);
    Py_XDECREF(error);
    Py_XDECREF(module);
    return NULL;
}

PyObject *host_empty(int ndim, const int64_t *sizes, const int64_t *strides, int dtype, int device_type, int device_index)
{
    Handle handle;
    if (torch.empty_strided(ndim, sizes, strides, dtype, device_type, device_index, &handle))
        return no_memory(ndim, sizes, device_type);
    return wrap(handle);
}

/* The offset counts from where the tensor begins, not its storage. */
PyObject *host_view(PyObject *base, int ndim, const int64_t *sizes, const int64_t *strides, int64_t offset)
{
    Handle handle;
    if (torch.reinterpret(handle_of(base), ndim, sizes, strides, offset, &handle))
        return shim_error("make a view"), NULL;
    return wrap(handle);
}

/* Switches autograd and autocast dispatch off until `host_leave_guard`. New reference, or NULL with an error. */
PyObject *host_enter_guard(void)
{
    PyObject *guard = PyObject_CallNoArgs(torch.guard);
    PyObject *entered = guard ? PyObject_CallMethodNoArgs(guard, torch.enter) : NULL;
    if (!entered)
        Py_CLEAR(guard);
    Py_XDECREF(entered);
    return guard;
}

/* Keeps the error that is set, if one is. */
void host_leave_guard(PyObject *guard)
{
    PyObject *type, *value, *traceback, *args[] = {guard, Py_None, Py_None, Py_None};
    PyErr_Fetch(&type, &value, &traceback);
    PyObject *left = PyObject_VectorcallMethod(torch.exit, args, 4, NULL);
    if (!left)
        PyErr_WriteUnraisable(guard);
    Py_XDECREF(left);
    PyErr_Restore(type, value, traceback);
    Py_DECREF(guard);
}

/* Of a kernel's team. */
int host_threads(void) { return after_fork ? 1 : torch.threads(); }

Team host_team(void) { return torch.team; }

static PyObject *configure(PyObject *module, PyObject *args)
{
    unsigned long long a[8];
    PyObject *guard;
    (void)module;
    if (!PyArg_ParseTuple(args, "nKKKKKKKKO", &torch.handle_offset, &a[0], &a[1], &a[2], &a[3], &a[4], &a[5], &a[6], &a[7], &guard))
        return NULL;
    torch.data_ptr = (void *)(uintptr_t)a[0];
    torch.strides = (void *)(uintptr_t)a[1];
    torch.empty_strided = (void *)(uintptr_t)a[2];
    torch.reinterpret = (void *)(uintptr_t)a[3];
    torch.delete_object = (void *)(uintptr_t)a[4];
    torch.wrap = (void *)(uintptr_t)a[5];
    torch.threads = (void *)(uintptr_t)a[6];
    torch.team = (void *)(uintptr_t)a[7];
    Py_XSETREF(torch.guard, Py_NewRef(guard));
    Py_XSETREF(torch.enter, PyUnicode_InternFromString("__enter__"));
    Py_XSETREF(torch.exit, PyUnicode_InternFromString("__exit__"));
    if (!torch.enter || !torch.exit)
        return NULL;
    Py_RETURN_NONE;
}

PyMethodDef tensor_methods[] = {
    {"configure", configure, METH_VARARGS,
     "configure(handle_offset, data_ptr, strides, empty_strided, reinterpret, delete_object, wrap, threads, team, guard, /)\n--\n\n"
     "Set the addresses of libtorch functions."},
    {NULL, NULL, 0, NULL},
};

void host_watch_forks(void) { pthread_atfork(NULL, NULL, in_child); }
