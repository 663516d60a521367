/* kernel_case.c - arrays in all layouts for one kernel call, and finite differences of the kernel. */
#include "tests/cases/kernel_case.h"

#include "tests/cases/backend_case.h"
#include "tests/cases/rule_case.h"
#include "tests/cases/test.h"

enum { GUARD = 256 }; /* alignment of devices */

static uint64_t draws;
static const mp_backend *used;

void kernel_use(const mp_backend *backend)
{
    used = backend;
}

static const mp_backend *backend_here(void)
{
    return used ? used : backend_of_tests();
}

static double draw(double low, double high)
{
    draws = draws * 6364136223846793005u + 1442695040888963407u;
    return low + (high - low) * (double)(draws >> 11) / 9007199254740992.0;
}

static int64_t offset_of(const mp_array *a, int64_t k)
{
    int64_t at = 0;
    for (int d = a->rank - 1; d >= 0; d--) {
        at += k % a->dims[d] * a->strides[d];
        k /= a->dims[d];
    }
    return at;
}

double kernel_get(const mp_array *a, int64_t k)
{
    int64_t at = offset_of(a, k);
    uint32_t word;
    float value;
    switch (a->dtype) {
    case MP_DTYPE_FLOAT:
        return ((const float *)a->data)[at];
    case MP_DTYPE_BFLOAT16:
        word = (uint32_t)((const uint16_t *)a->data)[at] << 16;
        memcpy(&value, &word, sizeof value);
        return value;
    case MP_DTYPE_DOUBLE:
        return ((const double *)a->data)[at];
    case MP_DTYPE_INT64:
        return (double)((const int64_t *)a->data)[at];
    case MP_DTYPE_INT32:
        return ((const int32_t *)a->data)[at];
    case MP_DTYPE_BOOL:
    case MP_DTYPE_UINT8:
        return ((const uint8_t *)a->data)[at];
    case MP_DTYPE_INT8:
        return ((const int8_t *)a->data)[at];
    default:
        fail_msg("no reading of type %s", mp_dtype_name(a->dtype));
        return 0;
    }
}

void kernel_set(const mp_array *a, int64_t k, double value)
{
    int64_t at = offset_of(a, k);
    uint32_t word;
    float single = (float)value;
    switch (a->dtype) {
    case MP_DTYPE_FLOAT:
        ((float *)a->data)[at] = single;
        break;
    case MP_DTYPE_BFLOAT16:
        memcpy(&word, &single, sizeof word);
        ((uint16_t *)a->data)[at] = (uint16_t)((word + 0x7fff + (word >> 16 & 1)) >> 16);
        break;
    case MP_DTYPE_DOUBLE:
        ((double *)a->data)[at] = value;
        break;
    case MP_DTYPE_INT64:
        ((int64_t *)a->data)[at] = (int64_t)value;
        break;
    case MP_DTYPE_INT32:
        ((int32_t *)a->data)[at] = (int32_t)value;
        break;
    case MP_DTYPE_BOOL:
    case MP_DTYPE_UINT8:
        ((uint8_t *)a->data)[at] = (uint8_t)value;
        break;
    case MP_DTYPE_INT8:
        ((int8_t *)a->data)[at] = (int8_t)value;
        break;
    default:
        fail_msg("no writing of type %s", mp_dtype_name(a->dtype));
    }
}

static int64_t guarded_bytes(int64_t bytes)
{
    return (bytes + GUARD - 1) / GUARD * GUARD + 2 * GUARD;
}

/* Allocates memory with guard bytes on both sides, filled with a pattern that is no plausible float. */
static void *guarded(int64_t bytes)
{
    const size_t n = (size_t)guarded_bytes(bytes);
    unsigned char *block = aligned_alloc(GUARD, n);
    memset(block, 0xa5, n);
    return block + GUARD;
}
static void unguard(void *data, int64_t bytes)
{
    if (!data) return;
    unsigned char *block = (unsigned char *)data - GUARD;
    for (int k = 0; k < GUARD; k++)
        if (block[k] != 0xa5 || block[GUARD + bytes + k] != 0xa5) fail_msg("a kernel wrote outside its memory");
    free(block);
}

