/* TensorFacts: what a compiled graph assumes of a tensor.
 *
 * Reading one attribute of a tensor through Python costs 50-100 ns, all of them 500; reading the fields of c10::TensorImpl costs 5.
 * Its layout is no ABI, so it is measured: at first use the offsets are searched in tensors whose facts are known, and every offset
 * must be the only one that explains all of them. Otherwise the attribute API is used, and layout_report() says why. */
#include "core.h"
#include <malloc.h>
#include <stddef.h>
#include <structmember.h>

#include "samples.h"

TensorLayout dd_layout = {.raw = -1};
static PyObject *read_facts; /* facts(tensor) of samples.h */

enum { INLINE_DIMS = 5, INT64_NUMBER = 4, MOST_SAMPLES = 64, MOST_BYTES = 512 }; /* c10/core/impl/SizesAndStrides.h: C10_SIZES_AND_STRIDES_MAX_INLINE_SIZE */

typedef struct {
    PyObject_HEAD
    PyTypeObject *type;
    int raw;
    int ndim;
    uint32_t dtype_device;   /* dtype number, device type, device index: four consecutive bytes of TensorImpl */
    int requires_grad;
    uint64_t keys;
    int64_t *shape;          /* ndim sizes, then ndim strides */
    char *dims;              /* NULL: compare every dim */
    PyObject *api;           /* facts(tensor) */
} TensorFacts;

/* ---- calibration ---- */

typedef struct {
    const char *obj, *impl;
    size_t obj_bytes, impl_bytes;
    uint64_t cdata, keys, storage;
    int64_t shape[16], stride[16];
    int ndim, requires_grad, dtype, device, is_leaf, is_view;
} Sample;

static bool give_up(const char *reason)
{
    dd_layout.raw = 0;
    snprintf(dd_layout.reason, sizeof dd_layout.reason, "%s", reason);
    PyErr_Clear();
    return false;
}

static bool read_sample(PyObject *row, Sample *s)
{
    PyObject *tensor, *shape, *stride;
    unsigned long long cdata, keys, storage;
    if (!PyArg_ParseTuple(row, "OKKO!O!piippK", &tensor, &cdata, &keys, &PyTuple_Type, &shape, &PyTuple_Type, &stride, &s->requires_grad, &s->dtype, &s->device,
                          &s->is_leaf, &s->is_view, &storage))
        return false;
    s->obj = (const char *)tensor;
    s->obj_bytes = (size_t)Py_TYPE(tensor)->tp_basicsize;
    s->cdata = cdata;
    s->keys = keys;
    s->storage = storage;
    s->impl = (const char *)(uintptr_t)cdata;
    s->impl_bytes = malloc_usable_size((void *)(uintptr_t)cdata);
    if (s->impl_bytes > MOST_BYTES)
        s->impl_bytes = MOST_BYTES;
    s->ndim = (int)PyTuple_GET_SIZE(shape);
    for (int i = 0; i < s->ndim && i < 16; i++) {
        s->shape[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(shape, i));
        s->stride[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(stride, i));
    }
    return !PyErr_Occurred();
}

static uint64_t word(const char *at, Py_ssize_t offset)
{
    uint64_t value;
    memcpy(&value, at + offset, sizeof value);
    return value;
}

typedef bool (*Fits)(const Sample *s, Py_ssize_t offset);

static bool fits_cdata(const Sample *s, Py_ssize_t o) { return o + 8 <= (Py_ssize_t)s->obj_bytes && word(s->obj, o) == s->cdata; }
static bool fits_keys(const Sample *s, Py_ssize_t o) { return word(s->impl, o) == s->keys; }
static bool fits_storage(const Sample *s, Py_ssize_t o) { return word(s->impl, o) == s->storage; }

