/* simplify.c - repeats the passes until nothing changes; removes known values and dead operators; replaces operators that need
 * a separate row in ops.def. */
#include "memplan/simplify.h"

#include <string.h>

#include "estimator/model/order.h"
#include "estimator/simplify/rewrite.h"

/* Maximum number of rounds of simplification. Models need two to four. Without this limit, a hostile file could require one
 * round per operator. */
enum { ROUNDS_MAX = 64 };

/* True if all outputs of the operator are known values. Constants of the file count as known even if they are too large to
 * be stored. */
static bool is_known(const mp_model *model, const mp_operator *op)
{
    if (op->op && op->op->max_in == 0 && !(op->op->traits & MP_TRAIT_RANDOM)) return true;
    for (int k = 0; k < op->n_out; k++)
        if (op->out[k] >= 0 && !model->tensors[op->out[k]].value) return false;
    return true;
}

mp_status mp_rewrite_known_value(mp_rewriter *r, int index)
{
    const mp_operator *op = &r->model->operators[index];
    if (!is_known(r->model, op)) return MP_OK;
    mp_rewriter_remove(r, index);
    for (int k = 0; k < op->n_out; k++)
        if (op->out[k] >= 0) r->model->tensors[op->out[k]].role = MP_ROLE_CONSTANT;
    r->changes++;
    return MP_OK;
}

/* Omits optional outputs that nothing reads: a dropout's mask, updated statistics. */
static void leave_out_unread(mp_rewriter *r, mp_operator *op)
{
    if (!op->op || op->op->max_out < 0) return;
    for (int k = op->op->min_out; k < op->n_out; k++) {
        if (op->out[k] < 0 || r->n_readers[op->out[k]] || mp_op_gradient_reads_output(op->op, k)) continue;
        r->model->tensors[op->out[k]].producer = -1;
        op->out[k] = -1;
    }
}

/* Removes operators whose results nothing reads. Visits operators from last to first, so that one pass removes whole chains. */
mp_status mp_rewrite_dead(mp_rewriter *r)
{
    for (size_t index = r->model->n_operators; index-- > 0;) {
        mp_operator *op = &r->model->operators[index];
        bool is_read = false;
        if (op->removed) continue;
        for (int k = 0; k < op->n_out; k++) is_read |= op->out[k] >= 0 && r->n_readers[op->out[k]];
        if (is_read) {
            leave_out_unread(r, op);
            continue;
        }
        mp_rewriter_remove(r, (int)index);
        r->changes++;
    }
    return MP_OK;
}

mp_status mp_model_simplify(mp_model *model, mp_rules rules, bool all, mp_simplify_report *report, mp_error *err)
{
    mp_simplify_report done_so_far = {0};
    MP_OWNED int *n_readers = mp_alloc(model->n_tensors, sizeof *n_readers);
    mp_rewriter r = {.model = model, .n_readers = n_readers, .rules = rules, .err = err};
    const struct pass {
        mp_rewrite_rule each;
        mp_status (*whole)(mp_rewriter *r);
        int *count;
        bool wanted;
    } passes[] = {
#define EACH(name, counted, when) {mp_rewrite_##name, NULL, &done_so_far.counted, when},
#define WHOLE(name, counted, when) {NULL, mp_rewrite_##name, &done_so_far.counted, when},
        MP_PASSES(EACH, WHOLE)
#undef EACH
#undef WHOLE
    };
    int changes, round = 0;
    MP_ENSURE(n_readers, err, MP_NOMEM, "no memory to simplify %zu tensors", model->n_tensors);
    do {
        changes = 0;
        for (size_t k = 0; k < sizeof passes / sizeof *passes; k++) {
            if (!passes[k].wanted) continue;
            mp_rewriter_start(&r);
            MP_CHECK(passes[k].each ? mp_rewriter_each(&r, passes[k].each) : passes[k].whole(&r));
            *passes[k].count += r.changes;
            changes += r.changes;
        }
    } while (changes && ++round < ROUNDS_MAX);
    mp_rewriter_start(&r);
    MP_CHECK(mp_model_sort(model, err));
    if (report) *report = done_so_far;
    return MP_OK;
}

/* If the gradient of an operator reads more than usual for its type, the operator is moved to the domain `memplan`.
 *
 * A row of ops.def has one list of needs, so such operators have a second row with the same name. There are three cases:
 *
 * - Scatter with max, min or mul: its gradient reads more than the indices.
 * - Activations with a negative slope or alpha: the output does not determine the sign of the input.
 * - Clip with computed bounds: an element equal to a bound shares its gradient with the bound. */

static bool keeps_one(const mp_rewriter *r, const mp_operator *op)
{
    (void)r;
    const char *reduction = mp_operator_text(op, "reduction", "none");
    return !strcmp(reduction, "max") || !strcmp(reduction, "min") || !strcmp(reduction, "mul");
}

static bool has_negative_factor(const mp_rewriter *r, const mp_operator *op)
{
    (void)r;
    return mp_operator_float(op, "alpha", 1) < 0 || mp_operator_float(op, "gamma", 1) < 0;
}

static bool has_computed_bound(const mp_rewriter *r, const mp_operator *op)
{
    double c;
    bool computed = false;
    for (int k = 1; k < op->n_in; k++) computed |= op->in[k] >= 0 && !mp_known_scalar(r, op->in[k], &c);
    return computed;
}

static const struct row {
    const char *kind;
    bool (*is_apart)(const mp_rewriter *r, const mp_operator *op);
} rows[] = {{"ScatterElements", keeps_one}, {"ScatterND", keeps_one},      {"LeakyRelu", has_negative_factor},
            {"Elu", has_negative_factor},   {"Selu", has_negative_factor}, {"Clip", has_computed_bound}};

mp_status mp_rewrite_apart(mp_rewriter *r, int index)
{
    const mp_operator *op = &r->model->operators[index];
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        if (!mp_is_kind(op, rows[k].kind) || !rows[k].is_apart(r, op)) continue;
        mp_operator_draft draft = mp_draft_like(op, op->in, op->n_in);
        draft.domain = "memplan";
        MP_CHECK(mp_rewriter_become(r, index, &draft));
        r->changes++;
        break;
    }
    return MP_OK;
}
