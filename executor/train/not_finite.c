/* not_finite.c - repeats a training that produced infinities or NaNs, and inspects operands to find the origin. */
#include "executor/train/not_finite.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "executor/data/inputs.h"
#include "executor/data/parameters.h"
#include "executor/program/program_nodes.h"
#include "executor/train/state.h"

enum { WATCHED = 2 }; /* number of training steps to inspect before the failed one; the origin is usually in the last of them */

/* Finds the first parameter or buffer with a value that is not finite; -1: none. */
static mp_status find_bad(mp_execution *e, mp_watch *w, int *found, mp_error *err)
{
    const mp_program *p = w->program;
    *found = -1;
    for (size_t t = 0; t < p->model->n_tensors && *found < 0; t++) {
        const mp_tensor *x = &p->model->tensors[t];
        const bool kept = x->role == MP_ROLE_PARAMETER || x->role == MP_ROLE_BUFFER;
        int64_t n_bad;
        bool has_nan;
        mp_array a;
        mp_range own;
        const int storage = p->bindings->storage[t];
        if (x->producer >= 0 || storage < 0 || !kept) continue;
        char *part = mp_execution_part(e, (int)t, &own);
        if (!part && !mp_storage_is_static(&p->graph->storages[storage])) continue;
        if (part) {
            a = mp_array_plain(p->bindings->dtype[t], 1, &own.n);
            a.data = part;
        } else {
            MP_CHECK(mp_execution_tensor(e, (int)t, &a, err));
        }
        MP_CHECK(mp_watch_count(w, &a, &n_bad, &has_nan, err));
        if (has_nan || (n_bad && x->role != MP_ROLE_BUFFER))
            *found = (int)t; /* an infinity is an error only in a parameter: buffers may contain constant masks of -inf */
    }
    return MP_OK;
}

mp_status mp_check_finite(mp_execution *e, const mp_program *program, int64_t step, mp_error *err)
{
    MP_CLEARED_BY(mp_watch_end) mp_watch w = {0};
    int bad;
    mp_watch_begin(&w, program);
    MP_CHECK(find_bad(e, &w, &bad, err));
    MP_ENSURE(bad < 0, err, MP_REFUTED, "'%s' is not finite after step %" PRId64, program->model->tensors[bad].name, step);
    return MP_OK;
}

typedef struct repetition {
    const mp_train_request *request;
    mp_execution *execution;
    mp_input_filler filler;
    mp_watch watch;
    bool watching;
    int bad_start; /* index of a tensor that was not finite before the first inspected step; -1: none */
    bool has_fault;
    char fault[MP_FEED_FAULT_TEXT]; /* description of a data value that makes the loss infinite or NaN; "": none */
    int64_t bad_step;
} repetition;

static mp_status fill(void *data, int64_t micro_batch, mp_execution *e, mp_error *err)
{
    repetition *r = data;
    mp_status st = mp_inputs_fill(&r->filler, micro_batch, e, err);
    if (st == MP_OK && r->watching && !r->has_fault) r->has_fault = mp_feed_find_fault(r->request->feed, micro_batch, r->fault);
    return st;
}

/* Repeats the training steps up to step `failed`, and inspects each from step `from` on. Stops after a step that leaves a
 * parameter or buffer with a value that is not finite. */
static mp_status repeat(repetition *r, const char *state, int64_t from, int64_t failed, mp_error *err)
{
    const mp_train_request *t = r->request;
    mp_execution_options options = t->execution;
    int64_t step = 0;
    int bad = -1;
    options.by_call = options.profile = true; /* the inspection needs calls in the order of the plan on one stream */
    r->bad_start = -1;
    mp_watch_begin(&r->watch, t->program);
    MP_CHECK(mp_execution_new(t->program, t->plan, &options, &r->execution, err));
    MP_CHECK(mp_parameters_load(t->parameters, t->program, r->execution, err));
    if (state) MP_CHECK(mp_state_resume(state, t->program, r->execution, &options, &step, err));
    MP_CHECK(mp_input_filler_new(t->program, t->feed, &r->filler, err));
    for (bool ended = false; step <= failed && !ended; step++) {
        double loss;
        if (step >= from && !r->watching) {
            MP_CHECK(find_bad(r->execution, &r->watch, &r->bad_start, err));
            if (r->bad_start >= 0) return MP_OK;
            r->watching = true;
            mp_execution_watch(r->execution, &r->watch);
        }
        r->bad_step = step;
        MP_CHECK(mp_execution_step(r->execution, step, fill, r, &loss, err));
        if (!r->watching) continue;
        MP_CHECK(find_bad(r->execution, &r->watch, &bad, err));
        ended = bad >= 0 || !isfinite(loss) || r->has_fault || r->watch.first_nan.node >= 0;
        /* after the step all parameters are finite, so an infinity inside the step was no failure: its origin is discarded */
        if (!ended) r->watch.first.node = -1;
    }
    if (!(r->watch.first.node >= 0 || r->has_fault)) MP_CHECK(mp_execution_flush(r->execution, err));
    return MP_OK;
}