/* SizesAndStrides: ndim, then 5 sizes and 5 strides inline, or one pointer to both. */
static bool fits_ndim(const Sample *s, Py_ssize_t o)
{
    const char *sizes = s->impl + o + 8, *strides = sizes + INLINE_DIMS * 8;
    if (word(s->impl, o) != (uint64_t)s->ndim || (size_t)o + 8 + 2 * INLINE_DIMS * 8 > s->impl_bytes)
        return false;
    if (s->ndim > INLINE_DIMS) {
        sizes = (const char *)(uintptr_t)word(sizes, 0);
        /* Anything may stand at a wrong offset. Only sizes held in a block of their own are followed, so the address is compared first. */
        if ((uintptr_t)sizes < 4096 || (uintptr_t)sizes % 8)
            return false;
        strides = sizes + s->ndim * 8;
    }
    for (int i = 0; i < s->ndim; i++)
        if ((int64_t)word(sizes, i * 8) != s->shape[i] || (int64_t)word(strides, i * 8) != s->stride[i])
            return false;
    return true;
}

static bool fits_dtype(const Sample *s, Py_ssize_t o)
{
    uint16_t dtype;
    memcpy(&dtype, s->impl + o, sizeof dtype);
    return dtype == s->dtype && s->impl[o + 2] == s->device && (signed char)s->impl[o + 3] == -1;
}

/* autograd_meta_ is NULL until a tensor first has to do with autograd. With requires_grad() telling the rest, a NULL must mean
 * "no", which is all that is concluded from it; the samples have both kinds. */
static bool fits_autograd(const Sample *s, Py_ssize_t o)
{
    uint64_t meta = word(s->impl, o);
    return meta ? meta > 4096 && meta % 8 == 0 && dd_layout.requires_grad(s->impl) == s->requires_grad : !s->requires_grad;
}

/* The only offset that fits every sample; -1 if none or several do. Followed pointers make order matter: samples with few dims come first. */
static Py_ssize_t only_offset(const Sample *samples, int n, Fits fits, size_t bytes, Py_ssize_t step, Py_ssize_t first)
{
    Py_ssize_t found = -1;
    for (Py_ssize_t o = first; o + 8 <= (Py_ssize_t)bytes; o += step) {
        int i = 0;
        while (i < n && fits(&samples[i], o))
            i++;
        if (i < n)
            continue;
        if (found >= 0)
            return -1;
        found = o;
    }
    return found;
}

/* Several words are NULL now and then (the version counter is, in inference tensors), so the word must also be NULL in the int64
 * samples, which never had to do with autograd, and non-NULL somewhere. */
static Py_ssize_t autograd_offset(const Sample *samples, int n, size_t bytes)
{
    Py_ssize_t found = -1;
    for (Py_ssize_t o = 8; o + 8 <= (Py_ssize_t)bytes; o += 8) {
        bool ok = true, some = false;
        for (int i = 0; ok && i < n; i++) {
            bool set = word(samples[i].impl, o) != 0;
            ok = fits_autograd(&samples[i], o) && !(set && samples[i].dtype == INT64_NUMBER);
            some |= set;
        }
        if (!ok || !some)
            continue;
        if (found >= 0)
            return -1;
        found = o;
    }
    return found;
}

/* The fields of a plain AutogradMeta (torch/csrc/autograd/variable.h) on which its requires_grad() depends: `requires_grad_ || grad_fn_`.
 * A view has another class, whose requires_grad() asks the base as well. Without these fields requires_grad() is called each time. */
