/* GlobalState: torch's global modes that a capture depends on.
 *
 * Most are read by calling exported C++ functions without arguments found with dlsym (2 ns each instead of 30-50 through Python).
 * Only functions that neither throw nor allocate are used, each is compared once with what Python says, and one that is missing or
 * disagrees is read through Python instead. */
#define _GNU_SOURCE
#include "core.h"
#include <dlfcn.h>
#include <link.h>

/* A plain value per mode, so that a check is one memcmp. */
typedef struct {
    uint64_t keys[2];        /* the thread's included and excluded dispatch keys: autocast per device, vmap, inference, dispatch modes */
    int64_t function_modes, dispatch_modes;
    int64_t forward_level;   /* of forward-mode differentiation; -1 outside of it */
    int8_t grad, inference, function_disabled;
    int8_t default_dtype, deterministic, deterministic_warn, fill_uninitialized;
    int8_t autocast[2], autocast_dtype[2], autocast_cache;
    int8_t matmul[2];        /* float32 matmul precision on CUDA and oneDNN */
} Snapshot;

typedef struct {
    PyObject_HEAD
    Snapshot now;
    PyObject *modes;         /* tuple of (type, device or None) for the torch function modes that were active */
    PyObject *slow;          /* tuple of what had to be read through Python */
} GlobalState;

/* ---- how to read ---- */

enum { CPU = 0, CUDA = 1, BACKEND_CUDA = 1, BACKEND_MKLDNN = 2, OP_MATMUL = 3 }; /* c10/core/DeviceType.h; enums in ATen/Context.h */

static struct {
    int ready;
    bool (*grad)(void), (*inference)(void);
    int64_t (*function_modes)(void);
    int (*function_disabled)(void);
    int64_t (*dispatch_modes)(void);
    int8_t (*default_dtype)(void);
    const void *context;
    bool (*deterministic)(const void *), (*deterministic_warn)(const void *), (*fill_uninitialized)(const void *);
    bool (*autocast)(int8_t);
    int8_t (*autocast_dtype)(int8_t);
    bool (*autocast_cache)(void);
    int (*precision)(const void *, int, int);
    bool has_keys;
    struct { unsigned long module, offset; } keys; /* TLS address of c10::impl::raw_local_dispatch_key_set */
    PyObject *slow;          /* callables for what could not be read above, by name */
    PyObject *mode_at;       /* torch._C._get_function_stack_at */
    PyObject *forward_ad, *level_name; /* the dict of torch.autograd.forward_ad, which keeps its level in a global; that global's name */
} how;

extern void *__tls_get_addr(void *);

void *dd_torch_symbol(const char *name)
{
    static const char *const libraries[] = {"libc10.so", "libtorch_cpu.so", "libtorch_python.so"};
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++) {
        void *handle = dlopen(libraries[i], RTLD_LAZY | RTLD_NOLOAD);
        void *found = handle ? dlsym(handle, name) : NULL;
        if (handle)
            dlclose(handle); /* torch keeps it loaded; this only returns our count */
        if (found)
            return found;
    }
    return NULL;
}

/* dlsym gives this thread's copy of a thread-local; module and offset give every thread's. */
static bool find_tls(const char *name)
{
    void *handle = dlopen("libc10.so", RTLD_LAZY | RTLD_NOLOAD);
    if (!handle)
        return false;
    char *mine = dlsym(handle, name), *block = NULL;
    size_t module = 0;
    bool ok = mine && dlinfo(handle, RTLD_DI_TLS_MODID, &module) == 0 && module && dlinfo(handle, RTLD_DI_TLS_DATA, &block) == 0 && block;
    dlclose(handle);
    if (!ok)
        return false;
    how.keys.module = module;
    how.keys.offset = (unsigned long)(mine - block);
    return __tls_get_addr(&how.keys) == mine;
}

static PyObject *call_torch(const char *name)
{
    PyObject *module = PyImport_ImportModule("torch"), *result = NULL;
    if (module) {
        PyObject *fn = PyObject_GetAttrString(module, name);
        result = fn ? PyObject_CallNoArgs(fn) : NULL;
        Py_XDECREF(fn);
    }
    Py_XDECREF(module);
    return result;
}