static bool lies_channels_last(const mp_tensor *t, int rank, unsigned flags)
{
    return (flags & KERNEL_CHANNELS_LAST) && rank >= 3 && t->rank == rank && mp_dtype_is_float(t->dtype);
}

static mp_array describe(const mp_model *model, int tensor, int rank, unsigned flags)
{
    if (tensor < 0) return (mp_array){0};
    const mp_tensor *t = &model->tensors[tensor];
    mp_dtype dtype = t->dtype == MP_DTYPE_FLOAT && (flags & KERNEL_BFLOAT16) ? MP_DTYPE_BFLOAT16 : t->dtype;
    if ((flags & KERNEL_ALIGNED_ROWS) && t->rank >= 2 && mp_dtype_is_float(t->dtype))
        return mp_array_padded_rows(dtype, t->rank, t->dims, MP_ROW_ALIGNMENT - t->dims[t->rank - 1] % MP_ROW_ALIGNMENT);
    return lies_channels_last(t, rank, flags) ? mp_array_channels_last(dtype, t->rank, t->dims)
                                              : mp_array_plain(dtype, t->rank, t->dims);
}

static uint32_t wanted_of(const kernel_case *c, const mp_model *model, const mp_operator *op)
{
    uint32_t bits = 0;
    if (c->wanted) return c->wanted;
    for (int i = 0; i < op->n_in; i++)
        if (op->in[i] >= 0 && mp_dtype_is_float(model->tensors[op->in[i]].dtype) && !model->tensors[op->in[i]].value)
            bits |= 1u << i;
    return bits;
}

static void fill(const kernel_case *c, const mp_model *model, const mp_operator *op, mp_operands *x)
{
    double low = c->low, high = c->high;
    if (low == 0 && high == 0) low = -1, high = 1;
    for (int i = 0; i < op->n_in; i++) {
        if (op->in[i] < 0) continue;
        const mp_value *v = model->tensors[op->in[i]].value;
        int64_t n = mp_array_elements(&x->in[i]);
        for (int64_t k = 0; k < n; k++) {
            double value = v ? (v->is_real ? v->f[k] : (double)v->i[k]) : (double)(k % 3);
            if (!v && mp_dtype_is_float(x->in[i].dtype)) value = draw(low, high);
            kernel_set(&x->in[i], k, value);
        }
    }
}

static void prepare(kernel_run *r, mp_operands *x, mp_call *call)
{
    mp_error err = {0};
    const mp_kernel *kernel = backend_here()->kernel(backend_here(), x->op);
    if (!kernel) fail_msg("%s has no kernel", r->c->kind);
    if (mp_call_prepare(backend_here(), kernel, x, call, &err) != MP_OK)
        fail_msg("%s(%s)(%s): %s", r->c->kind, r->c->inputs, r->c->attributes, err.message);
    x->workspace = guarded(call->workspace_bytes);
}

