/* control.c - executes the region of an If in place, and copies the regions of loops. Adds, removes or refuses operators.
 *
 * A copy is made operator by operator, and each copied operator is inferred at once. So a condition in the body is known
 * when a later operator reads it. Tensors from outside the region, such as parameters and constants, are not copied: all
 * iterations read the same tensors. */
#include "estimator/simplify/control/control.h"

#include <string.h>

#include "estimator/model/model.h"
#include "estimator/model/ops.h"
#include "estimator/model/refused_kinds.h"

static const mp_op *row_of(const mp_operator *op)
{
    return mp_op_find(strcmp(op->domain, "ai.onnx") ? op->domain : "", op->kind, op->version);
}

static bool lacks_row(const mp_operator *op)
{
    return !op->removed && !op->control && !mp_is_sequence_operator(op) && !mp_is_attention_operator(op) && !row_of(op);
}

static mp_status refuse_kinds(const mp_refused_kinds *refused, mp_error *err)
{
    char text[MP_REFUSED_TEXT];
    return MP_FAIL(err, MP_UNSUPPORTED, "the model has operators that are not supported: %s; the first one is node '%.120s'",
                   mp_refused_kinds_text(refused, text), refused->kinds[0].node);
}

/* True if the region is a branch of an If, or nested in such a branch. */
static bool is_conditional(const mp_model *model, const bool *is_branch, int region)
{
    for (; region; region = model->regions[region].outer)
        if (is_branch[region]) return true;
    return false;
}

mp_status mp_model_check_supported(const mp_model *model, mp_error *err)
{
    mp_refused_kinds refused = {.n_kinds = 0};
    MP_OWNED bool *is_branch = mp_alloc(model->n_regions + 1, sizeof *is_branch);
    MP_ENSURE(is_branch, err, MP_NOMEM, "no memory for %zu subgraphs", model->n_regions);
    for (size_t k = 0; k < model->n_operators; k++)
        if (model->operators[k].regions[1])
            is_branch[model->operators[k].regions[0]] = is_branch[model->operators[k].regions[1]] = true;
    for (size_t k = 0; k < model->n_operators; k++) {
        const mp_operator *op = &model->operators[k];
        if (lacks_row(op) && !is_conditional(model, is_branch, op->region)) mp_refused_kinds_add(&refused, op);
    }
    if (refused.n_kinds) MP_CHECK(refuse_kinds(&refused, err));
    return MP_OK;
}

/* Fails if the chosen branch of an If contains an operator that the registry lacks. list[0..n) are the operators of the
 * branch. */
static mp_status check_branch(const mp_model *model, const int *list, size_t n, mp_error *err)
{
    mp_refused_kinds refused = {.n_kinds = 0};
    for (size_t k = 0; k < n; k++)
        if (lacks_row(&model->operators[list[k]])) mp_refused_kinds_add(&refused, &model->operators[list[k]]);
    return refused.n_kinds ? refuse_kinds(&refused, err) : MP_OK;
}

mp_status mp_operator_find_row(mp_operator *op, mp_error *err)
{
    mp_refused_kinds refused = {.n_kinds = 0};
    op->op = row_of(op);
    if (op->op) return MP_OK;
    mp_refused_kinds_add(&refused, op);
    return refuse_kinds(&refused, err);
}

void mp_inference_remove(mp_inference *w, int index)
{
    mp_operator *op = &w->model->operators[index];
    op->removed = true;
    for (int k = 0; k < op->n_out; k++)
        if (op->out[k] >= 0 && w->model->tensors[op->out[k]].producer == index) w->model->tensors[op->out[k]].producer = -1;
}

mp_status mp_inference_count(mp_inference *w, int64_t n, const char *name)
{
    w->n_unrolled += n;
    MP_ENSURE(w->n_unrolled <= MP_UNROLLED_MAX, w->err, MP_UNSUPPORTED,
              "unrolling takes more than %d operators (MP_UNROLLED_MAX), at '%s'", MP_UNROLLED_MAX, name);
    return MP_OK;
}

mp_status mp_inference_dynamic(const mp_inference *w, const mp_operator *op, const char *what, int tensor)
{
    return MP_FAIL(w->err, MP_UNSUPPORTED,
                   "%s '%s' depends on data: %s '%s' is known only when the step runs (dynamic control flow)", op->kind,
                   op->name, what, w->model->tensors[tensor].name);
}

static mp_status add(mp_inference *w, const mp_operator_draft *draft)
{
    int index;
    MP_CHECK(mp_model_operator(w->model, draft, &index, w->err));
    return w->visit(w, index);
}