static int call_bool(const char *name)
{
    PyObject *result = call_torch(name);
    int truth = result ? PyObject_IsTrue(result) : -1;
    Py_XDECREF(result);
    PyErr_Clear();
    return truth;
}

static int need_slow(const char *name)
{
    PyObject *module = PyImport_ImportModule("torch"), *fn = module ? PyObject_GetAttrString(module, name) : NULL;
    PyErr_Clear();
    int status = fn ? PyDict_SetItemString(how.slow, name, fn) : 0;
    Py_XDECREF(fn);
    Py_XDECREF(module);
    return status;
}

static int need_slow_autocast(void)
{
    static const char source[] =
        "lambda: [(torch.is_autocast_enabled(d), torch.get_autocast_dtype(d)) for d in ('cpu', 'cuda')] + [torch.is_autocast_cache_enabled()]";
    PyObject *torch = PyImport_ImportModule("torch"), *space = torch ? Py_BuildValue("{s:O,s:O}", "torch", torch, "__builtins__", PyEval_GetBuiltins()) : NULL;
    PyObject *fn = space ? PyRun_String(source, Py_eval_input, space, space) : NULL;
    int status = fn ? PyDict_SetItemString(how.slow, "autocast", fn) : -1;
    Py_XDECREF(torch);
    Py_XDECREF(space);
    Py_XDECREF(fn);
    return status;
}

static int find_readers(void)
{
    int slow = 0;
    PyObject *torch_c = PyImport_ImportModule("torch._C");
    if (!torch_c)
        return -1;
    if (!(how.slow = PyDict_New()))
        return -1;
    how.mode_at = PyObject_GetAttrString(torch_c, "_get_function_stack_at");
    PyErr_Clear();
    Py_DECREF(torch_c);

    PyObject *forward_ad = PyImport_ImportModule("torch.autograd.forward_ad");
    how.forward_ad = forward_ad ? Py_NewRef(PyModule_GetDict(forward_ad)) : NULL;
    how.level_name = PyUnicode_InternFromString("_current_level");
    Py_XDECREF(forward_ad);
    PyErr_Clear();

    how.grad = (bool (*)(void))dd_torch_symbol("_ZN3c108GradMode10is_enabledEv");
    how.inference = (bool (*)(void))dd_torch_symbol("_ZN3c1013InferenceMode10is_enabledEv");
    if (!how.grad || how.grad() != call_bool("is_grad_enabled")) {
        how.grad = NULL;
        slow |= need_slow("is_grad_enabled");
    }
    if (!how.inference || how.inference() != call_bool("is_inference_mode_enabled")) {
        how.inference = NULL;
        slow |= need_slow("is_inference_mode_enabled");
    }
    how.function_modes = (int64_t(*)(void))dd_torch_symbol("_ZN2at4impl22PythonTorchFunctionTLS9stack_lenEv");
    how.function_disabled = (int (*)(void))dd_torch_symbol("_ZN2at4impl22PythonTorchFunctionTLS18get_disabled_stateEv");
    how.dispatch_modes = (int64_t(*)(void))dd_torch_symbol("_ZN3c104impl20TorchDispatchModeTLS9stack_lenEv");
    how.default_dtype = (int8_t(*)(void))dd_torch_symbol("_ZN3c1031get_default_dtype_as_scalartypeEv");
    if (!how.default_dtype)
        slow |= need_slow("get_default_dtype");
    const void *(*context)(void) = (const void *(*)(void))dd_torch_symbol("_ZN2at13globalContextEv");
    how.context = context ? context() : NULL;
    if (how.context) {
        how.deterministic = (bool (*)(const void *))dd_torch_symbol("_ZNK2at7Context23deterministicAlgorithmsEv");
        how.deterministic_warn = (bool (*)(const void *))dd_torch_symbol("_ZNK2at7Context31deterministicAlgorithmsWarnOnlyEv");
        how.fill_uninitialized = (bool (*)(const void *))dd_torch_symbol("_ZNK2at7Context36deterministicFillUninitializedMemoryEv");
        how.precision = (int (*)(const void *, int, int))dd_torch_symbol("_ZNK2at7Context16float32PrecisionENS_14Float32BackendENS_9Float32OpE");
    }
    if (!how.deterministic || how.deterministic(how.context) != call_bool("are_deterministic_algorithms_enabled")) {
        how.deterministic = NULL;
        slow |= need_slow("are_deterministic_algorithms_enabled");
    }
    if (!how.deterministic_warn)
        slow |= need_slow("is_deterministic_algorithms_warn_only_enabled");
    if (!how.precision)
        slow |= need_slow("get_float32_matmul_precision");
    how.autocast = (bool (*)(int8_t))dd_torch_symbol("_ZN2at8autocast19is_autocast_enabledEN3c1010DeviceTypeE");
    how.autocast_dtype = (int8_t(*)(int8_t))dd_torch_symbol("_ZN2at8autocast18get_autocast_dtypeEN3c1010DeviceTypeE");
    how.autocast_cache = (bool (*)(void))dd_torch_symbol("_ZN2at8autocast25is_autocast_cache_enabledEv");
    if (!how.autocast || !how.autocast_dtype || !how.autocast_cache || how.autocast(CUDA) != call_bool("is_autocast_enabled")) {
        how.autocast = NULL;
        slow |= need_slow_autocast();
    }
    how.has_keys = find_tls("_ZN3c104impl26raw_local_dispatch_key_setE");
    how.ready = 1;
    return slow;
}