kernel_run *kernel_begin(const kernel_case *c, mp_mode mode, unsigned flags)
{
    kernel_run *r = calloc(1, sizeof *r);
    rule_case text = {c->kind, c->version, c->inputs, c->attributes, ""};
    r->c = c;
    r->model = rule_model(&text, c->n_outputs);
    r->run = (mp_run){.seed = 7, .step = 3, .first_run = true};
    draws = 0x123456789abcdefu;
    mp_operator *op = &r->model->operators[0];
    mp_operands *x = &r->forward;
    *x = (mp_operands){.model = r->model, .op = op, .mode = mode, .n_in = op->n_in, .n_out = op->n_out};
    x->in = calloc((size_t)op->n_in + 1, sizeof *x->in);
    x->out = calloc((size_t)op->n_out + 1, sizeof *x->out);
    int rank = op->n_in && op->in[0] >= 0 ? r->model->tensors[op->in[0]].rank : 0;
    for (int i = 0; i < op->n_in; i++) {
        x->in[i] = describe(r->model, op->in[i], rank, flags);
        if (x->in[i].dtype) x->in[i].data = guarded(mp_array_bytes(&x->in[i]));
    }
    fill(c, r->model, op, x);
    for (int o = 0; o < op->n_out; o++) x->out[o] = describe(r->model, op->out[o], rank, flags);
    mp_extra extras[MP_EXTRAS_MAX];
    int n_extras = op->op->extras ? op->op->extras(r->model, op, MP_RULES_EXECUTOR, extras) : 0;
    for (int e = 0; e < n_extras && (flags & KERNEL_BACKWARD); e++) {
        x->extra[e] = mp_array_plain(extras[e].dtype, 1, &(int64_t){extras[e].bytes / (mp_dtype_bits(extras[e].dtype) / 8)});
        x->extra[e].data = guarded(extras[e].bytes);
    }
    prepare(r, x, &r->forward_call);
    for (int o = 0; o < op->n_out; o++)
        if (x->out[o].dtype) x->out[o].data = guarded(mp_array_bytes(&x->out[o]));
    if (!(flags & KERNEL_BACKWARD)) return r;

    mp_operands *b = &r->backward;
    uint32_t wanted = wanted_of(c, r->model, op);
    *b = *x;
    b->is_backward = true;
    b->to = op->n_in;
    b->in = calloc((size_t)op->n_in + 1, sizeof *b->in);
    b->out = calloc((size_t)op->n_out + 1, sizeof *b->out);
    b->d_in = calloc((size_t)op->n_in + 1, sizeof *b->d_in);
    b->d_out = calloc((size_t)op->n_out + 1, sizeof *b->d_out);
    memcpy(b->in, x->in, (size_t)op->n_in * sizeof *b->in);
    memcpy(b->out, x->out, (size_t)op->n_out * sizeof *b->out);
    uint32_t needs = 0;
    for (int i = 0; i < op->n_in; i++) {
        if (!(wanted & 1u << i)) continue;
        needs |= op->op->needs[MP_RULES_EXECUTOR][i < MP_GRADIENTS_MAX ? i : MP_GRADIENTS_MAX - 1];
        b->d_in[i] = describe(r->model, op->in[i], rank, flags);
        b->d_in[i].data = guarded(mp_array_bytes(&b->d_in[i]));
    }
    if (flags & KERNEL_ADDS) b->adds = wanted;
    for (int i = 0; i < op->n_in; i++)
        if (!(needs & (MP_IN(i) | MP_INPUTS)) && op->in[i] >= 0 && !r->model->tensors[op->in[i]].value) b->in[i].data = NULL;
    for (int o = 0; o < op->n_out; o++)
        if (!(needs & MP_OUT(o))) b->out[o].data = NULL;
    for (int e = 0; e < MP_EXTRAS_MAX; e++)
        if (!(needs & MP_EXTRA(e))) b->extra[e].data = NULL;
    for (int o = 0; o < op->n_out; o++) {
        if (!x->out[o].dtype || !mp_dtype_is_float(x->out[o].dtype)) continue;
        b->d_out[o] = describe(r->model, op->out[o], rank, flags);
        b->d_out[o].data = guarded(mp_array_bytes(&b->d_out[o]));
        for (int64_t k = 0; k < mp_array_elements(&b->d_out[o]); k++) kernel_set(&b->d_out[o], k, draw(-1, 1));
    }
    prepare(r, b, &r->backward_call);
    return r;
}

/* Operands copied to a backend with its own memory. Two operands at one address stay at one address. */
typedef struct journey {
    const mp_backend *backend;
    struct {
        void **at, *host, *there;
        int64_t bytes;
        bool shared;
    } stops[128];
    int n;
} journey;