mp_status mp_inference_emit(mp_inference *w, mp_operator_draft draft, const char *stem, int *out, int n_out)
{
    MP_CHECK(mp_inference_count(w, n_out, stem));
    for (int k = 0; k < n_out; k++)
        if (out[k] < 0) MP_CHECK(mp_model_fresh_tensor(w->model, stem, &out[k], w->err));
    draft.out = out;
    draft.n_out = n_out;
    return add(w, &draft);
}

mp_status mp_inference_alias(mp_inference *w, int from, int to)
{
    const mp_operator_draft draft = {.kind = "Identity", .version = 1, .in = &from, .out = &to, .n_in = 1, .n_out = 1};
    w->model->tensors[to].sequence = w->model->tensors[from].sequence;
    return w->model->tensors[from].sequence ? MP_OK : add(w, &draft);
}

/* Removes operators of regions whose results nothing reads. Visits them from last to first. The removed operators then need
 * not be sorted before the control operator. */
static mp_status drop_unread(mp_inference *w)
{
    mp_model *model = w->model;
    MP_OWNED bool *is_read = mp_alloc(model->n_tensors, sizeof *is_read);
    if (!is_read) return MP_FAIL(w->err, MP_NOMEM, "no memory for the readers of %zu tensors", model->n_tensors);
    for (size_t k = model->n_operators; k-- > 0;) {
        const mp_operator *op = &model->operators[k];
        bool runs = op->region == 0;
        for (int j = 0; j < op->n_out; j++) runs |= op->out[j] >= 0 && is_read[op->out[j]];
        if (!runs) mp_inference_remove(w, (int)k);
        for (int j = 0; runs && j < op->n_in; j++)
            if (op->in[j] >= 0) is_read[op->in[j]] = true;
    }
    return MP_OK;
}

mp_status mp_control_start(mp_inference *w)
{
    const mp_model *model = w->model;
    if (!model->n_regions) return MP_OK;
    MP_ENSURE(mp_grow(&w->of, &w->of_capacity, model->n_regions, sizeof *w->of), w->err, MP_NOMEM,
              "no memory for %zu subgraphs", model->n_regions);
    MP_CHECK(drop_unread(w));
    for (size_t k = 0; k < model->n_operators; k++) {
        mp_region_operators *of = &w->of[model->operators[k].region];
        if (model->operators[k].removed || !model->operators[k].region) continue;
        MP_ENSURE(mp_grow(&of->list, &of->capacity, of->n + 1, sizeof *of->list), w->err, MP_NOMEM, "no memory for a subgraph");
        of->list[of->n++] = (int)k;
    }
    return MP_OK;
}

void mp_control_free(mp_inference *w)
{
    for (size_t k = 0; k < w->of_capacity; k++) mp_free(w->of[k].list);
    mp_free(w->of);
    mp_free(w->copy_of);
    w->of = NULL;
    w->copy_of = NULL;
}

mp_status mp_control_finish(mp_inference *w)
{
    mp_model *model = w->model;
    MP_OWNED bool *is_read = mp_alloc(model->n_tensors, sizeof *is_read);
    if (!is_read) return MP_FAIL(w->err, MP_NOMEM, "no memory for the readers of %zu tensors", model->n_tensors);
    for (size_t k = 0; k < model->n_operators; k++)
        for (int j = 0; !model->operators[k].removed && j < model->operators[k].n_in; j++)
            if (model->operators[k].in[j] >= 0) is_read[model->operators[k].in[j]] = true;
    for (size_t k = 0; k < model->n_tensors; k++) {
        mp_tensor *t = &model->tensors[k];
        if (t->role != MP_ROLE_PARAMETER || is_read[k] || t->is_output) continue;
        t->role = MP_ROLE_CONSTANT;
        t->role_reason = "an initializer that only branches read that are not taken";
    }
    model->n_regions = 0;
    return MP_OK;
}

void mp_control_drop(mp_inference *w, int region)
{
    mp_region_operators *of = &w->of[region];
    for (size_t k = 0; k < of->n; k++) {
        for (int j = 0; j < 2; j++)
            if (w->model->operators[of->list[k]].regions[j]) mp_control_drop(w, w->model->operators[of->list[k]].regions[j]);
        mp_inference_remove(w, of->list[k]);
    }
    of->n = 0;
}

static mp_status set_copy(mp_inference *w, int tensor, int copy)
{
    if (!mp_grow(&w->copy_of, &w->copy_capacity, (size_t)tensor + 1, sizeof *w->copy_of))
        return MP_FAIL(w->err, MP_NOMEM, "no memory for a copy of '%s'", w->model->tensors[tensor].name);
    w->copy_of[tensor] = copy + 1;
    return MP_OK;
}

static int copied(const mp_inference *w, int tensor)
{
    return tensor >= 0 && (size_t)tensor < w->copy_capacity && w->copy_of[tensor] ? w->copy_of[tensor] - 1 : tensor;
}

