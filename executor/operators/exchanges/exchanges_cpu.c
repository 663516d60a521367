/* exchanges_cpu.c - the exchanges of operators that are split over ranks (estimator/parallel/split.h), on the CPU: sums,
 * gathers of parts, and splits into parts.
 *
 * If the part of each rank is one contiguous run of the tensor, ranks send from the tensor and receive into it directly.
 * Otherwise the parts are packed one after the other in the workspace. */
#include <string.h>

#include "executor/cpu/base/families.h"
#include "executor/cpu/base/parallel.h"

typedef enum form {
    COPY,    /* no exchange: input and output have the same distribution over ranks, so the data are copied */
    SUM,     /* all-reduce: all ranks receive the sum over the ranks */
    GATHER,  /* all-gather: each rank receives the whole tensor from the shards of all ranks */
    SCATTER, /* reduce-scatter: each rank receives its shard of the sum over the ranks */
    TAKE     /* slice: this rank's part of a tensor that it holds as a whole, without exchange */
} form;

static const struct row {
    const char *kind;
    form forward, backward;
} rows[] = {{"AllReduce", SUM, COPY},   {"Replicate", COPY, SUM},           {"AllGather", GATHER, SCATTER},
            {"Assemble", GATHER, TAKE}, {"ReduceScatter", SCATTER, GATHER}, {"TakePart", TAKE, GATHER}};

typedef struct exchange {
    form form;
    mp_dtype dtype;
    int64_t element, whole, ranks; /* element: bytes per element; whole: number of elements of the whole tensor */
    int64_t run,
        /* run: number of elements of a contiguous piece that one rank holds; blocks: number of blocks of the whole tensor, each
         * with one such piece per rank */
        blocks;
} exchange;

/* True if both arrays are dense, with their dimensions in the same order. */
static bool is_dense_alike(const mp_array *part, const mp_array *whole)
{
    int order[MP_ARRAY_RANK];
    int64_t of_part = 1, of_whole = 1;
    if (part->packed || whole->packed || part->rank != whole->rank || part->dtype != whole->dtype) return false;
    for (int k = mp_array_by_stride(whole, order); k-- > 0;) {
        const int d = order[k];
        if (whole->strides[d] != of_whole || (part->dims[d] != 1 && part->strides[d] != of_part)) return false;
        of_part *= part->dims[d];
        of_whole *= whole->dims[d];
    }
    return true;
}

static const mp_array *from_of(const mp_operands *x)
{
    return x->is_backward ? &x->d_out[0] : &x->in[0];
}

static const mp_array *to_of(const mp_operands *x)
{
    return x->is_backward ? &x->d_in[0] : &x->out[0];
}

static int64_t workspace_of(const exchange *s)
{
    const int64_t received = mp_sum_workspace(s->ranks, s->whole, s->element),
                  packed = s->blocks > 1 ? s->whole * s->element : 0;
    if (s->form == SUM) return received;
    return s->form == SCATTER ? received + packed : s->form == GATHER ? packed : 0;
}

/* Copies the contiguous pieces of this rank from the whole tensor to its shard, or back (into_whole). */
static void deal(const exchange *s, int rank, char *whole, char *part, bool into_whole)
{
    const int64_t bytes = s->run * s->element;
    for (int64_t b = 0; b < s->blocks; b++) {
        char *in_whole = whole + (b * s->ranks + rank) * bytes, *in_part = part + b * bytes;
        memcpy(into_whole ? in_whole : in_part, into_whole ? in_part : in_whole, (size_t)bytes);
    }
}

static mp_status gather(const exchange *s, const mp_operands *x, mp_error *err)
{
    const mp_kernel_group *group = x->run.group;
    const int64_t bytes = s->run * s->blocks * s->element;
    char *whole = to_of(x)->data, *packed = s->blocks > 1 ? x->workspace : whole;
    MP_CHECK(group->gather(group, from_of(x)->data, bytes, packed, err));
    for (int r = 0; packed != whole && r < s->ranks; r++) deal(s, r, whole, packed + r * bytes, true);
    return MP_OK;
}

static mp_status scatter(const exchange *s, const mp_operands *x, mp_error *err)
{
    const mp_kernel_group *group = x->run.group;
    const int64_t n = s->run * s->blocks;
    char *whole = from_of(x)->data, *room = x->workspace, *packed = whole;
    if (s->blocks > 1) {
        packed = room + mp_sum_workspace(s->ranks, s->whole, s->element);
        for (int r = 0; r < s->ranks; r++) deal(s, r, whole, packed + r * n * s->element, false);
    }
    return group->scatter(group, s->dtype, packed, n, room, to_of(x)->data, err);
}

static mp_status run(const mp_call *call, const mp_operands *x, mp_error *err)
{
    const exchange *s = call->state;
    const mp_kernel_group *group = x->run.group;
    char *from = from_of(x)->data, *to = to_of(x)->data;
    switch (s->form) {
    case GATHER:
        return gather(s, x, err);
    case SCATTER:
        return scatter(s, x, err);
    case TAKE:
        deal(s, group->index, from, to, false);
        return MP_OK;
    default:
        if (from != to) memcpy(to, from, (size_t)(s->whole * s->element));
        return s->form == SUM ? group->sum(group, s->dtype, to, s->whole, x->workspace, err) : MP_OK;
    }
}

static mp_status prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    const mp_array *from = from_of(x), *to = to_of(x);
    MP_STATE(exchange, s, call, err);
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        if (!strcmp(rows[k].kind, x->op->kind)) s->form = x->is_backward ? rows[k].backward : rows[k].forward;
    const mp_array *part = s->form == GATHER ? from : to, *whole = s->form == GATHER ? to : from;
    const int64_t axis = mp_operator_int(x->op, "axis", -1);
    if (!is_dense_alike(part, whole)) return MP_NO_KERNEL(x, err, "a change of layout between ranks");
    if (!mp_is_real(from->dtype) && (s->form == SUM || s->form == SCATTER)) return MP_NO_KERNEL(x, err, "its type");
    s->dtype = from->dtype;
    s->element = mp_dtype_bits(from->dtype) / 8;
    s->whole = mp_array_elements(whole);
    s->ranks = mp_operator_int(x->op, "ranks", 1);
    s->blocks = 1;
    if (s->form != COPY && s->form != SUM) {
        s->run = part->dims[axis] / mp_operator_int(x->op, "outer", 1) * part->strides[axis];
        s->blocks = s->run ? mp_array_elements(part) / s->run : 0;
    }
    call->workspace_bytes = workspace_of(s);
    call->run = run;
    return MP_OK;
}

#define ROW(kind) {kind, "memplan", prepare, prepare},
const mp_kernel mp_cpu_exchanges[] = {ROW("AllReduce") ROW("Replicate") ROW("AllGather") ROW("Assemble") ROW("ReduceScatter")
                                          ROW("TakePart"){0}};