static int ready(void)
{
    return how.ready ? 0 : find_readers();
}

const char *dd_state_how(void)
{
    if (ready() < 0) {
        PyErr_Clear();
        return "unreadable";
    }
    return PyDict_GET_SIZE(how.slow) || !how.has_keys || !how.function_modes ? "partly through Python" : "raw";
}

static void read_now(Snapshot *s)
{
    memset(s, 0, sizeof *s);
    if (how.grad)
        s->grad = how.grad();
    if (how.inference)
        s->inference = how.inference();
    if (how.has_keys)
        memcpy(s->keys, __tls_get_addr(&how.keys), sizeof s->keys);
    if (how.function_modes)
        s->function_modes = how.function_modes();
    if (how.function_disabled)
        s->function_disabled = (int8_t)how.function_disabled();
    if (how.dispatch_modes)
        s->dispatch_modes = how.dispatch_modes();
    PyObject *level = how.forward_ad ? PyDict_GetItemWithError(how.forward_ad, how.level_name) : NULL;
    s->forward_level = level && PyLong_CheckExact(level) ? PyLong_AsLong(level) : -1;
    if (how.default_dtype)
        s->default_dtype = how.default_dtype();
    if (how.deterministic)
        s->deterministic = how.deterministic(how.context);
    if (how.deterministic_warn)
        s->deterministic_warn = how.deterministic_warn(how.context);
    if (how.fill_uninitialized)
        s->fill_uninitialized = how.fill_uninitialized(how.context);
    if (how.precision) {
        s->matmul[0] = (int8_t)how.precision(how.context, BACKEND_CUDA, OP_MATMUL);
        s->matmul[1] = (int8_t)how.precision(how.context, BACKEND_MKLDNN, OP_MATMUL);
    }
    if (how.autocast) {
        static const int8_t devices[] = {CPU, CUDA};
        for (int i = 0; i < 2; i++) { /* blocks put back what they found, also where autocast was off */
            s->autocast[i] = how.autocast(devices[i]);
            s->autocast_dtype[i] = how.autocast_dtype(devices[i]);
        }
        s->autocast_cache = how.autocast_cache();
    }
}

/* What has to be read through Python, as a tuple; empty where torch exports everything. */
static PyObject *read_slow(void)
{
    PyObject *values = PyTuple_New(PyDict_GET_SIZE(how.slow)), *name, *fn;
    for (Py_ssize_t pos = 0, i = 0; values && PyDict_Next(how.slow, &pos, &name, &fn); i++) {
        PyObject *value = PyObject_CallNoArgs(fn);
        if (value)
            PyTuple_SET_ITEM(values, i, value);
        else
            Py_CLEAR(values);
    }
    return values;
}

