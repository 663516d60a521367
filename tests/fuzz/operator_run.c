/* operator_run.c - calls a kernel once forward and once per group of gradients, with guards around every operand. */
#include "tests/fuzz/operator_run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "executor/kernel/backend.h"

enum { GUARD = 64, ELEMENTS_MAX = 1 << 16, FLOPS_MAX = 1 << 28, BLOCKS = 64 };

/* Allocated memory with guards around it. An address sanitizer sees exactly `bytes`. */
typedef struct block {
    unsigned char *data;
    size_t bytes;
    uint64_t sum; /* checksum of constant contents; 0: changes are allowed */
} block;

typedef struct work {
    const operator_case *c;
    const mp_backend *backend;
    mp_model *model;
    mp_operator *op;
    block blocks[BLOCKS];
    int n_blocks;
    mp_operands x, b;
    mp_array in[OPERATOR_INPUTS], out[OPERATOR_OUTPUTS], d_in[OPERATOR_INPUTS], d_out[OPERATOR_OUTPUTS];
    uint64_t draws;
} work;

static uint64_t sum_of(const void *data, size_t n)
{
    uint64_t h = 14695981039346656037u;
    for (size_t k = 0; k < n; k++) h = (h ^ ((const unsigned char *)data)[k]) * 1099511628211u;
    return h | 1;
}

#if defined(__SANITIZE_ADDRESS__)
#define GUARDED 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define GUARDED 0
#endif
#endif
#ifndef GUARDED
#define GUARDED GUARD
#endif

/* Allocates memory filled with NaN bytes of every floating-point type. */
static void *take(work *w, int64_t bytes)
{
    void *data;
    if (w->n_blocks == BLOCKS || posix_memalign(&data, GUARD, (size_t)bytes + 2 * GUARDED + !bytes)) return NULL;
    memset(data, 0xff, (size_t)bytes + 2 * GUARDED);
    w->blocks[w->n_blocks++] = (block){(unsigned char *)data + GUARDED, (size_t)bytes, 0};
    return (unsigned char *)data + GUARDED;
}

/* Marks the memory as constant from now on. */
static void seal(work *w, const void *data)
{
    for (int k = 0; k < w->n_blocks; k++)
        if (w->blocks[k].data == data) w->blocks[k].sum = sum_of(data, w->blocks[k].bytes);
}

static bool is_whole(const work *w)
{
    for (int k = 0; k < w->n_blocks; k++) {
        const block *b = &w->blocks[k];
        for (int g = 1; g <= GUARDED; g++)
            if (b->data[-g] != 0xff || b->data[b->bytes + (size_t)g - 1] != 0xff) return false;
        if (b->sum && b->sum != sum_of(b->data, b->bytes)) return false;
    }
    return true;
}

static double draw(work *w)
{
    w->draws = w->draws * 6364136223846793005u + 1442695040888963407u;
    return 0.1 + 0.8 * (double)(w->draws >> 11) / 9007199254740992.0;
}

static int64_t whole_number(unsigned how, int64_t k)
{
    static const int64_t ends[] = {INT64_MIN, -1, INT64_MAX, 0};
    switch (how % 4) {
    case 0:
        return k % 3;
    case 1:
        return 0;
    case 2:
        return k % 2 ? -k : k;
    default:
        return k % 8 < 4 ? ends[k % 4] : (INT64_C(1) << (20 + k % 42)) * (k % 2 ? -1 : 1);
    }
}

static void store(const mp_array *a, int64_t k, double real, int64_t integer)
{
    const float single = (float)real;
    uint32_t word;
    switch (a->dtype) {
    case MP_DTYPE_FLOAT:
        ((float *)a->data)[k] = single;
        break;
    case MP_DTYPE_DOUBLE:
        ((double *)a->data)[k] = real;
        break;
    case MP_DTYPE_BFLOAT16:
        memcpy(&word, &single, sizeof word);
        ((uint16_t *)a->data)[k] = (uint16_t)(word >> 16);
        break;
    case MP_DTYPE_FLOAT16:
        ((uint16_t *)a->data)[k] = 0x3800; /* 0.5 */
        break;
    case MP_DTYPE_BOOL:
        ((uint8_t *)a->data)[k] = integer != 0;
        break;
    default:
        for (int part = 0; part < mp_dtype_bits(a->dtype) / 8; part += 8)
            memcpy((char *)a->data + k * (mp_dtype_bits(a->dtype) / 8) + part, &integer,
                   mp_dtype_bits(a->dtype) < 64 ? (size_t)mp_dtype_bits(a->dtype) / 8 : sizeof integer);
    }
}

/* Returns whether every element of a float array is finite. */
static bool is_finite(const mp_array *a)
{
    uint32_t word;
    float value;
    for (int64_t k = 0; k < mp_array_elements(a); k++) {
        if (a->dtype == MP_DTYPE_FLOAT && !isfinite(((const float *)a->data)[k])) return false;
        if (a->dtype == MP_DTYPE_DOUBLE && !isfinite(((const double *)a->data)[k])) return false;
        if (a->dtype != MP_DTYPE_BFLOAT16) continue;
        word = (uint32_t)((const uint16_t *)a->data)[k] << 16;
        memcpy(&value, &word, sizeof value);
        if (!isfinite(value)) return false;
    }
    return true;
}

