/* What graphs share: their results, which live as long as somebody uses their storage, and the order in which they run. */
#include "driver.h"
#include "graphs.h"
#include "tensors.h"

enum { USES = 8 }; /* where a storage has its reference count: behind the pointer to its virtual functions */

static uint32_t uses(const char *storage) { return *(const volatile uint32_t *)(storage + USES); }

static void forget_result(Pool *pool, Py_ssize_t at)
{
    Result *r = pool->results[at];
    pool->n_results--;
    memmove(pool->results + at, pool->results + at + 1, sizeof(Result *) * (size_t)(pool->n_results - at));
    Py_DECREF(r->base);
    PyMem_Free(r);
}

int pool_is_blocked(Pool *pool, int64_t number)
{
    int blocked = 0;
    for (Py_ssize_t i = pool->n_results - 1; i >= 0; i--) {
        Result *r = pool->results[i];
        int alive = uses(r->storage) > pool->unused;
        if (!alive && !r->has_owner) {
            forget_result(pool, i);
        } else if (alive && r->number >= number) {
            r->kept = 1;
            blocked = 1;
        }
    }
    return blocked;
}

Result *pool_add(Pool *pool, PyObject *spec)
{
    unsigned long long storage;
    if (pool->n_results == pool->room) {
        Py_ssize_t room = pool->room * 2 + 8;
        Result **more = PyMem_Realloc(pool->results, sizeof(Result *) * (size_t)room);
        if (!more)
            return (Result *)PyErr_NoMemory();
        pool->results = more;
        pool->room = room;
    }
    Result *r = PyMem_Calloc(1, sizeof(Result));
    if (!r)
        return (Result *)PyErr_NoMemory();
    if (!PyArg_ParseTuple(spec, "OKLLip", &r->base, &storage, (long long *)&r->nbytes, (long long *)&r->elements, &r->dtype, &r->kept)) {
        PyMem_Free(r);
        return NULL;
    }
    r->storage = (char *)(uintptr_t)storage;
    if (uses(r->storage) != pool->unused) {
        PyErr_Format(PyExc_RuntimeError, "a result of the captured graph has %u other uses", uses(r->storage) - pool->unused);
        PyMem_Free(r);
        return NULL;
    }
    Py_INCREF(r->base);
    r->number = pool->captured;
    r->has_owner = 1;
    return pool->results[pool->n_results++] = r;
}

PyObject *pool_memory(Pool *pool, Result *result, void *stream)
{
    const int64_t one = 1;
    void *to = NULL, *from = NULL;
    if (!result->kept)
        return Py_NewRef(result->base);
    PyObject *copy = host_empty(1, &result->elements, &one, result->dtype, pool->device_type, pool->device_index);
    if (!copy || host_data_ptr(copy, &to) || host_data_ptr(result->base, &from) ||
        (result->nbytes && driver_copy(to, from, (size_t)result->nbytes, stream)))
        Py_CLEAR(copy);
    return copy;
}

int pool_follow(Pool *pool, void *stream)
{
    if (pool->has_run && pool->last_stream != stream && driver_follow(&pool->event, pool->last_stream, stream))
        return -1;
    pool->last_stream = stream;
    pool->has_run = 1;
    return 0;
}

int pool_enter(Pool *pool, void **stream, void **before)
{
    PyObject *number = PyObject_CallOneArg(pool->stream_of, pool->device_number);
    if (!number)
        return -1;
    *stream = PyLong_AsVoidPtr(number);
    Py_DECREF(number);
    return PyErr_Occurred() ? -1 : driver_enter(pool->context, before);
}

static PyObject *Pool_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    unsigned long long context;
    unsigned unused;
    int device_type, device_index;
    PyObject *stream_of;
    (void)kwargs;
    if (!PyArg_ParseTuple(args, "iiKOI", &device_type, &device_index, &context, &stream_of, &unused))
        return NULL;
    Pool *pool = (Pool *)type->tp_alloc(type, 0);
    if (!pool)
        return NULL;
    pool->device_type = device_type;
    pool->device_index = device_index;
    pool->context = (void *)(uintptr_t)context;
    pool->unused = unused;
    pool->stream_of = Py_NewRef(stream_of);
    pool->device_number = PyLong_FromLong(device_index);
    return (PyObject *)pool;
}

static void Pool_dealloc(Pool *pool)
{
    while (pool->n_results)
        forget_result(pool, pool->n_results - 1);
    PyMem_Free(pool->results);
    if (pool->event)
        driver_forget_event(pool->event);
    Py_XDECREF(pool->stream_of);
    Py_XDECREF(pool->device_number);
    Py_TYPE(pool)->tp_free((PyObject *)pool);
}

static PyObject *Pool_owns(Pool *pool, PyObject *number)
{
    char *storage = PyLong_AsVoidPtr(number);
    if (PyErr_Occurred())
        return NULL;
    for (Py_ssize_t i = 0; i < pool->n_results; i++)
        if (pool->results[i]->storage == storage)
            Py_RETURN_TRUE;
    Py_RETURN_FALSE;
}

static PyMethodDef Pool_methods[] = {
    {"owns", (PyCFunction)Pool_owns, METH_O, "owns(storage, /)\n--\n\nWhether a storage is that of a graph's result."},
    {NULL, NULL, 0, NULL},
};

static Py_ssize_t Pool_length(Pool *pool) { return pool->n_results; }
static PySequenceMethods Pool_sequence = {.sq_length = (lenfunc)Pool_length};

PyTypeObject host_PoolType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "inductor._host.Pool",
    .tp_basicsize = sizeof(Pool),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "Pool(device_type, device_index, context, stream_of, unused, /)\n--\n\nGraphs that share memory. Its length: their results.",
    .tp_new = Pool_new,
    .tp_dealloc = (destructor)Pool_dealloc,
    .tp_methods = Pool_methods,
    .tp_as_sequence = &Pool_sequence,
};

static PyObject *storage_uses(PyObject *module, PyObject *number)
{
    (void)module;
    char *storage = PyLong_AsVoidPtr(number);
    return PyErr_Occurred() ? NULL : PyLong_FromUnsignedLong(uses(storage));
}

PyMethodDef pool_methods[] = {
    {"storage_uses", storage_uses, METH_O, "storage_uses(storage, /)\n--\n\nThe reference count of a storage, by its address."},
    {NULL, NULL, 0, NULL},
};