static void calibrate_meta(const Sample *samples, int n)
{
    const char *plain[MOST_SAMPLES];
    const Sample *of[MOST_SAMPLES];
    Py_ssize_t count = 0, bytes = MOST_BYTES, flag = -1, fn = -1;
    uint64_t vtable = 0;
    dd_layout.meta_flag = dd_layout.meta_fn = -1;
    for (int i = 0; i < n; i++) /* a leaf that asks for a gradient and is no view is plain */
        if (samples[i].requires_grad && samples[i].is_leaf && !samples[i].is_view)
            vtable = word((const char *)(uintptr_t)word(samples[i].impl, dd_layout.autograd), 0);
    for (int i = 0; i < n; i++) {
        const char *meta = (const char *)(uintptr_t)word(samples[i].impl, dd_layout.autograd);
        if (!meta || word(meta, 0) != vtable)
            continue;
        if (samples[i].is_view)
            return;
        Py_ssize_t size = (Py_ssize_t)malloc_usable_size((void *)(uintptr_t)meta);
        bytes = size < bytes ? size : bytes;
        plain[count] = meta;
        of[count++] = &samples[i];
    }
    for (Py_ssize_t o = 8; o + 8 <= bytes; o++) {
        bool is_flag = true, is_fn = o % 8 == 0;
        for (Py_ssize_t i = 0; i < count; i++) {
            is_flag &= plain[i][o] == (of[i]->requires_grad && of[i]->is_leaf);
            is_fn = is_fn && (word(plain[i], o) != 0) == !of[i]->is_leaf;
        }
        if ((is_flag && flag >= 0) || (is_fn && fn >= 0 && o != fn + 8)) /* a shared pointer has two words */
            return;
        flag = is_flag ? o : flag;
        fn = is_fn && fn < 0 ? o : fn;
    }
    if (flag < 0 || fn < 0)
        return;
    dd_layout.meta_flag = flag & ~(Py_ssize_t)7;
    dd_layout.meta_fn = fn;
    dd_layout.meta_plain = vtable;
}

static int by_ndim(const void *a, const void *b)
{
    return ((const Sample *)a)->ndim - ((const Sample *)b)->ndim;
}

static bool calibrate(PyObject *rows)
{
    Sample samples[MOST_SAMPLES];
    int n = (int)PyList_GET_SIZE(rows);
    size_t bytes = MOST_BYTES, obj_bytes = MOST_BYTES;
    if (n > MOST_SAMPLES)
        return give_up("too many samples");
    for (int i = 0; i < n; i++) {
        if (!read_sample(PyList_GET_ITEM(rows, i), &samples[i]))
            return give_up("a sample could not be read");
        bytes = samples[i].impl_bytes < bytes ? samples[i].impl_bytes : bytes;
        obj_bytes = samples[i].obj_bytes < obj_bytes ? samples[i].obj_bytes : obj_bytes;
    }
    qsort(samples, (size_t)n, sizeof(Sample), by_ndim);
    dd_layout.requires_grad = (bool (*)(const void *))dd_torch_symbol("_ZNK3c1010TensorImpl13requires_gradEv");
    if (!dd_layout.requires_grad)
        return give_up("c10::TensorImpl::requires_grad is not exported");
    if ((dd_layout.cdata = only_offset(samples, n, fits_cdata, obj_bytes, 8, sizeof(PyObject))) < 0)
        return give_up("the TensorImpl pointer is not at one place in a tensor object");
    if ((dd_layout.keys = only_offset(samples, n, fits_keys, bytes, 8, 8)) < 0)
        return give_up("the dispatch key set is not at one place in TensorImpl");
    if ((dd_layout.dtype = only_offset(samples, n, fits_dtype, bytes, 2, 8)) < 0)
        return give_up("dtype and device are not at one place in TensorImpl");
    if ((dd_layout.ndim = only_offset(samples, n, fits_ndim, bytes, 8, 8)) < 0)
        return give_up("sizes and strides are not at one place in TensorImpl");
    if ((dd_layout.autograd = autograd_offset(samples, n, bytes)) < 0)
        return give_up("autograd_meta is not at one place in TensorImpl");
    calibrate_meta(samples, n);
    dd_layout.storage = only_offset(samples, n, fits_storage, bytes, 8, 8);
    dd_layout.sizes = dd_layout.ndim + 8;
    dd_layout.strides = dd_layout.sizes + INLINE_DIMS * 8;
    dd_layout.raw = 1;
    return true;
}