/* Makes a tensor's array with memory; false: too large, or a type without memory. */
static bool lay_out(work *w, int tensor, bool with_memory, mp_array *a)
{
    *a = (mp_array){0};
    if (tensor < 0) return true;
    const mp_tensor *t = &w->model->tensors[tensor];
    if (!mp_dtype_bits(t->dtype) || mp_dtype_bits(t->dtype) % 8 || t->rank > MP_ARRAY_RANK) return false;
    if (mp_tensor_elements(t) > ELEMENTS_MAX) return false;
    *a = mp_array_plain(t->dtype, t->rank, t->dims);
    if (with_memory) a->data = take(w, mp_array_bytes(a));
    return !with_memory || a->data;
}

static bool fill_inputs(work *w)
{
    for (int i = 0; i < w->op->n_in; i++) {
        bool again = false;
        for (int j = 0; j < i && !again; j++)
            if (w->op->in[j] >= 0 && w->op->in[j] == w->op->in[i]) {
                w->in[i] = w->in[j];
                again = true;
            }
        if (again) continue;
        if (!lay_out(w, w->op->in[i], true, &w->in[i])) return false;
        if (w->op->in[i] < 0) continue;
        const mp_value *v = w->model->tensors[w->op->in[i]].value;
        for (int64_t k = 0; k < mp_array_elements(&w->in[i]); k++)
            store(&w->in[i], k, v && v->is_real ? v->f[k] : draw(w),
                  v && !v->is_real ? v->i[k] : whole_number(w->c->fill, k + i));
        bool moves = false; /* running mean and variance are updated in place */
        for (int s = 3; s < 5 && w->op->op->traits & MP_TRAIT_STATISTICS; s++) moves |= w->op->in[s] == w->op->in[i];
        if (!moves) seal(w, w->in[i].data);
    }
    return true;
}

static operator_verdict refused(const mp_error *err, const char *kind, char text[OPERATOR_TEXT])
{
    snprintf(text, OPERATOR_TEXT, "%s", err->message);
    return strstr(err->message, kind) || strstr(err->message, "op") ? OPERATOR_REFUSED : OPERATOR_NO_REASON;
}

static operator_verdict call(work *w, mp_operands *x, bool finite, char text[OPERATOR_TEXT])
{
    mp_error err = {0};
    mp_call call = {0};
    operator_verdict verdict = OPERATOR_RAN;
    const mp_kernel *kernel = w->backend->kernel(w->backend, w->op);
    if (!kernel || (x->is_backward && !kernel->backward)) return OPERATOR_REFUSED;
    x->run = (mp_run){.seed = 7, .step = 3, .first_run = true};
    if (mp_call_prepare(w->backend, kernel, x, &call, &err) != MP_OK) return refused(&err, w->c->kind, text);
    if (call.workspace_bytes > ELEMENTS_MAX * 64)
        verdict = OPERATOR_TOO_LARGE;
    else if (!(x->workspace = take(w, call.workspace_bytes)))
        verdict = OPERATOR_TOO_LARGE;
    else if (mp_call_run(w->backend, &call, x, &err) != MP_OK)
        verdict = refused(&err, w->c->kind, text) == OPERATOR_REFUSED ? OPERATOR_FAILED : OPERATOR_NO_REASON;
    else if (!is_whole(w))
        verdict = OPERATOR_OVERWRITES;
    mp_array *made = x->is_backward ? w->d_in : w->out;
    for (int k = 0; verdict == OPERATOR_RAN && finite && k < (x->is_backward ? x->n_in : x->n_out); k++)
        if (made[k].dtype && made[k].data && !is_finite(&made[k])) {
            verdict = OPERATOR_NOT_FINITE;
            snprintf(text, OPERATOR_TEXT, "%s %d", x->is_backward ? "the gradient of input" : "output", k);
        }
    mp_call_release(&call);
    return verdict;
}

static operator_verdict run_forward(work *w, bool finite, char text[OPERATOR_TEXT])
{
    mp_operands *x = &w->x;
    mp_extra extras[MP_EXTRAS_MAX];
    *x = (mp_operands){.model = w->model, .op = w->op, .mode = MP_MODE_TRAIN, .in = w->in, .out = w->out};
    x->n_in = w->op->n_in;
    x->n_out = w->op->n_out;
    for (int o = 0; o < w->op->n_out; o++)
        if (!lay_out(w, w->op->out[o], true, &w->out[o])) return OPERATOR_TOO_LARGE;
    const int n = w->op->op->extras && w->c->wanted ? w->op->op->extras(w->model, w->op, MP_RULES_EXECUTOR, extras) : 0;
    for (int e = 0; e < n; e++) {
        if (extras[e].bytes > ELEMENTS_MAX * 8) return OPERATOR_TOO_LARGE;
        x->extra[e] = mp_array_plain(extras[e].dtype, 1, &(int64_t){extras[e].bytes / (mp_dtype_bits(extras[e].dtype) / 8)});
        if (!(x->extra[e].data = take(w, extras[e].bytes))) return OPERATOR_TOO_LARGE;
    }
    return call(w, x, finite, text);
}