/* The active torch function modes as (type, device): torch.set_default_device is a mode, made anew for each `with torch.device(...)`. */
static PyObject *read_modes(int64_t n)
{
    PyObject *modes = PyTuple_New(how.mode_at ? (Py_ssize_t)n : 0);
    for (Py_ssize_t i = 0; modes && i < PyTuple_GET_SIZE(modes); i++) {
        PyObject *mode = PyObject_CallFunction(how.mode_at, "n", i), *device = NULL;
        if (mode && dd_inst_dict(mode))
            device = PyDict_GetItemString(dd_inst_dict(mode), "device");
        PyObject *pair = mode ? PyTuple_Pack(2, Py_TYPE(mode), device ? device : Py_None) : NULL;
        Py_XDECREF(mode);
        if (pair)
            PyTuple_SET_ITEM(modes, i, pair);
        else
            Py_CLEAR(modes);
    }
    return modes;
}

/* 1 as snapshotted, 0 not, -1 error set. */
int dd_state_check(PyObject *state)
{
    GlobalState *self = (GlobalState *)state;
    Snapshot now;
    read_now(&now);
    if (memcmp(&now, &self->now, sizeof now) != 0)
        return 0;
    if (!now.function_modes && !PyDict_GET_SIZE(how.slow))
        return 1;
    PyObject *modes = read_modes(now.function_modes), *slow = modes ? read_slow() : NULL;
    int ok = slow ? PyObject_RichCompareBool(modes, self->modes, Py_EQ) : -1;
    if (ok == 1)
        ok = PyObject_RichCompareBool(slow, self->slow, Py_EQ);
    Py_XDECREF(modes);
    Py_XDECREF(slow);
    return ok;
}

/* ---- the type ---- */

static PyObject *GlobalState_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {NULL};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, ":GlobalState", names) || ready() < 0)
        return NULL;
    GlobalState *self = (GlobalState *)type->tp_alloc(type, 0);
    if (!self)
        return NULL;
    read_now(&self->now);
    self->modes = read_modes(self->now.function_modes);
    self->slow = self->modes ? read_slow() : NULL;
    if (!self->slow)
        Py_CLEAR(self);
    return (PyObject *)self;
}