/* Calibrates if that hasn't happened and is possible now; until then attributes are read. 0, or -1 with an error set (torch can't be imported). */
int dd_layout_ready(void)
{
    if (dd_layout.raw >= 0)
        return 0;
    PyObject *space = Py_BuildValue("{s:s}", "__name__", "dynamo._C.samples"), *ran = NULL, *rows = NULL;
    if (space && PyDict_SetItemString(space, "__builtins__", PyEval_GetBuiltins()) == 0)
        ran = PyRun_String(dd_samples_source, Py_file_input, space, space);
    if (!ran) {
        Py_XDECREF(space);
        return -1;
    }
    Py_DECREF(ran);
    Py_XSETREF(read_facts, Py_XNewRef(PyDict_GetItemString(space, "facts")));
    PyObject *make = PyDict_GetItemString(space, "rows");
    rows = PyObject_CallNoArgs(make);
    if (rows && PyList_Check(rows))
        calibrate(rows);
    else if (rows)
        snprintf(dd_layout.reason, sizeof dd_layout.reason, "not measured yet: a dispatch mode or functorch transform was active");
    else
        give_up("the sample tensors could not be made");
    Py_XDECREF(rows);
    Py_DECREF(space);
    return 0;
}

PyObject *dd_layout_report(PyObject *Py_UNUSED(mod), PyObject *Py_UNUSED(ignored))
{
    if (dd_layout_ready() < 0)
        return NULL;
    if (dd_layout.raw != 1)
        return Py_BuildValue("{s:s,s:s,s:s}", "tensor", "api", "reason", dd_layout.reason, "state", dd_state_how());
    return Py_BuildValue("{s:s,s:n,s:n,s:n,s:n,s:n,s:n,s:n,s:n,s:n,s:n,s:s}", "tensor", "raw", "cdata", dd_layout.cdata, "ndim", dd_layout.ndim, "sizes", dd_layout.sizes,
                         "strides", dd_layout.strides, "dtype", dd_layout.dtype, "keys", dd_layout.keys, "autograd", dd_layout.autograd, "requires_grad", dd_layout.meta_flag,
                         "grad_fn", dd_layout.meta_fn, "storage", dd_layout.storage, "state", dd_state_how());
}

/* ---- raw reads ---- */

static const char *impl_of(PyObject *obj)
{
    return (const char *)(uintptr_t)word((const char *)obj, dd_layout.cdata);
}

uintptr_t dd_storage_of(PyObject *tensor)
{
    return (uintptr_t)word(impl_of(tensor), dd_layout.storage);
}

static const char *sizes_of(const char *impl, int ndim)
{
    const char *at = impl + dd_layout.sizes;
    return ndim > INLINE_DIMS ? (const char *)(uintptr_t)word(at, 0) : at;
}

static const char *strides_of(const char *impl, int ndim)
{
    return ndim > INLINE_DIMS ? sizes_of(impl, ndim) + ndim * 8 : impl + dd_layout.strides;
}

static bool requires_grad_of(const char *impl)
{
    return word(impl, dd_layout.autograd) && dd_layout.requires_grad(impl);
}

static uint32_t dtype_device_of(const char *impl)
{
    uint32_t value;
    memcpy(&value, impl + dd_layout.dtype, sizeof value);
    return value;
}

bool dd_facts_raw(PyObject *facts)
{
    return ((TensorFacts *)facts)->raw;
}

static int check_raw(const TensorFacts *f, PyObject *obj)
{
    const char *impl = impl_of(obj);
    if (word(impl, dd_layout.keys) != f->keys || dtype_device_of(impl) != f->dtype_device || word(impl, dd_layout.ndim) != (uint64_t)f->ndim ||
        requires_grad_of(impl) != f->requires_grad)
        return 0;
    const char *sizes = sizes_of(impl, f->ndim), *strides = strides_of(impl, f->ndim);
    if (f->dims) {
        for (int i = 0; i < f->ndim; i++)
            if (f->dims[i] && ((int64_t)word(sizes, i * 8) != f->shape[i] || (int64_t)word(strides, i * 8) != f->shape[f->ndim + i]))
                return 0;
        return 1;
    }
    for (int i = 0; i < f->ndim; i++)
        if ((int64_t)word(sizes, i * 8) != f->shape[i] || (int64_t)word(strides, i * 8) != f->shape[f->ndim + i])
            return 0;
    return 1;
}

/* Names the words of memory that, as long as they are unchanged, keep a tensor of which the facts hold so. Each comes with the level at which
 * it may be read: 0 at once, 1 and 2 when those before are known to be unchanged. The type is left to the caller.
 * False: what it depends on is not all in words, the tensor must be checked. */