/* Computes the requested gradients of inputs [from, to). Only operands listed in the table row have memory. */
static operator_verdict run_backward(work *w, int from, int to, bool finite, char text[OPERATOR_TEXT])
{
    mp_operands *b = &w->b;
    mp_array in[OPERATOR_INPUTS], out[OPERATOR_OUTPUTS];
    uint32_t needs = 0;
    bool any = false;
    *b = w->x;
    b->is_backward = true;
    b->from = from;
    b->to = to;
    b->in = in;
    b->out = out;
    b->d_in = w->d_in;
    b->d_out = w->d_out;
    memcpy(in, w->in, sizeof in);
    memcpy(out, w->out, sizeof out);
    memset(w->d_in, 0, sizeof w->d_in);
    for (int i = from; i < to; i++) {
        const int t = w->op->in[i];
        if (!(w->c->wanted >> i & 1) || t < 0 || w->model->tensors[t].value || !mp_is_real(w->in[i].dtype)) continue;
        const uint32_t need = w->op->op->needs[MP_RULES_EXECUTOR][i < MP_GRADIENTS_MAX ? i : MP_GRADIENTS_MAX - 1];
        if (need & MP_UNBUILT) continue;
        needs |= need;
        any = true;
        for (int j = from; j < i; j++)
            if (w->op->in[j] == t && w->d_in[j].dtype) { /* the second gradient is added to the first */
                w->d_in[i] = w->d_in[j];
                b->adds |= MP_BIT(i);
            }
        if (!w->d_in[i].dtype && !lay_out(w, t, true, &w->d_in[i])) return OPERATOR_TOO_LARGE;
    }
    if (!any) return OPERATOR_RAN;
    for (int i = 0; i < w->op->n_in; i++) {
        bool needed = (needs & MP_INPUTS) || (w->op->in[i] >= 0 && w->model->tensors[w->op->in[i]].value);
        for (int j = 0; j < w->op->n_in && j < 8; j++) needed |= needs & MP_IN(j) && w->op->in[j] == w->op->in[i];
        if (!needed) in[i].data = NULL;
    }
    for (int o = 0; o < w->op->n_out; o++)
        if (!(needs & MP_OUT(o))) out[o].data = NULL;
    for (int e = 0; e < MP_EXTRAS_MAX; e++)
        if (!(needs & MP_EXTRA(e))) b->extra[e].data = NULL;
    return call(w, b, finite, text);
}

static operator_verdict run_all(work *w, bool finite, char text[OPERATOR_TEXT])
{
    const mp_op *row = w->op->op;
    if (row->flops && row->flops(w->model, w->op) > FLOPS_MAX) return OPERATOR_TOO_LARGE;
    if (!fill_inputs(w)) return OPERATOR_TOO_LARGE;
    operator_verdict verdict = run_forward(w, finite, text);
    bool any = false;
    if (verdict != OPERATOR_RAN || row->gradient <= MP_GRADIENT_VIEW) return verdict;
    for (int o = 0; o < w->op->n_out; o++) {
        if (!w->out[o].dtype || !mp_is_real(w->out[o].dtype)) continue;
        if (!lay_out(w, w->op->out[o], true, &w->d_out[o])) return OPERATOR_TOO_LARGE;
        for (int64_t k = 0; k < mp_array_elements(&w->d_out[o]); k++) store(&w->d_out[o], k, draw(w), 0);
        seal(w, w->d_out[o].data);
        any |= mp_array_elements(&w->d_out[o]) > 0;
    }
    if (!any) return verdict; /* integers or no elements: no gradient exists */
    if (row->gradient == MP_GRADIENT_SPLIT) {
        verdict = run_backward(w, 1, w->op->n_in, finite, text);
        return verdict == OPERATOR_RAN ? run_backward(w, 0, 1, finite, text) : verdict;
    }
    if (row->gradient != MP_GRADIENT_ALIAS) return run_backward(w, 0, w->op->n_in, finite, text);
    for (int i = 0; i < w->op->n_in && verdict == OPERATOR_RAN; i++) verdict = run_backward(w, i, i + 1, finite, text);
    return verdict;
}

operator_verdict operator_run(const operator_case *c, bool finite, char text[OPERATOR_TEXT])
{
    static const mp_backend *cpu;
    mp_error err = {0};
    work w = {.c = c, .draws = 0x123456789abcdefu};
    operator_verdict verdict;
    *text = 0;
    if (!cpu && (mp_backend_open("cpu", &cpu, &err) != MP_OK || cpu->open(cpu, &err) != MP_OK)) abort();
    w.backend = cpu;
    if (operator_case_model(c, &w.model, &err) != MP_OK) {
        verdict = refused(&err, c->kind, text);
    } else {
        w.op = &w.model->operators[0];
        verdict = run_all(&w, finite, text);
    }
    for (int k = 0; k < w.n_blocks; k++) free(w.blocks[k].data - GUARDED);
    mp_model_free(w.model);
    return verdict;
}