static void GlobalState_dealloc(GlobalState *self)
{
    Py_XDECREF(self->modes);
    Py_XDECREF(self->slow);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static int put(PyObject *dict, const char *name, PyObject *text)
{
    int status = text ? PyDict_SetItemString(dict, name, text) : -1;
    Py_XDECREF(text);
    return status;
}

static const char *on_off(int8_t value)
{
    return value ? "on" : "off";
}

static const char *dtype_name(int8_t number)
{
    static const char *const names[] = {"uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex32",
                                        "complex64", "complex128", "bool", "qint8", "quint8", "qint32", "bfloat16"};
    return number >= 0 && (size_t)number < sizeof names / sizeof *names ? names[number] : "another dtype";
}

static PyObject *autocast_text(const Snapshot *s, int i)
{
    if (!s->autocast[i])
        return PyUnicode_FromFormat("off (%s, cache %s)", dtype_name(s->autocast_dtype[i]), on_off(s->autocast_cache));
    return PyUnicode_FromFormat("%s, cache %s", dtype_name(s->autocast_dtype[i]), on_off(s->autocast_cache));
}

static PyObject *describe(const Snapshot *s, PyObject *modes, PyObject *slow)
{
    static const char *const precision[] = {"none", "ieee", "tf32", "bf16", "default"};
    PyObject *out = PyDict_New(), *name, *fn;
    if (!out)
        return NULL;
    int bad = 0;
    if (how.grad)
        bad |= put(out, "grad mode", PyUnicode_FromString(on_off(s->grad)));
    if (how.inference)
        bad |= put(out, "inference mode", PyUnicode_FromString(on_off(s->inference)));
    if (how.autocast)
        bad |= put(out, "autocast cpu", autocast_text(s, 0)) | put(out, "autocast cuda", autocast_text(s, 1));
    if (how.default_dtype)
        bad |= put(out, "default dtype", PyUnicode_FromString(dtype_name(s->default_dtype)));
    if (how.deterministic)
        bad |= put(out, "deterministic algorithms", PyUnicode_FromString(on_off(s->deterministic)));
    if (how.deterministic_warn)
        bad |= put(out, "deterministic: warn only", PyUnicode_FromString(on_off(s->deterministic_warn)));
    if (how.fill_uninitialized)
        bad |= put(out, "deterministic: fill uninitialized memory", PyUnicode_FromString(on_off(s->fill_uninitialized)));
    for (int i = 0; how.precision && i < 2; i++)
        bad |= put(out, i ? "float32 matmul on cpu" : "float32 matmul on cuda",
                   PyUnicode_FromString(s->matmul[i] >= 0 && s->matmul[i] < 5 ? precision[s->matmul[i]] : "another precision"));
    bad |= put(out, "torch function modes", s->function_modes ? PyObject_Repr(modes) : PyUnicode_FromString("none"));
    bad |= put(out, "torch function", PyUnicode_FromString(!s->function_disabled ? "enabled" : s->function_disabled == 1 ? "disabled for subclasses" : "disabled"));
    bad |= put(out, "forward-mode differentiation", PyUnicode_FromFormat("level %lld", (long long)s->forward_level));
    bad |= put(out, "torch dispatch modes", PyUnicode_FromFormat("%lld", (long long)s->dispatch_modes));
    if (how.has_keys) {
        char text[40];
        snprintf(text, sizeof text, "%llx %llx", (unsigned long long)s->keys[0], (unsigned long long)s->keys[1]);
        bad |= put(out, "thread-local dispatch keys", PyUnicode_FromString(text));
    }
    for (Py_ssize_t pos = 0, i = 0; !bad && PyDict_Next(how.slow, &pos, &name, &fn); i++) {
        PyObject *text = PyObject_Str(PyTuple_GET_ITEM(slow, i));
        bad = text ? PyDict_SetItem(out, name, text) : -1;
        Py_XDECREF(text);
    }
    if (bad)
        Py_CLEAR(out);
    return out;
}

static PyObject *GlobalState_describe(GlobalState *self, PyObject *Py_UNUSED(ignored))
{
    return describe(&self->now, self->modes, self->slow);
}

static PyObject *GlobalState_check(PyObject *self, PyObject *Py_UNUSED(ignored))
{
    int ok = dd_state_check(self);
    return ok < 0 ? NULL : PyBool_FromLong(ok);
}

static PyObject *GlobalState_why(GlobalState *self, PyObject *Py_UNUSED(ignored))
{
    Snapshot now;
    read_now(&now);
    PyObject *modes = read_modes(now.function_modes), *slow = modes ? read_slow() : NULL, *text = NULL, *name, *was;
    PyObject *before = slow ? GlobalState_describe(self, NULL) : NULL, *after = before ? describe(&now, modes, slow) : NULL;
    for (Py_ssize_t pos = 0; after && !text && PyDict_Next(before, &pos, &name, &was);) {
        PyObject *is = PyDict_GetItemWithError(after, name);
        int same = is ? PyObject_RichCompareBool(was, is, Py_EQ) : -1;
        if (same < 0)
            break;
        if (!same)
            text = PyUnicode_FromFormat("%U: expected %U, got %U", name, was, is);
    }
    if (!text && !PyErr_Occurred())
        text = PyUnicode_FromString("");
    Py_XDECREF(modes);
    Py_XDECREF(slow);
    Py_XDECREF(before);
    Py_XDECREF(after);
    return text;
}

static PyMethodDef GlobalState_methods[] = {
    {"check", GlobalState_check, METH_NOARGS, "check($self, /)\n--\n\nWhether the modes are now as they were."},
    {"why", (PyCFunction)GlobalState_why, METH_NOARGS, "why($self, /)\n--\n\n'' if they are, else the first difference in words."},
    {"describe", (PyCFunction)GlobalState_describe, METH_NOARGS, "describe($self, /)\n--\n\nThe snapshot as {mode: value} in words."},
    {NULL, NULL, 0, NULL},
};

PyTypeObject dd_GlobalState_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dynamo._C.GlobalState",
    .tp_doc = "GlobalState()\n--\n\nSnapshot of torch's global modes that a capture depends on.",
    .tp_basicsize = sizeof(GlobalState),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = GlobalState_new,
    .tp_dealloc = (destructor)GlobalState_dealloc,
    .tp_methods = GlobalState_methods,
};