bool dd_facts_words(PyObject *facts, PyObject *obj, DDWord word_at, void *to)
{
    const TensorFacts *f = (const TensorFacts *)facts;
    if (!f->raw)
        return false;
    const char *impl = impl_of(obj), *meta = (const char *)(uintptr_t)word(impl, dd_layout.autograd);
    if (meta && (dd_layout.meta_flag < 0 || word(meta, 0) != dd_layout.meta_plain))
        return false;
    const char *sizes = sizes_of(impl, f->ndim), *strides = strides_of(impl, f->ndim);
    int outside = f->ndim > INLINE_DIMS;
    word_at(to, 0, (const char *)obj + dd_layout.cdata);
    word_at(to, 1, impl + dd_layout.autograd);
    word_at(to, 1, impl + dd_layout.ndim);
    if (outside)
        word_at(to, 1, impl + dd_layout.sizes);
    for (int i = 0; i < f->ndim; i++) {
        if (f->dims && !f->dims[i])
            continue;
        word_at(to, 1 + outside, sizes + i * 8);
        word_at(to, 1 + outside, strides + i * 8);
    }
    word_at(to, 1, impl + dd_layout.dtype); /* and the bits after it, which say the same in other words */
    word_at(to, 1, impl + dd_layout.keys);
    if (meta) {
        word_at(to, 2, meta);
        word_at(to, 2, meta + dd_layout.meta_fn);
        word_at(to, 2, meta + dd_layout.meta_flag);
    }
    return true;
}

/* ---- reads through attributes ---- */

enum { API_DTYPE, API_DEVICE, API_SHAPE, API_STRIDE, API_GRAD, API_KEYS, API_LAYOUT };

static int same_shape(const TensorFacts *f, PyObject *a, PyObject *b, Py_ssize_t *which)
{
    if (!PyTuple_Check(a) || !PyTuple_Check(b))
        return a == b; /* None: no strides in this layout */
    *which = -1;
    if (PyTuple_GET_SIZE(a) != PyTuple_GET_SIZE(b))
        return 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(a); i++) {
        if (f->dims && !f->dims[i])
            continue;
        int same = PyObject_RichCompareBool(PyTuple_GET_ITEM(a, i), PyTuple_GET_ITEM(b, i), Py_EQ);
        *which = i;
        if (same != 1)
            return same;
    }
    return 1;
}

static int check_api(const TensorFacts *f, PyObject *obj)
{
    PyObject *now = PyObject_CallOneArg(read_facts, obj);
    if (!now)
        return -1;
    int ok = 1;
    Py_ssize_t which;
    for (int i = API_DTYPE; ok == 1 && i <= API_LAYOUT; i++) {
        PyObject *a = PyTuple_GET_ITEM(f->api, i), *b = PyTuple_GET_ITEM(now, i);
        ok = i == API_SHAPE || i == API_STRIDE ? same_shape(f, a, b, &which) : PyObject_RichCompareBool(a, b, Py_EQ);
    }
    Py_DECREF(now);
    return ok;
}

int dd_facts_check(PyObject *facts, PyObject *obj)
{
    const TensorFacts *f = (const TensorFacts *)facts;
    if (Py_TYPE(obj) != f->type)
        return 0;
    return f->raw ? check_raw(f, obj) : check_api(f, obj);
}

/* ---- the type ---- */

static bool is_tensor_type(PyTypeObject *type)
{
    PyObject *torch_c = PyImport_ImportModule("torch._C");
    PyObject *base = torch_c ? PyObject_GetAttrString(torch_c, "TensorBase") : NULL;
    bool ok = base && PyType_Check(base) && PyType_IsSubtype(type, (PyTypeObject *)base);
    Py_XDECREF(torch_c);
    Py_XDECREF(base);
    return ok;
}

/* Raw reading is right where the raw fields say what the attributes say: not for layouts without strides, and not for
 * subclasses with the Python dispatch key, whose sizes are whatever their __torch_dispatch__ answers. */