static void repetition_free(repetition *r)
{
    mp_input_filler_free(&r->filler);
    mp_execution_free(r->execution);
    mp_watch_end(&r->watch);
    *r = (repetition){.request = r->request};
}

static void add(mp_error *err, const char *text)
{
    const size_t length = strlen(err->message);
    snprintf(err->message + length, sizeof err->message - length, "%s", text);
}

static void add_fault(const char *fault, int64_t step, mp_error *err)
{
    char text[MP_FEED_FAULT_TEXT + 64];
    snprintf(text, sizeof text, "; %s, in step %" PRId64, fault, step + 1);
    add(err, text);
}

static void add_origin(const repetition *r, const mp_origin *o, const char *what, mp_error *err)
{
    const mp_program *p = r->request->program;
    const mp_binding *b = mp_program_binding(p, o->node);
    const unsigned loss_of_classes = MP_TRAIT_LOSS | MP_TRAIT_CLASSES;
    const bool is_mean_of_none =
        o->is_nan && b->op >= 0 && (p->model->operators[b->op].op->traits & loss_of_classes) == loss_of_classes;
    const int n = p->options.accumulate > 1 ? p->options.accumulate : 1;
    char text[400];
    static const char *const phases[] = {"forward", "backward", "backward", "clipping", "the update"};
    snprintf(text, sizeof text, "%s: %s in %" PRId64 " of %" PRId64 " elements of %s'%s', by %s%s%s%s in %s of step %" PRId64,
             what, o->is_nan ? "nan" : "inf", o->n_bad, o->n, o->is_gradient ? "the gradient of " : "",
             p->model->tensors[o->tensor].name, b->op < 0 ? "the optimizer" : p->model->operators[b->op].kind,
             b->op < 0 ? "" : " '", b->op < 0 ? "" : p->model->operators[b->op].name, b->op < 0 ? "" : "'", phases[b->task],
             o->pass / n + 1);
    add(err, text);
    if (is_mean_of_none) add(err, ": all its labels are ignored or have the weight 0, so its mean has no terms");
}

static void tell(const repetition *r, mp_error *err)
{
    const mp_watch *w = &r->watch;
    const mp_model *m = r->request->program->model;
    char text[400];
    if (r->has_fault) {
        add_fault(r->fault, r->bad_step, err);
    } else if (r->bad_start >= 0) {
        snprintf(text, sizeof text, "; '%s' is not finite before step %" PRId64, m->tensors[r->bad_start].name,
                 r->bad_step + 1);
        add(err, text);
    } else if (w->first.node >= 0 || w->first_nan.node >= 0) {
        const mp_origin *first = w->first.node >= 0 ? &w->first : &w->first_nan;
        add_origin(r, first, "; first not finite", err);
        if (!first->is_nan && w->first_nan.node >= 0) add_origin(r, &w->first_nan, ", then", err);
    } else {
        add(err, "; it did not occur again when the steps were repeated");
    }
}

void mp_explain_data(const mp_train_request *request, int64_t failed, mp_error *err)
{
    const int n = request->program->options.accumulate > 1 ? request->program->options.accumulate : 1;
    const int64_t from = failed > WATCHED ? failed - WATCHED : 0;
    char fault[MP_FEED_FAULT_TEXT];
    for (int64_t batch = from * n; err && batch < (failed + 1) * n; batch++) {
        if (!mp_feed_find_fault(request->feed, batch, fault)) continue;
        add_fault(fault, batch / n, err);
        return;
    }
}

void mp_explain_not_finite(const mp_train_request *request, const char *state, int64_t failed, mp_error *err)
{
    mp_error own = {0};
    repetition r = {.request = request};
    int64_t from = failed > WATCHED ? failed - WATCHED : 0;
    if (!err) return;
    mp_status st = repeat(&r, state, from, failed, &own);
    if (st == MP_OK && r.bad_start >= 0 && from > 0) {
        repetition_free(&r);
        st = repeat(&r, state, 0, failed, &own);
    }
    if (st == MP_OK) tell(&r, err);
    repetition_free(&r);
}