/* Returns the name with `prefix` instead of the region's prefix. NULL: out of memory. */
static const char *renamed(mp_inference *w, int region, const char *name, const char *prefix)
{
    const char *old = w->model->regions[region].prefix;
    size_t n = strlen(old);
    bool begins = !strncmp(name, old, n);
    return mp_pool_format(w->model->pool, "%s%s%s", prefix, begins ? "" : "/", begins ? name + n : name);
}

static mp_status copy_tensor(mp_inference *w, int region, int tensor, const char *prefix, int *copy)
{
    const char *name = renamed(w, region, w->model->tensors[tensor].name, prefix);
    MP_ENSURE(name, w->err, MP_NOMEM, "no memory for a copy of '%s'", w->model->tensors[tensor].name);
    MP_CHECK(mp_model_fresh_tensor(w->model, name, copy, w->err));
    return set_copy(w, tensor, *copy);
}

static mp_status copy_region(mp_inference *w, int root, int region, int outer, const char *prefix, int *copy);

/* Adds the bytes of a copied operator to the total of the model. The total is limited, because a loop body may have few but
 * large operators. */
static mp_status count_bytes(mp_inference *w, const mp_operator *op, size_t prefix)
{
    size_t bytes = (strlen(op->name) + prefix) * (size_t)(1 + op->n_out) + (size_t)(op->n_in + op->n_out) * sizeof(int);
    for (size_t k = 0; k < op->n_attributes; k++) {
        const mp_attribute *a = &op->attributes[k];
        bytes += sizeof *a + (a->n + (size_t)(a->value ? a->value->n : 0)) * 8 + (a->text ? strlen(a->text) : 0);
    }
    w->unrolled_bytes += (int64_t)bytes;
    if (w->unrolled_bytes <= MP_UNROLLED_BYTES_MAX) return MP_OK;
    return MP_FAIL(w->err, MP_UNSUPPORTED, "unrolling takes more than %d bytes (MP_UNROLLED_BYTES_MAX), at '%s'",
                   MP_UNROLLED_BYTES_MAX, op->name);
}

/* Copies an operator of region `root`, or of a region nested in it, into region `to`. */
static mp_status copy_operator(mp_inference *w, int root, int index, int to, const char *prefix, int *copy)
{
    mp_model *model = w->model;
    const mp_operator op = model->operators[index];
    int regions[2] = {0, 0};
    MP_OWNED int *in = mp_alloc((size_t)op.n_in, sizeof *in), *out = mp_alloc((size_t)op.n_out, sizeof *out);
    MP_ENSURE(in && out, w->err, MP_NOMEM, "no memory for a copy of '%s'", op.name);
    MP_CHECK(mp_inference_count(w, 1, op.name));
    MP_CHECK(count_bytes(w, &op, strlen(prefix)));
    for (int k = 0; k < 2; k++)
        if (op.regions[k]) MP_CHECK(copy_region(w, root, op.regions[k], to, prefix, &regions[k]));
    for (int k = 0; k < op.n_in; k++) in[k] = copied(w, op.in[k]);
    for (int k = 0; k < op.n_out; k++) {
        out[k] = op.out[k];
        if (out[k] >= 0) MP_CHECK(copy_tensor(w, root, op.out[k], prefix, &out[k]));
    }
    mp_operator_draft draft = mp_draft_like(&op, in, op.n_in);
    draft.name = renamed(w, root, op.name, prefix);
    draft.out = out;
    draft.n_out = op.n_out;
    MP_ENSURE(draft.name, w->err, MP_NOMEM, "no memory for a copy of '%s'", op.name);
    MP_CHECK(mp_model_operator(model, &draft, copy, w->err));
    model->operators[*copy].region = to;
    model->operators[*copy].control = op.control;
    model->operators[*copy].guess = MP_GUESS_LOOP;
    memcpy(model->operators[*copy].regions, regions, sizeof regions);
    return MP_OK;
}

static mp_status copy_list(mp_inference *w, int root, const char *prefix, const int *from, int n, int *to, bool fresh)
{
    for (int k = 0; k < n; k++) {
        to[k] = copied(w, from[k]);
        if (fresh) {
            MP_CHECK(copy_tensor(w, root, from[k], prefix, &to[k]));
            w->model->tensors[to[k]].is_formal = true;
        }
    }
    return MP_OK;
}