static int raw_agrees(TensorFacts *f, PyObject *tensor)
{
    PyObject *shape = PyTuple_GET_ITEM(f->api, API_SHAPE), *stride = PyTuple_GET_ITEM(f->api, API_STRIDE), *type_name;
    const char *impl = impl_of(tensor);
    if (stride == Py_None || word(impl, dd_layout.ndim) != (uint64_t)PyTuple_GET_SIZE(shape))
        return 0;
    type_name = PyObject_GetAttrString((PyObject *)Py_TYPE(tensor), "__torch_dispatch__");
    PyObject *disabled = NULL, *torch_c = PyImport_ImportModule("torch._C");
    if (torch_c)
        disabled = PyObject_GetAttrString(torch_c, "_disabled_torch_dispatch_impl");
    bool plain = type_name && type_name == disabled;
    Py_XDECREF(type_name);
    Py_XDECREF(disabled);
    Py_XDECREF(torch_c);
    PyErr_Clear();
    if (!plain)
        return 0;
    const char *sizes = sizes_of(impl, f->ndim), *strides = strides_of(impl, f->ndim);
    for (int i = 0; i < f->ndim; i++) {
        long long size = PyLong_AsLongLong(PyTuple_GET_ITEM(shape, i)), step = PyLong_AsLongLong(PyTuple_GET_ITEM(stride, i));
        if (PyErr_Occurred()) { /* symbolic */
            PyErr_Clear();
            return 0;
        }
        if ((int64_t)word(sizes, i * 8) != size || (int64_t)word(strides, i * 8) != step)
            return 0;
    }
    return 1;
}

static PyObject *TensorFacts_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"tensor", "dims", NULL};
    PyObject *tensor, *dims = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|O:TensorFacts", names, &tensor, &dims) || dd_layout_ready() < 0)
        return NULL;
    if (!is_tensor_type(Py_TYPE(tensor))) {
        if (!PyErr_Occurred())
            PyErr_Format(PyExc_TypeError, "TensorFacts: expected a tensor, not %.100s", Py_TYPE(tensor)->tp_name);
        return NULL;
    }
    TensorFacts *self = (TensorFacts *)type->tp_alloc(type, 0);
    if (!self)
        return NULL;
    self->type = (PyTypeObject *)Py_NewRef(Py_TYPE(tensor));
    self->api = PyObject_CallOneArg(read_facts, tensor);
    if (!self->api)
        goto fail;
    PyObject *shape = PyTuple_GET_ITEM(self->api, API_SHAPE);
    self->ndim = (int)PyTuple_GET_SIZE(shape);
    if (dims != Py_None) {
        if (!PyTuple_Check(dims) || PyTuple_GET_SIZE(dims) != self->ndim) {
            PyErr_Format(PyExc_ValueError, "TensorFacts: dims must be a tuple of %d bools, not %R", self->ndim, dims);
            goto fail;
        }
        if (!(self->dims = PyMem_Calloc((size_t)self->ndim + 1, 1)))
            goto no_memory;
        for (int i = 0; i < self->ndim; i++) {
            int truth = PyObject_IsTrue(PyTuple_GET_ITEM(dims, i));
            if (truth < 0)
                goto fail;
            self->dims[i] = (char)truth;
        }
    }
    self->raw = dd_layout.raw == 1 && raw_agrees(self, tensor);
    if (self->raw) {
        const char *impl = impl_of(tensor);
        self->keys = word(impl, dd_layout.keys);
        self->dtype_device = dtype_device_of(impl);
        self->requires_grad = requires_grad_of(impl);
        if (!(self->shape = PyMem_New(int64_t, 2 * self->ndim + 1)))
            goto no_memory;
        memcpy(self->shape, sizes_of(impl, self->ndim), (size_t)self->ndim * 8);
        memcpy(self->shape + self->ndim, strides_of(impl, self->ndim), (size_t)self->ndim * 8);
    }
    return (PyObject *)self;
no_memory:
    PyErr_NoMemory();
fail:
    Py_DECREF(self);
    return NULL;
}