static void bring(journey *j, void **at, int64_t bytes)
{
    if (!*at || j->n == 128) return;
    int k = j->n++, first = k;
    for (int q = k - 1; q >= 0; q--)
        if (j->stops[q].host == *at) first = q;
    j->stops[k].at = at;
    j->stops[k].host = *at;
    j->stops[k].shared = first < k;
    j->stops[k].bytes = guarded_bytes(bytes);
    j->stops[k].there = first < k ? j->stops[first].there : backend_bring(j->backend, (char *)*at - GUARD, j->stops[k].bytes);
    *at = (char *)j->stops[k].there + GUARD;
}

static void bring_arrays(journey *j, mp_array *arrays, int n)
{
    for (int k = 0; arrays && k < n; k++) bring(j, &arrays[k].data, mp_array_bytes(&arrays[k]));
}

static void run(kernel_run *r, mp_operands *x, const mp_call *call)
{
    mp_error err = {0};
    journey j = {.backend = backend_here()};
    if (!j.backend->is_host) {
        bring_arrays(&j, x->in, x->n_in);
        bring_arrays(&j, x->out, x->n_out);
        bring_arrays(&j, x->d_in, x->n_in);
        bring_arrays(&j, x->d_out, x->n_out);
        bring_arrays(&j, x->extra, MP_EXTRAS_MAX);
        bring(&j, &x->workspace, call->workspace_bytes);
    }
    x->run = r->run;
    mp_status st = mp_call_run(j.backend, call, x, &err);
    for (int k = 0; k < j.n; k++) {
        if (!j.stops[k].shared) backend_fetch(j.backend, j.stops[k].there, (char *)j.stops[k].host - GUARD, j.stops[k].bytes);
        *j.stops[k].at = j.stops[k].host;
    }
    if (st != MP_OK) fail_msg("%s(%s)(%s): %s", r->c->kind, r->c->inputs, r->c->attributes, err.message);
}
void kernel_forward(kernel_run *r)
{
    run(r, &r->forward, &r->forward_call);
}
void kernel_backward(kernel_run *r)
{
    run(r, &r->backward, &r->backward_call);
}

static void release_arrays(mp_array *arrays, int n)
{
    for (int k = 0; arrays && k < n; k++) unguard(arrays[k].data, mp_array_bytes(&arrays[k]));
    free(arrays);
}

void kernel_end(kernel_run *r)
{
    mp_operands *x = &r->forward, *b = &r->backward;
    release_arrays(x->in, x->n_in);
    release_arrays(x->out, x->n_out);
    for (int e = 0; e < MP_EXTRAS_MAX; e++) unguard(x->extra[e].data, mp_array_bytes(&x->extra[e]));
    unguard(x->workspace, r->forward_call.workspace_bytes);
    if (b->op) {
        release_arrays(b->d_in, b->n_in);
        release_arrays(b->d_out, b->n_out);
        free(b->in);
        free(b->out);
        unguard(b->workspace, r->backward_call.workspace_bytes);
    }
    mp_call_release(&r->forward_call);
    mp_call_release(&r->backward_call);
    mp_model_free(r->model);
    free(r);
}

void kernel_extra(kernel_run *r, int e, mp_dtype dtype, int64_t n)
{
    r->forward.extra[e] = mp_array_plain(dtype, 1, &n);
    r->forward.extra[e].data = guarded(mp_array_bytes(&r->forward.extra[e]));
    r->backward.extra[e] = r->forward.extra[e];
}

