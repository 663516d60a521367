/* test_first_difference.c - names the first operator that computes other bits under a plan than with everything kept.
 *
 * A backend around the tested one hashes the operands of every call before and after it. Four trainings of each network are
 * compared: keep-all, keep-all again, a plan, and the plan with zeroed workspaces. One run of this program on a GPU thus shows
 * whether the difference occurs from run to run, in an operator, in its workspace, or in memory that something overwrote. */
#include "tests/cases/backend_case.h"
#include "tests/cases/test.h"
#include "tests/cases/training_case.h"

enum { STEPS = 3, TEXT = 4000 };

/* One call of a kernel, or one sum of a gradient into an earlier gradient. */
typedef struct call {
    const mp_operator *op;
    bool is_backward;
    int from, sum; /* sum: 0 for the kernel, k for the k-th sum after it */
    uint32_t pass;
    uint64_t read, written; /* hashes of the operands before and after the call */
} call;

typedef struct watcher {
    mp_backend backend; /* must be first */
    const mp_backend *inner;
    call *calls;
    size_t n, room;
    bool zeroes;   /* zeroes the workspace before every call */
    size_t spoils; /* 1 + the number of the call whose first result this backend changes; 0: none */
} watcher;

/* The watcher whose kernels this thread prepares or runs. */
static _Thread_local watcher *used;

static void use(const mp_backend *self)
{
    used = (watcher *)self;
    if (used->inner->use) used->inner->use(used->inner);
}

static uint64_t hash_bytes(uint64_t hash, const void *data, size_t bytes)
{
    for (size_t k = 0; k < bytes; k++) hash = (hash ^ ((const uint8_t *)data)[k]) * UINT64_C(0x100000001b3);
    return hash;
}

/* Adds the elements of an array to a hash, without gaps between its rows. */
static uint64_t hash_array(uint64_t hash, const mp_array *there)
{
    mp_error err = {0};
    if (!there->dtype || !there->data || !mp_array_elements(there)) return hash;
    mp_array host = mp_array_plain(there->dtype, there->rank, there->dims);
    const size_t bytes = (size_t)mp_array_bytes(&host);
    host.data = mp_alloc(bytes, 1);
    if (used->inner->download(used->inner, there, &host, &err) != MP_OK) fail_msg("%s", err.message);
    hash = hash_bytes(hash, host.data, bytes);
    mp_free(host.data);
    return hash;
}

static uint64_t hash_list(uint64_t hash, const mp_array *list, int n)
{
    for (int k = 0; list && k < n; k++) hash = hash_array(hash, &list[k]);
    return hash;
}

static uint64_t hash_written(const mp_operands *x)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    if (!x->is_backward) return hash_list(hash_list(hash, x->out, x->n_out), x->extra, MP_EXTRAS_MAX);
    for (int k = x->from; k < x->to; k++) hash = hash_array(hash, &x->d_in[k]);
    return hash;
}

static uint64_t hash_read(const mp_operands *x)
{
    uint64_t hash = hash_list(UINT64_C(0xcbf29ce484222325), x->in, x->n_in);
    if (!x->is_backward) return hash;
    hash = hash_list(hash_list(hash_list(hash, x->out, x->n_out), x->extra, MP_EXTRAS_MAX), x->d_out, x->n_out);
    for (int k = x->from; k < x->to; k++)
        if (x->adds & MP_BIT(k)) hash = hash_array(hash, &x->d_in[k]);
    return hash;
}

static void note(call c)
{
    if (used->n == used->room) {
        used->room = 2 * used->room + 64;
        used->calls = realloc(used->calls, used->room * sizeof *used->calls);
        if (!used->calls) abort();
    }
    used->calls[used->n++] = c;
}

static mp_status run_call(const mp_call *outer, const mp_operands *x, mp_error *err)
{
    const mp_call *kept = outer->state;
    call c = {.op = x->op, .is_backward = x->is_backward, .from = x->from, .pass = x->run.step};
    if (used->zeroes && kept->workspace_bytes) used->inner->fill(used->inner, x->workspace, 0, kept->workspace_bytes);
    c.read = hash_read(x);
    MP_CHECK(kept->run(kept, x, err));
    if (used->spoils == used->n + 1) {
        const mp_array *result = x->is_backward ? &x->d_in[x->from] : x->out;
        used->inner->fill(used->inner, result->data, 0x3f, 4);
    }
    c.written = hash_written(x);
    note(c);
    return MP_OK;
}

/* mp_call_run adds a gradient that a kernel cannot accumulate. */
static void add(const mp_backend *self, mp_dtype dtype, int64_t n, const void *from, void *to)
{
    use(self);
    const call *last = &used->calls[used->n - 1];
    call c = {.op = last->op, .is_backward = true, .from = last->from, .sum = last->sum + 1, .pass = last->pass};
    mp_array added = mp_array_plain(dtype, 1, &n), sum = added;
    added.data = (void *)from;
    sum.data = to;
    c.read = hash_array(hash_array(0, &added), &sum);
    used->inner->add(used->inner, dtype, n, from, to);
    c.written = hash_array(0, &sum);
    note(c);
}

static void release_call(mp_call *outer)
{
    mp_call_release(outer->state);
}