static void TensorFacts_dealloc(TensorFacts *self)
{
    PyMem_Free(self->shape);
    PyMem_Free(self->dims);
    Py_XDECREF(self->type);
    Py_XDECREF(self->api);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyObject *TensorFacts_check(PyObject *self, PyObject *obj)
{
    int ok = dd_facts_check(self, obj);
    if (ok < 0 && dd_swallow())
        ok = 0;
    return ok < 0 ? NULL : PyBool_FromLong(ok);
}

static PyObject *TensorFacts_why(TensorFacts *self, PyObject *obj)
{
    static const char *const names[] = {"dtype", "device", "size", "stride", "requires_grad", "dispatch keys", "layout"};
    if (Py_TYPE(obj) != self->type)
        return PyUnicode_FromFormat("type: expected %.200s, got %.200s", self->type->tp_name, Py_TYPE(obj)->tp_name);
    PyObject *now = PyObject_CallOneArg(read_facts, obj), *text = NULL;
    if (!now)
        return NULL;
    for (int i = API_DTYPE; !text && i <= API_LAYOUT; i++) {
        PyObject *a = PyTuple_GET_ITEM(self->api, i), *b = PyTuple_GET_ITEM(now, i);
        Py_ssize_t which = -1;
        bool dims = (i == API_SHAPE || i == API_STRIDE) && PyTuple_Check(a) && PyTuple_Check(b);
        int same = dims ? same_shape(self, a, b, &which) : PyObject_RichCompareBool(a, b, Py_EQ);
        if (same < 0)
            break;
        if (same)
            continue;
        if (dims && which >= 0)
            text = PyUnicode_FromFormat("%s at dim %zd: expected %R, got %R", names[i], which, PyTuple_GET_ITEM(a, which), PyTuple_GET_ITEM(b, which));
        else if (dims)
            text = PyUnicode_FromFormat("rank: expected %zd, got %zd", PyTuple_GET_SIZE(a), PyTuple_GET_SIZE(b));
        else if (i == API_KEYS)
            text = PyUnicode_FromString("dispatch keys: conj, neg, inference, layout or wrapper state differs");
        else
            text = PyUnicode_FromFormat("%s: expected %S, got %S", names[i], a, b);
    }
    Py_DECREF(now);
    if (!text && !PyErr_Occurred())
        text = PyUnicode_FromString("");
    return text;
}

static PyObject *TensorFacts_repr(TensorFacts *self)
{
    return PyUnicode_FromFormat("TensorFacts(%.200s, dtype=%S, device=%S, shape=%R, stride=%R, requires_grad=%S)", self->type->tp_name,
                                PyTuple_GET_ITEM(self->api, API_DTYPE), PyTuple_GET_ITEM(self->api, API_DEVICE), PyTuple_GET_ITEM(self->api, API_SHAPE),
                                PyTuple_GET_ITEM(self->api, API_STRIDE), PyTuple_GET_ITEM(self->api, API_GRAD));
}

static PyMemberDef TensorFacts_members[] = {
    {"raw", T_BOOL, offsetof(TensorFacts, raw), READONLY, "whether it is checked by raw reads (else through attributes)"},
    {NULL, 0, 0, 0, NULL},
};

static PyMethodDef TensorFacts_methods[] = {
    {"check", TensorFacts_check, METH_O, "check($self, obj, /)\n--\n\nWhether obj has these facts."},
    {"why", (PyCFunction)TensorFacts_why, METH_O, "why($self, obj, /)\n--\n\n'' if obj has these facts, else the first difference in words."},
    {NULL, NULL, 0, NULL},
};

PyTypeObject dd_TensorFacts_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dynamo._C.TensorFacts",
    .tp_doc = "TensorFacts(tensor, dims=None)\n--\n\nFacts of one tensor. `dims`: a tuple of bools, False = that size and its stride are not compared.",
    .tp_basicsize = sizeof(TensorFacts),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = TensorFacts_new,
    .tp_dealloc = (destructor)TensorFacts_dealloc,
    .tp_repr = (reprfunc)TensorFacts_repr,
    .tp_members = TensorFacts_members,
    .tp_methods = TensorFacts_methods,
};