void kernel_check_refused(const kernel_case *c, const char *text)
{
    mp_model *model = rule_model(&(rule_case){c->kind, c->version, c->inputs, c->attributes, ""}, c->n_outputs);
    const mp_operator *op = &model->operators[0];
    mp_array in[64] = {{0}}, out[8] = {{0}};
    mp_operands x = {.model = model, .op = op, .n_in = op->n_in, .n_out = op->n_out, .in = in, .out = out};
    mp_call call;
    mp_error err = {0};
    for (int i = 0; i < op->n_in; i++) in[i] = describe(model, op->in[i], 0, 0);
    for (int o = 0; o < op->n_out; o++) out[o] = describe(model, op->out[o], 0, 0);
    const mp_status st = mp_call_prepare(backend_here(), backend_here()->kernel(backend_here(), op), &x, &call, &err);
    if (st != MP_UNSUPPORTED || !strstr(err.message, text))
        fail_msg("%s(%s): '%s' does not say '%s'", c->kind, c->attributes, err.message, text);
    mp_model_free(model);
}

void kernel_check_values(const kernel_case *c, mp_mode mode, int output, const double *expected, int64_t n, double tolerance)
{
    kernel_run *r = kernel_begin(c, mode, 0);
    kernel_forward(r);
    const mp_array *y = &r->forward.out[output];
    assert_int_equal(mp_array_elements(y), n);
    for (int64_t k = 0; k < n; k++)
        if (!(fabs(kernel_get(y, k) - expected[k]) <= tolerance * (1 + fabs(expected[k]))))
            fail_msg("%s(%s)(%s): element %lld is %.9g and should be %.9g", c->kind, c->inputs, c->attributes, (long long)k,
                     kernel_get(y, k), expected[k]);
    kernel_end(r);
}

/* Returns sum(weights * outputs) of a forward run. */
static double weighted(kernel_run *r)
{
    double sum = 0;
    kernel_forward(r);
    for (int o = 0; o < r->forward.n_out; o++) {
        const mp_array *d = &r->backward.d_out[o];
        for (int64_t k = 0; d->dtype && k < mp_array_elements(d); k++)
            sum += kernel_get(d, k) * kernel_get(&r->forward.out[o], k);
    }
    return sum;
}

static void compare_with_differences(kernel_run *r, int i)
{
    const kernel_case *c = r->c;
    const mp_array *x = &r->forward.in[i], *d = &r->backward.d_in[i];
    double step = c->step > 0 ? c->step : 1e-2, tolerance = c->tolerance > 0 ? c->tolerance : 2e-2, largest = 1e-3;
    int64_t n = mp_array_elements(x);
    double *expected = calloc((size_t)n + 1, sizeof *expected);
    for (int64_t k = 0; k < n; k++) {
        double old = kernel_get(x, k);
        kernel_set(x, k, old + step);
        double above = weighted(r), plus = kernel_get(x, k);
        kernel_set(x, k, old - step);
        double below = weighted(r), minus = kernel_get(x, k);
        kernel_set(x, k, old);
        expected[k] = (above - below) / (plus - minus);
        if (fabs(expected[k]) > largest) largest = fabs(expected[k]);
    }
    for (int64_t k = 0; k < n; k++)
        if (!(fabs(kernel_get(d, k) - expected[k]) <= tolerance * largest))
            fail_msg("%s(%s)(%s): gradient %lld of input %d is %.7g, differences say %.7g", c->kind, c->inputs, c->attributes,
                     (long long)k, i, kernel_get(d, k), expected[k]);
    free(expected);
}

static double *gradients(const kernel_run *r, int64_t *n)
{
    const mp_operands *b = &r->backward;
    *n = 0;
    for (int i = 0; i < b->n_in; i++)
        if (b->d_in[i].dtype) *n += mp_array_elements(&b->d_in[i]);
    double *all = calloc((size_t)*n + 1, sizeof *all);
    int64_t at = 0;
    for (int i = 0; i < b->n_in; i++)
        for (int64_t k = 0; b->d_in[i].dtype && k < mp_array_elements(&b->d_in[i]); k++) all[at++] = kernel_get(&b->d_in[i], k);
    return all;
}