/* Copies a region that is nested in `root`, as a part of copying its control operator. */
static mp_status copy_region(mp_inference *w, int root, int region, int outer, const char *prefix, int *copy)
{
    const mp_region r = w->model->regions[region];
    const char *own = renamed(w, root, r.prefix, prefix);
    int *formals = mp_pool_alloc(w->model->pool, (size_t)r.n_formals, sizeof *formals);
    int *results = mp_pool_alloc(w->model->pool, (size_t)r.n_results, sizeof *results), index;
    MP_ENSURE(own && formals && results, w->err, MP_NOMEM, "no memory for a copy of '%s'", r.prefix);
    MP_CHECK(mp_model_region(w->model, outer, own, copy, w->err));
    MP_ENSURE(mp_grow(&w->of, &w->of_capacity, w->model->n_regions, sizeof *w->of), w->err, MP_NOMEM, "no memory for '%s'",
              own);
    MP_CHECK(copy_list(w, root, prefix, r.formals, r.n_formals, formals, true));
    for (size_t k = 0; k < w->of[region].n; k++) {
        MP_CHECK(copy_operator(w, root, w->of[region].list[k], *copy, prefix, &index));
        mp_region_operators *of = &w->of[*copy];
        MP_ENSURE(mp_grow(&of->list, &of->capacity, of->n + 1, sizeof *of->list), w->err, MP_NOMEM, "no memory for '%s'", own);
        of->list[of->n++] = index;
    }
    MP_CHECK(copy_list(w, root, prefix, r.results, r.n_results, results, false));
    mp_region *made = &w->model->regions[*copy];
    made->n_formals = r.n_formals;
    made->formals = formals;
    made->n_results = r.n_results;
    made->results = results;
    return MP_OK;
}

mp_status mp_control_run(mp_inference *w, int region, const int *actual, const char *prefix, int *results)
{
    const mp_region r = w->model->regions[region];
    int copy;
    for (int k = 0; k < r.n_formals; k++) MP_CHECK(set_copy(w, r.formals[k], actual[k]));
    for (size_t k = 0; k < w->of[region].n; k++) {
        MP_CHECK(copy_operator(w, region, w->of[region].list[k], 0, prefix, &copy));
        MP_CHECK(w->visit(w, copy));
    }
    for (int k = 0; k < r.n_results; k++) results[k] = copied(w, r.results[k]);
    return MP_OK;
}

/* Infers the operators of a region in place, as if they were operators of the main graph. */
static mp_status enter(mp_inference *w, int region)
{
    MP_CHECK(check_branch(w->model, w->of[region].list, w->of[region].n, w->err));
    for (size_t k = 0; k < w->of[region].n; k++) {
        int index = w->of[region].list[k];
        w->model->operators[index].region = 0;
        MP_CHECK(w->visit(w, index));
    }
    w->of[region].n = 0;
    return MP_OK;
}

/* If the file declares types and shapes for the outputs of the If operator, copies them to the results of the branch. */
static void hand_declarations_in(mp_inference *w, int region, const int *results, const mp_operator *op)
{
    for (int k = 0; k < op->n_out; k++) {
        mp_tensor *t = &w->model->tensors[results[k]];
        if (op->out[k] < 0 || t->producer < 0 || w->model->operators[t->producer].region != region) continue;
        const mp_tensor *declared = &w->model->tensors[op->out[k]];
        t->declared_dtype = declared->declared_dtype;
        t->declared_rank = declared->declared_rank;
        t->declared_dims = declared->declared_dims;
    }
}

mp_status mp_control_if(mp_inference *w, int index)
{
    const mp_operator op = w->model->operators[index];
    const mp_region *branches[2];
    MP_ENSURE(op.n_in > 0 && op.in[0] >= 0 && mp_operator_explicit_inputs(w->model, &op) == 1, w->err, MP_PARSE,
              "If '%s' must have one input, its condition", op.name);
    for (int k = 0; k < 2; k++) {
        branches[k] = &w->model->regions[op.regions[k]];
        MP_ENSURE(branches[k]->n_formals == 0, w->err, MP_PARSE,
                  "the subgraph '%s' of If '%s' has %d inputs, but a branch has none", branches[k]->prefix, op.name,
                  branches[k]->n_formals);
        MP_ENSURE(branches[k]->n_results == op.n_out, w->err, MP_PARSE,
                  "the subgraph '%s' of If '%s' has %d outputs, but the operator has %d", branches[k]->prefix, op.name,
                  branches[k]->n_results, op.n_out);
    }
    const mp_tensor *condition = &w->model->tensors[op.in[0]];
    if (!condition->value) return mp_inference_dynamic(w, &op, "its condition", op.in[0]);
    MP_ENSURE(condition->value->n == 1 && !condition->value->is_real, w->err, MP_PARSE,
              "the condition of If '%s' is not a single boolean", op.name);
    const int chosen = condition->value->i[0] ? 0 : 1;
    const int *results = branches[chosen]->results;
    mp_control_drop(w, op.regions[1 - chosen]);
    hand_declarations_in(w, op.regions[chosen], results, &op);
    MP_CHECK(enter(w, op.regions[chosen]));
    mp_inference_remove(w, index);
    for (int k = 0; k < op.n_out; k++)
        if (op.out[k] >= 0) MP_CHECK(mp_inference_alias(w, results[k], op.out[k]));
    return MP_OK;
}
