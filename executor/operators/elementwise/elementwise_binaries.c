/* elementwise_binaries.c - functions of several broadcast operands, and their gradients: prepares calls for the rows of
 * elementwise.def.
 *
 * The gradient of an operand is a function of dy and the tensors that ops.def lists for backward. It is computed in the shape
 * of the output, and summed over the dimensions along which the operand was broadcast. If an operand has the output's shape,
 * its gradient is written directly; otherwise the terms of the sum are stored in the workspace. */
#include "executor/operators/elementwise/elementwise.h"

#include <string.h>

#include "estimator/base/integers.h"

/* Traits of operators. ADDS: the gradient of every operand is dy. AVERAGES: the sum of the operands is divided by their
 * number. PICKS: the result is one of the operands, as in Max. SHIFTS: shifts left or right, depending on an attribute.
 * SLOPES: the second operand may be a slope per channel. */
enum { ADDS = 1, AVERAGES = 2, PICKS = 4, SHIFTS = 8, SLOPES = 16 };

typedef struct binary {
    const char *kind;
    mp_formula forward, gradient[2];
    mp_whole_formula whole;
    unsigned traits;
} binary;

#define BINARY_OP(kind, f, a, b, whole, traits) \
    {kind, MP_FORMULA_##f, {MP_FORMULA_##a, MP_FORMULA_##b}, MP_WHOLE_##whole, traits},
static const binary binaries[] = {
#include "executor/operators/elementwise/elementwise.def"
};

static const binary *find(const mp_operator *op)
{
    for (size_t k = 0; k < sizeof binaries / sizeof *binaries; k++)
        if (!strcmp(binaries[k].kind, op->op->name)) return &binaries[k];
    return NULL;
}

typedef struct state {
    const mp_engine *engine;
    const binary *b;
    mp_whole_formula whole;
    double parameters[MP_FORMULA_PARAMETERS];
    mp_array *operands; /* for each input: its array, in the shape in which the input is broadcast */
    int64_t slot_bytes; /* workspace bytes for the terms of one operand's gradient */
    int64_t sums_at;    /* workspace offset of the memory that the engine needs for sums */
    int64_t ties_at;    /* workspace offset of an array: for each element of the result, the number of operands that equal it */
    mp_pool *pool;
} state;

static void release(mp_call *call)
{
    mp_pool_free(((state *)call->state)->pool);
}

/* Returns input k in the shape in which it is broadcast. Before operator set 7, the operator may append dimensions of size 1 to
 * the shape of the input. */
static mp_array operand(const mp_operands *x, const state *s, int k)
{
    mp_array a = s->operands[k];
    a.data = x->in[k].data;
    return a;
}

static bool same_shape(const mp_array *a, const mp_array *b)
{
    bool same = a->rank == b->rank;
    for (int d = 0; same && d < a->rank; d++) same = a->dims[d] == b->dims[d];
    return same;
}

static mp_status run_forward(const mp_call *call, const mp_operands *x, mp_error *err)
{
    const state *s = call->state;
    const mp_array *y = &x->out[0];
    mp_array first = operand(x, s, 0), partial = *y;
    partial.data = x->workspace;
    for (int k = 1; k < x->n_in || (k == 1 && x->n_in == 1); k++) {
        mp_array second = k < x->n_in ? operand(x, s, k) : first;
        const mp_array *in[] = {&first, &second}, *to = k + 1 < x->n_in ? &partial : y;
        if (x->n_in == 1) /* with a single operand, Sum, Mean, Max and Min copy the operand */
            s->engine->floats(MP_FORMULA_maximum, s->parameters, in, 2, to);
        else if (s->whole)
            s->engine->whole(s->whole, s->parameters, in, 2, to);
        else
            s->engine->floats(s->b->forward, s->parameters, in, 2, to);
        first = partial;
    }
    if ((s->b->traits & AVERAGES) && x->n_in > 1) {
        const mp_array *in[] = {y};
        s->engine->floats(MP_FORMULA_scale, s->parameters, in, 1, y);
    }
    return s->engine->end(err);
}

/* Returns the array that receives the gradient of operand i, a sum of terms. The array has the shape in which operand i is
 * broadcast (see_operands). */
static mp_array target_of(const mp_operands *x, const state *s, int i)
{
    mp_array d = s->operands[i];
    d.dtype = x->d_in[i].dtype;
    d.data = x->d_in[i].data;
    return d;
}

static mp_array terms_of(const mp_operands *x, mp_dtype dtype)
{
    mp_array t = x->d_out[0];
    t.dtype = dtype;
    t.data = x->workspace;
    return t;
}

/* True if writing d would overwrite dy, y or an input, because d has the same address. Later gradients of the node may read
 * these tensors. */
static bool spoils(const mp_operands *x, const mp_array *d)
{
    bool spoils = d->data == x->d_out[0].data || d->data == x->out[0].data;
    for (int k = 0; k < x->n_in; k++) spoils |= d->data == x->in[k].data;
    return spoils;
}

/* True for Max and Min with three or more operands. All operands that equal the result share its gradient, so their number
 * must be counted. */
static bool counts_ties(const state *s, const mp_operands *x)
{
    return (s->b->traits & PICKS) && x->n_in > 2;
}

/* Returns an array in the workspace: for the recomputed result (k = 0), or for the number of operands that equal the result (k
 * = 1). */
static mp_array tie_slot(const state *s, const mp_operands *x, int k)
{
    mp_array slot = terms_of(x, x->d_out[0].dtype);
    slot.data = (char *)x->workspace + s->ties_at + k * s->slot_bytes;
    return slot;
}

static void count_ties(const state *s, const mp_operands *x)
{
    const mp_array result = tie_slot(s, x, 0), count = tie_slot(s, x, 1), first = operand(x, s, 0);
    const mp_array *is_first[] = {&first, &result};
    for (int k = 1; k < x->n_in; k++) {
        const mp_array next = operand(x, s, k), *in[] = {k > 1 ? &result : &first, &next};
        s->engine->floats(s->b->forward, s->parameters, in, 2, &result);
    }
    s->engine->floats(MP_FORMULA_equal, s->parameters, is_first, 2, &count);
    for (int k = 1; k < x->n_in; k++) {
        const mp_array next = operand(x, s, k), *in[] = {&count, &next, &result};
        s->engine->floats(MP_FORMULA_count_equal, s->parameters, in, 3, &count);
    }
}

/* Computes the terms of operand i's gradient, in the output's shape. */
static void run_terms(const state *s, const mp_operands *x, int i, const mp_array *to)
{
    const mp_array *g = &x->d_out[0];
    const bool ties = counts_ties(s, x);
    const mp_array a = operand(x, s, ties ? i : 0), b = ties ? tie_slot(s, x, 1) : operand(x, s, x->n_in > 1 ? 1 : 0);
    const mp_array y = ties ? tie_slot(s, x, 0) : x->out[0];
    const mp_array *in[] = {g, a.data ? &a : g, b.data ? &b : g, y.data ? &y : g};
    mp_formula f = s->b->gradient[i < 1 ? 0 : 1];
    if (s->b->traits & PICKS && x->n_in != 2) f = ties ? MP_FORMULA_share : MP_FORMULA_pass;
    s->engine->floats(f, s->parameters, in, 4, to);
}

/* Computes the requested gradients. If a gradient would overwrite a tensor that later gradients of the node read, it stays in
 * the workspace until all gradients are computed. A later gradient with the same address also stays there until then. */
static mp_status run_backward(const mp_call *call, const mp_operands *x, mp_error *err)
{
    const state *s = call->state;
    mp_array waiting[64];
    int waits_for[64], n_waiting = 0;
    void *sums = (char *)x->workspace + s->sums_at;
    if (counts_ties(s, x)) count_ties(s, x);
    for (int i = x->from; i < x->to; i++) {
        if (!x->d_in[i].dtype) continue;
        mp_array d = target_of(x, s, i), terms = terms_of(x, d.dtype);
        bool whole = same_shape(&d, &x->d_out[0]), add = x->adds & call->adds & MP_BIT(i), later = false;
        for (int j = i + 1; j < x->to; j++) later |= x->d_in[j].dtype != MP_DTYPE_UNDEFINED;
        bool waits = later && spoils(x, &d);
        for (int k = 0; k < n_waiting; k++) waits |= x->d_in[waits_for[k]].data == d.data;
        terms.data = (char *)x->workspace + n_waiting * s->slot_bytes;
        if ((s->b->traits & ADDS) && !whole) {
            s->engine->sum_to(&x->d_out[0], &d, 1, add, sums);
        } else if (whole && !waits) {
            run_terms(s, x, i, &d);
        } else {
            run_terms(s, x, i, &terms);
            if (waits) {
                waits_for[n_waiting] = i;
                waiting[n_waiting++] = terms;
            } else {
                s->engine->sum_to(&terms, &d, 1, add, sums);
            }
        }
    }
    for (int k = 0; k < n_waiting; k++) {
        mp_array d = target_of(x, s, waits_for[k]);
        s->engine->sum_to(&waiting[k], &d, 1, x->adds & call->adds & MP_BIT(waits_for[k]), sums);
    }
    return s->engine->end(err);
}

/* Determines the shapes in which the inputs are broadcast, including the axis attributes of old operator sets, and PRelu's
 * slope. */
static mp_status see_operands(const mp_operands *x, state *s, mp_error *err)
{
    MP_ENSURE(s->pool = mp_pool_new(), err, MP_NOMEM, "out of memory");
    MP_ENSURE(s->operands = mp_pool_alloc(s->pool, (size_t)x->n_in, sizeof *s->operands), err, MP_NOMEM, "out of memory");
    for (int k = 0; k < x->n_in; k++) {
        mp_array *a = &s->operands[k];
        *a = x->in[k];
        a->data = NULL;
        /* before operator set 7, a slope per channel did not follow the usual rules of broadcasting */
        bool slopes = (s->b->traits & SLOPES) && k == 1 && x->op->version < 7 && a->rank == 1 && x->in[0].rank > 2 &&
                      a->dims[0] == x->in[0].dims[1];
        for (int d = 1; slopes && d < x->in[0].rank - 1; d++) a->dims[d] = 1;
        if (slopes) a->rank = x->in[0].rank - 1;
        if (slopes || k != 1 || x->op->version >= 7 || a->rank >= x->in[0].rank || !mp_operator_int(x->op, "broadcast", 0))
            continue;
        int64_t axis = mp_operator_int(x->op, "axis", x->in[0].rank - a->rank);
        if (axis < 0) axis += x->in[0].rank;
        for (int d = a->rank; d < x->in[0].rank - axis; d++) {
            a->dims[d] = 1;
            a->strides[d] = 0;
        }
        a->rank = x->in[0].rank - (int)axis;
    }
    return MP_OK;
}

mp_status mp_binary_prepare(const mp_engine *engine, const mp_operands *x, mp_call *call, mp_error *err)
{
    const binary *b = find(x->op);
    mp_dtype dtype = x->in[0].dtype;
    for (int k = 0; k < x->n_in; k++)
        if (!mp_elementwise_knows(x->in[k].dtype) || x->in[k].dtype == MP_DTYPE_DOUBLE) return MP_NO_KERNEL(x, err, "its type");
    MP_STATE(state, s, call, err);
    call->release = release;
    s->engine = engine;
    s->b = b;
    MP_CHECK(see_operands(x, s, err));
    bool whole = mp_dtype_is_integer(dtype) || dtype == MP_DTYPE_BOOL;
    if (whole || !b->forward) s->whole = b->whole;
    if (whole && !b->whole) return MP_NO_KERNEL(x, err, "its type");
    if ((b->traits & SHIFTS) && !strcmp(mp_operator_text(x->op, "direction", "LEFT"), "RIGHT")) s->whole = MP_WHOLE_shift_right;
    s->parameters[0] = b->traits & AVERAGES ? 1.0 / x->n_in : (double)mp_operator_int(x->op, "fmod", 0);
    call->run = run_forward;
    /* partial results of several operands are stored in the workspace, because y may have the memory of the third operand */
    if (!x->is_backward && x->n_in > 2) call->workspace_bytes = mp_array_bytes(&x->out[0]);
    if (!x->is_backward) return MP_OK;
    call->run = run_backward;
    int n_wanted = 0;
    int64_t sum_bytes = 0;
    s->slot_bytes = (mp_array_bytes(&x->d_out[0]) + 63) / 64 * 64;
    for (int i = x->from; i < x->to; i++) {
        if (!x->d_in[i].dtype) continue;
        bool whole = same_shape(&s->operands[i], &x->d_out[0]);
        n_wanted++;
        if (!whole) call->adds |= x->adds & MP_BIT(i);
        sum_bytes = mp_larger(sum_bytes, engine->sum_workspace_bytes(&x->d_out[0], &s->operands[i]));
        if (!whole && !(b->traits & ADDS)) call->workspace_bytes = s->slot_bytes;
    }
    if (n_wanted > 1) call->workspace_bytes = n_wanted * s->slot_bytes;
    s->ties_at = call->workspace_bytes;
    if (counts_ties(s, x)) call->workspace_bytes += 2 * s->slot_bytes;
    s->sums_at = (call->workspace_bytes + 63) / 64 * 64;
    if (sum_bytes) call->workspace_bytes = s->sums_at + sum_bytes;
    if (n_wanted > 64) return MP_NO_KERNEL(x, err, "this many operands");
    return MP_OK;
}

/* The formulas of a function of x + bias (such as FastGelu or BiasGelu): for calls with a bias and without one. */
typedef struct biased {
    const char *kind;
    mp_formula with, with_slope, alone, alone_slope;
} biased;

static const biased biased_functions[] = {
    {"FastGelu", MP_FORMULA_biased_tanh_gelu, MP_FORMULA_biased_tanh_gelu_slope, MP_FORMULA_tanh_gelu,
     MP_FORMULA_tanh_gelu_slope},
    {"BiasGelu", MP_FORMULA_biased_gelu, MP_FORMULA_biased_gelu_slope, MP_FORMULA_gelu, MP_FORMULA_gelu_slope},
};

/* State of Where and of functions of x + bias. The workspace holds the terms of up to two gradients, then memory for their
 * sums. */
typedef struct terms_state {
    const mp_engine *engine;
    const biased *b; /* the function of x + bias; NULL: the operator is Where */
    int64_t slot_bytes, sums_at;
} terms_state;

static mp_status prepare_terms(const mp_engine *engine, const mp_operands *x, int n_slots, mp_call *call, mp_error *err)
{
    int64_t sum_bytes = 0;
    terms_state *s = mp_alloc(1, sizeof *s);
    MP_ENSURE(s, err, MP_NOMEM, "out of memory");
    call->state = s;
    s->engine = engine;
    if (!x->is_backward) return MP_OK;
    call->adds = x->adds;
    s->slot_bytes = (mp_array_bytes(&x->d_out[0]) + 63) / 64 * 64;
    s->sums_at = n_slots * s->slot_bytes;
    for (int i = x->from; i < x->to; i++)
        if (x->d_in[i].dtype) sum_bytes = mp_larger(sum_bytes, engine->sum_workspace_bytes(&x->d_out[0], &x->d_in[i]));
    call->workspace_bytes = s->sums_at + sum_bytes;
    return MP_OK;
}

static void sum_terms(const mp_call *call, const mp_operands *x, const mp_array *terms, int i)
{
    const terms_state *s = call->state;
    s->engine->sum_to(terms, &x->d_in[i], 1, x->adds & call->adds & MP_BIT(i), (char *)x->workspace + s->sums_at);
}

/* Runs y = Where(condition, a, b). */
static mp_status run_where(const mp_call *call, const mp_operands *x, mp_error *err)
{
    const terms_state *s = call->state;
    const double none[MP_FORMULA_PARAMETERS] = {0};
    const mp_array *in[] = {&x->in[0], &x->in[1], &x->in[2]};
    if (mp_dtype_is_float(x->out[0].dtype))
        s->engine->floats(MP_FORMULA_choose, none, in, 3, &x->out[0]);
    else
        s->engine->whole(MP_WHOLE_choose, none, in, 3, &x->out[0]);
    return s->engine->end(err);
}

static mp_status run_where_backward(const mp_call *call, const mp_operands *x, mp_error *err)
{
    const terms_state *s = call->state;
    const mp_array *g = &x->d_out[0], *in[] = {g, &x->in[0], g, g};
    mp_array terms[2] = {terms_of(x, g->dtype), terms_of(x, g->dtype)};
    terms[1].data = (char *)x->workspace + s->slot_bytes;
    /* the terms of both gradients are computed before either gradient is written, because a gradient may overwrite dy */
    for (int pass = 0; pass < 2; pass++)
        for (int k = 0; k < 2; k++) {
            const double first[MP_FORMULA_PARAMETERS] = {k == 0};
            if (k + 1 < x->from || k + 1 >= x->to || !x->d_in[k + 1].dtype) continue;
            if (pass)
                sum_terms(call, x, &terms[k], k + 1);
            else
                s->engine->floats(MP_FORMULA_chosen, first, in, 4, &terms[k]);
        }
    return s->engine->end(err);
}

mp_status mp_where_prepare(const mp_engine *engine, const mp_operands *x, mp_call *call, mp_error *err)
{
    if (!mp_elementwise_knows(x->in[1].dtype)) return MP_NO_KERNEL(x, err, "its type");
    call->run = x->is_backward ? run_where_backward : run_where;
    return prepare_terms(engine, x, 2, call, err);
}

/* Runs a function of x + bias, or computes its gradients. The gradients of x and of the bias have the same terms. */
static mp_status run_biased(const mp_call *call, const mp_operands *x, mp_error *err)
{
    const terms_state *s = call->state;
    const double none[MP_FORMULA_PARAMETERS] = {0};
    const mp_array *bias = x->n_in > 1 && x->in[1].dtype ? &x->in[1] : NULL, *g = x->d_out;
    if (!x->is_backward) {
        const mp_array *in[] = {&x->in[0], bias};
        s->engine->floats(bias ? s->b->with : s->b->alone, none, in, bias ? 2 : 1, &x->out[0]);
        return s->engine->end(err);
    }
    const mp_array *in[] = {g, &x->in[0], bias, g};
    mp_array terms = terms_of(x, g->dtype);
    s->engine->floats(bias ? s->b->with_slope : s->b->alone_slope, none, in, bias ? 4 : 2, &terms);
    for (int i = x->from; i < x->to; i++)
        if (x->d_in[i].dtype) sum_terms(call, x, &terms, i);
    return s->engine->end(err);
}

mp_status mp_biased_prepare(const mp_engine *engine, const mp_operands *x, mp_call *call, mp_error *err)
{
    if (!mp_is_real(x->in[0].dtype)) return MP_NO_KERNEL(x, err, "its type");
    MP_CHECK(prepare_terms(engine, x, 1, call, err));
    terms_state *s = call->state;
    for (size_t k = 0; k < sizeof biased_functions / sizeof *biased_functions; k++)
        if (!strcmp(biased_functions[k].kind, x->op->op->name)) s->b = &biased_functions[k];
    call->run = run_biased;
    return MP_OK;
}