/* Checks that each float operand of backward is used: a large change to it must change the gradients. */
static void check_reads_matter(kernel_run *r, const mp_array *a, const char *what, int k)
{
    int64_t n, m;
    if (!a->data || a->dtype != MP_DTYPE_FLOAT) return;
    double *before = gradients(r, &n);
    float *saved = malloc((size_t)mp_array_bytes(a));
    memcpy(saved, a->data, (size_t)mp_array_bytes(a));
    for (int64_t e = 0; e < mp_array_elements(a); e++) ((float *)a->data)[e] = e % 2 ? 1e3f : -1e3f;
    kernel_backward(r);
    memcpy(a->data, saved, (size_t)mp_array_bytes(a));
    double *after = gradients(r, &m);
    if (n && !memcmp(before, after, (size_t)n * sizeof *before))
        fail_msg("%s(%s)(%s): the registry says that backward reads %s %d, and it does not", r->c->kind, r->c->inputs,
                 r->c->attributes, what, k);
    free(saved);
    free(before);
    free(after);
    kernel_backward(r);
}

static double *gradients_with(const kernel_case *c, unsigned flags, int64_t *n)
{
    kernel_run *r = kernel_begin(c, MP_MODE_TRAIN, flags | KERNEL_BACKWARD);
    kernel_forward(r);
    for (int i = 0; i < r->backward.n_in; i++)
        for (int64_t k = 0; (flags & KERNEL_ADDS) && r->backward.d_in[i].dtype && k < mp_array_elements(&r->backward.d_in[i]);
             k++)
            kernel_set(&r->backward.d_in[i], k, 1);
    kernel_backward(r);
    double *all = gradients(r, n);
    kernel_end(r);
    return all;
}

static void compare(const kernel_case *c, const double *a, const double *b, int64_t n, double offset, double tolerance,
                    const char *what)
{
    double largest = 1e-3;
    for (int64_t k = 0; k < n; k++) largest = fabs(a[k]) > largest ? fabs(a[k]) : largest;
    for (int64_t k = 0; k < n; k++)
        if (!(fabs(b[k] - offset - a[k]) <= tolerance * (largest + offset)))
            fail_msg("%s(%s)(%s): gradient %lld is %.7g, and %s %.7g", c->kind, c->inputs, c->attributes, (long long)k, a[k],
                     what, b[k] - offset);
}

void kernel_check_gradient(const kernel_case *c)
{
    int64_t n, m;
    kernel_run *r = kernel_begin(c, MP_MODE_TRAIN, KERNEL_BACKWARD);
    kernel_forward(r);
    kernel_backward(r);
    double *plain = gradients(r, &n);
    for (int i = 0; i < r->backward.n_in; i++) /* stated values without a gradient are read when the call is prepared */
        if (r->backward.d_in[i].dtype || !mp_operator_in(r->model, r->backward.op, i) ||
            !mp_operator_in(r->model, r->backward.op, i)->value)
            check_reads_matter(r, &r->backward.in[i], "input", i);
    for (int o = 0; o < r->backward.n_out; o++) check_reads_matter(r, &r->backward.out[o], "output", o);
    for (int e = 0; e < MP_EXTRAS_MAX; e++) check_reads_matter(r, &r->backward.extra[e], "extra", e);
    for (int i = 0; i < r->backward.n_in; i++)
        if (r->backward.d_in[i].dtype) compare_with_differences(r, i);
    bool spatial = r->forward.n_in && r->forward.in[0].rank >= 3 &&
                   (!strcmp(backend_here()->name, "cpu") || r->forward.op->op->layout != MP_HABIT_MATRICES);
    kernel_end(r);

    double *added = gradients_with(c, KERNEL_ADDS, &m);
    compare(c, plain, added, n, 1, 1e-5, "added to 1 it is");
    free(added);
    if (spatial) {
        double *last = gradients_with(c, KERNEL_CHANNELS_LAST, &m);
        compare(c, plain, last, n, 0, 1e-4, "with channels last it is");
        free(last);
    }
    double *half = gradients_with(c, KERNEL_BFLOAT16, &m);
    compare(c, plain, half, n, 0, 6e-2, "in bfloat16 it is");
    free(half);
    free(plain);
}