static mp_status prepare(const mp_operands *x, mp_call *out, mp_error *err)
{
    const mp_kernel *kernel = used->inner->kernel(used->inner, x->op);
    const mp_prepare with = x->is_backward ? kernel->backward : kernel->forward;
    if (!with) return MP_NO_KERNEL(x, err, "its gradient");
    mp_call *kept = mp_alloc(1, sizeof *kept);
    MP_ENSURE(kept, err, MP_NOMEM, "out of memory");
    const mp_status st = with(x, kept, err);
    if (st != MP_OK) {
        mp_call_release(kept);
        mp_free(kept);
        return st;
    }
    *out = *kept;
    out->run = run_call;
    out->release = release_call;
    out->state = kept;
    return MP_OK;
}

static const mp_kernel *find_kernel(const mp_backend *self, const mp_operator *op)
{
    static const mp_kernel row = {"any", "", prepare, prepare};
    const watcher *w = (const watcher *)self;
    return w->inner->kernel(w->inner, op) ? &row : NULL;
}

static const mp_backend *watch(watcher *w)
{
    const mp_backend *inner = backend_of_tests();
    *w = (watcher){.backend = *inner, .inner = inner};
    w->backend.use = use;
    w->backend.kernel = find_kernel;
    w->backend.add = add;
    w->backend.chain = NULL; /* every call is hashed */
    w->backend.close = NULL;
    return &w->backend;
}

/* The calls of a training, in their order. */
typedef struct trace {
    call *calls;
    size_t n;
} trace;

static trace traced(training_case *t, watcher *w, bool has_plan, bool zeroes, size_t spoils)
{
    const mp_hyper hyper = mp_hyper_default(MP_OPTIMIZER_MOMENTUM);
    double losses[STEPS];
    mp_plan *plan = has_plan ? training_plan(t, 0.3) : training_keep_all(t);
    mp_execution *e = training_execution(t, plan, &hyper);
    w->calls = NULL;
    w->n = w->room = 0;
    w->zeroes = zeroes;
    w->spoils = spoils;
    training_run(t, e, 0, STEPS, losses);
    mp_execution_free(e);
    mp_plan_free(plan);
    return (trace){w->calls, w->n};
}

static const call *find(const trace *in, const call *c)
{
    for (size_t k = 0; k < in->n; k++) {
        const call *o = &in->calls[k];
        if (o->op == c->op && o->is_backward == c->is_backward && o->from == c->from && o->sum == c->sum && o->pass == c->pass)
            return o;
    }
    return NULL;
}

/* Returns the first call of `other` that wrote other values than the same call of `base`, in execution order, or NULL. */
static const call *first_difference(const trace *base, const trace *other)
{
    for (size_t k = 0; k < other->n; k++) {
        const call *o = find(base, &other->calls[k]);
        if (o && o->written != other->calls[k].written) return &other->calls[k];
    }
    return NULL;
}

static void describe(const char *when, const trace *base, const trace *other, char *text)
{
    const call *c = first_difference(base, other);
    const size_t at = strlen(text);
    if (!c) return;
    snprintf(text + at, TEXT - at, "\n  %s: pass %u, %s '%s' %s%s: other values from %s operands", when, c->pass, c->op->kind,
             c->op->name, c->is_backward ? "backward" : "forward", c->sum ? ", sum into the earlier gradient" : "",
             c->read == find(base, c)->read ? "equal" : "different");
}

static training_case begin(watcher *w, const char *network, int accumulate)
{
    const mp_training_options options = {
        .optimizer = MP_OPTIMIZER_MOMENTUM, .dtype = MP_DTYPE_FLOAT, .accumulate = accumulate, .options_json = "{}"};
    return training_begin_on(watch(w), network, 0, &options);
}

static const char *const networks[] = {"tests/gradients/mlp.onnx", "tests/gradients/cnn.onnx", "tests/gradients/unet.onnx",
                                       "tests/gradients/bert.onnx", "tests/gradients/gpt.onnx"};

TEST(every_call_writes_the_same_bits_under_a_plan)
{
    char text[TEXT] = "";
    for (size_t k = 0; k < sizeof networks / sizeof *networks; k++)
        for (int accumulate = 1; accumulate <= 2; accumulate++) {
            static watcher w;
            char found[TEXT] = "";
            training_case t = begin(&w, networks[k], accumulate);
            trace base = traced(&t, &w, false, false, 0), again = traced(&t, &w, false, false, 0);
            trace plan = traced(&t, &w, true, false, 0), zeroed = traced(&t, &w, true, true, 0);
            assert_true(base.n > 20 && again.n == base.n && plan.n >= base.n && zeroed.n == plan.n);
            describe("keep-all again", &base, &again, found);
            describe("plan", &base, &plan, found);
            describe("plan, zeroed workspaces", &base, &zeroed, found);
            const size_t at = strlen(text);
            if (*found) snprintf(text + at, TEXT - at, "\n%s, --accumulate %d:%s", networks[k], accumulate, found);
            trace *all[] = {&base, &again, &plan, &zeroed};
            for (int i = 0; i < 4; i++) free(all[i]->calls);
            training_end(&t);
        }
    if (*text) fail_msg("first differences from keep-all:%s", text);
}

/* A call whose result is changed on purpose is named, and nothing before it. */
TEST(a_changed_result_is_found)
{
    static watcher w;
    training_case t = begin(&w, networks[0], 2);
    trace base = traced(&t, &w, false, false, 0);
    for (size_t changed = 0; changed < base.n; changed += 7) {
        trace other = traced(&t, &w, false, false, changed + 1);
        const call *c = first_difference(&base, &other);
        if (base.calls[changed].sum) {
            assert_null(c); /* only kernels are spoiled */
        } else {
            assert_ptr_equal(c, &other.calls[changed]);
            assert_true(c->read == base.calls[changed].read);
        }
        free(other.calls);
    }
    free(base.calls);
    training_end(&t);
}
