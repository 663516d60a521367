/* split.c - splits the operators of a model over the ranks, each by one of its factors. Inserts exchanges between shards and
 * replicated tensors. */
#include "estimator/parallel/split.h"

#include <stdio.h>
#include <string.h>

#include "estimator/base/memory.h"
#include "estimator/model/order.h"
#include "estimator/rules/factors/factors.h"
#include "estimator/simplify/infer.h"
#include "estimator/training/loss_chunks.h"

static const mp_shard whole = {.dim = -1, .outer = 1};

/* The state of one tensor during the split. Members that name tensors are indices. 0 means "no tensor", because the tensors
 * that the split adds have larger indices. */
typedef struct layout {
    mp_shard at;
    bool is_read;    /* true: the split of an operator has been decided by the placement of this tensor */
    bool trains;     /* true: the tensor may have a gradient */
    int sum;         /* index of the tensor that contains the sum over ranks of this tensor's partial sums */
    int replica;     /* index of the output of the Replicate operator that reads this tensor */
    int gathered[2]; /* index of the gathered tensor. [0]: for unsplit operators; [1]: for split operators */
} layout;

typedef struct split_state {
    mp_model *model;
    const mp_ranks *ranks;
    int64_t n, batch;
    int chunk; /* chunk of the loss to which the visited operator belongs; 0: none */
    bool sequence, data;
    mp_consumers readers; /* list of readers of each tensor of the original model */
    size_t n_layouts, capacity;
    layout *layouts;
    mp_split *out;
    mp_error *err;
} split_state;

/* Extends the array `layouts` to the number of tensors of the model. */
static mp_status follow(split_state *x)
{
    const size_t n = x->model->n_tensors;
    MP_ENSURE(mp_grow(&x->layouts, &x->capacity, n, sizeof *x->layouts), x->err, MP_NOMEM, "no memory to split %zu tensors", n);
    for (; x->n_layouts < n; x->n_layouts++) x->layouts[x->n_layouts] = (layout){.at = whole};
    return MP_OK;
}

static bool is_whole(const split_state *x, int tensor)
{
    return tensor < 0 || x->layouts[tensor].at.dim < 0;
}

/* Changes the sizes of a tensor to those of this rank's shard. If the shards are unequal, to those of the largest shard. */
static mp_status cut(split_state *x, int tensor, mp_shard at)
{
    mp_tensor *t = &x->model->tensors[tensor];
    const int64_t *dims = t->dims;
    int64_t parts[MP_RANK_MAX];
    if (at.dim < 0) return MP_OK;
    memcpy(parts, dims, (size_t)t->rank * sizeof *parts);
    parts[at.dim] = dims[at.dim] / x->n + (dims[at.dim] % x->n != 0);
    mp_tensor_part *part = mp_pool_alloc(x->model->pool, 1, sizeof *part);
    MP_ENSURE(part, x->err, MP_NOMEM, "no memory to split '%s'", t->name);
    *part = (mp_tensor_part){.dim = at.dim, .outer = at.outer, .ranks = x->n, .dims = dims, .value = t->value};
    const mp_role role = t->role;
    MP_CHECK(mp_tensor_set(x->model, tensor, t->dtype, t->rank, parts, x->err));
    t = &x->model->tensors[tensor];
    t->role = role;
    t->value = NULL;
    t->part = part;
    x->layouts[tensor].at = at;
    return MP_OK;
}

/* Returns the dimensions of the whole tensor, before sharding. */
static const int64_t *dims_of(const split_state *x, int tensor)
{
    return mp_tensor_whole_dims(&x->model->tensors[tensor]);
}

/* Appends an exchange of a tensor. The placement of the result is `at`. */
static mp_status exchange(split_state *x, const char *kind, int from, mp_shard at, int axis, int *out)
{
    const mp_shard *parts = at.dim < 0 ? &x->layouts[from].at : &at;
    const mp_attribute how[] = {mp_attribute_int("axis", axis), mp_attribute_int("ranks", x->n),
                                mp_attribute_int("outer", parts->outer)};
    char name[256];
    *out = -1;
    const int chunk = mp_loss_chunk_of(x->model, x->chunk, from);
    MP_ENSURE(chunk == x->chunk || !x->layouts[from].trains, x->err, MP_UNSUPPORTED,
              "--row-chunks: ranks of tp exchange '%s' for several chunks; omit head", x->model->tensors[from].name);
    snprintf(name, sizeof name, "%s:%s", x->model->tensors[from].name, kind);
    const mp_operator_draft draft = mp_draft(kind, "memplan", 1, &from, 1, how, sizeof how / sizeof *how);
    MP_CHECK(mp_operator_put(x->model, draft, name, out, x->err));
    x->model->operators[x->model->n_operators - 1].chunk = chunk;
    MP_CHECK(follow(x));
    const mp_tensor *t = &x->model->tensors[*out];
    MP_CHECK(mp_tensor_set(x->model, *out, t->dtype, t->rank, dims_of(x, from), x->err));
    x->model->tensors[*out].source = x->model->tensors[from].source;
    x->layouts[*out].trains = x->layouts[from].trains;
    return cut(x, *out, at);
}

/* Replaces *tensor by the gathered tensor. `sums`: a split operator reads it, so each rank computes a partial sum of its
 * gradient. */
static mp_status gather(split_state *x, const mp_operator *op, bool sums, int *tensor)
{
    const int from = *tensor;
    if (!x->layouts[from].gathered[sums]) {
        int made;
        if (!sums && !x->out->n_gathered++) x->out->gathered_for = op->name;
        MP_CHECK(exchange(x, sums ? "AllGather" : "Assemble", from, whole, x->layouts[from].at.dim, &made));
        x->layouts[from].gathered[sums] = made;
    }
    *tensor = x->layouts[from].gathered[sums];
    return MP_OK;
}

/* True if the operator only permutes the dimensions of a tensor, or only converts its type. */
static bool turns(const mp_operator *op)
{
    return op->n_in == 1 && op->op->traits & (MP_TRAIT_PERMUTES | MP_TRAIT_CASTS);
}

/* True if the tensor comes from outside the model, either directly or through permutations and casts only. */
static bool is_from_outside(const split_state *x, int tensor)
{
    const int maker = x->model->tensors[tensor].producer;
    if (maker < 0) return true;
    const mp_operator *op = &x->model->operators[maker];
    return turns(op) && op->in[0] >= 0 && is_from_outside(x, op->in[0]);
}

/* Shards a tensor that no operator computes, together with the tensors that permutations and casts derive from it. Fails
 * (*is_made false) if an operator reads one of these as replicated. */
static mp_status make_part(split_state *x, int tensor, mp_shard at, bool *is_made)
{
    const int maker = x->model->tensors[tensor].producer;
    *is_made = !x->layouts[tensor].is_read && is_from_outside(x, tensor);
    if (!*is_made) return MP_OK;
    if (maker >= 0) {
        const mp_operator *op = &x->model->operators[maker];
        mp_operand_factors f;
        const bool is_known = op->op->factors(x->model, op, &f);
        const int dim = is_known ? mp_factor_of_input(x->model, op, &f, 0, f.out[0][at.dim]) : -1, from = op->in[0];
        const bool is_alone = dim >= 0 && x->model->tensors[from].producer < 0;
        *is_made = is_alone;
        if (!is_alone) return MP_OK;
        if (x->layouts[from].at.dim != dim) { /* the tensor is sharded anew only if no other operator reads it */
            *is_made = is_whole(x, from) && !x->layouts[from].is_read;
            if (!*is_made) return MP_OK;
            MP_CHECK(cut(x, from, (mp_shard){dim, at.outer}));
        }
    }
    return cut(x, tensor, at);
}

/* Replaces *tensor by a tensor with placement `at`. */
static mp_status take_part(split_state *x, const mp_operator *op, mp_shard at, int *tensor)
{
    bool is_made = false;
    int made;
    const bool is_so = x->layouts[*tensor].at.dim == at.dim, is_dealt = is_so && x->layouts[*tensor].at.outer == at.outer;
    /* An estimate assumes that ranks load the tensor in this distribution at the start. Executing this graph would give wrong
     * values. */
    if (is_so && !is_dealt && !x->ranks->for_execution && !x->out->misdealt_for) x->out->misdealt_for = op->name;
    if (is_dealt || (is_so && !x->ranks->for_execution)) return MP_OK;
    if (!is_whole(x, *tensor)) MP_CHECK(gather(x, op, false, tensor));
    MP_CHECK(make_part(x, *tensor, at, &is_made));
    if (is_made) return MP_OK;
    MP_CHECK(exchange(x, "TakePart", *tensor, at, at.dim, &made));
    *tensor = made;
    return MP_OK;
}

/* Replaces *tensor by the output of a Replicate operator, because each rank computes only a partial sum of its gradient. */
static mp_status replicate(split_state *x, int *tensor)
{
    const int from = *tensor;
    int made;
    if (!x->layouts[from].replica) {
        MP_CHECK(exchange(x, "Replicate", from, whole, -1, &made));
        x->layouts[from].replica = made;
    }
    *tensor = x->layouts[from].replica;
    return MP_OK;
}

/* ---- choice of the factor by which an operator is split ---- */

static bool is_weight(const split_state *x, int tensor)
{
    while (x->model->tensors[tensor].producer >= 0 && is_from_outside(x, tensor))
        tensor = x->model->operators[x->model->tensors[tensor].producer].in[0];
    return x->model->tensors[tensor].role == MP_ROLE_PARAMETER;
}

static int64_t bytes_of_whole(const split_state *x, int tensor)
{
    const mp_tensor *t = &x->model->tensors[tensor];
    int64_t elements = 1;
    for (int d = 0; d < t->rank; d++) elements *= dims_of(x, tensor)[d];
    return elements * mp_dtype_bits(t->dtype) / 8;
}

/* True if summing a weight's gradient takes longer than gathering the operator's input and output and scattering their
 * gradients. The weight is then split by columns, and the operator processes the samples of all ranks. */
static bool is_worth_columns(const split_state *x, const mp_operator *op)
{
    const mp_rank_group group = mp_mesh_group(&x->ranks->mesh, MP_DIM_TP);
    const mp_interconnect *network = &x->ranks->network;
    const mp_algorithm algorithm = x->ranks->algorithm;
    const int64_t bytes[] = {bytes_of_whole(x, op->in[0]), bytes_of_whole(x, op->out[0])};
    double seconds = 0;
    for (int k = 0; k < 2; k++)
        seconds += mp_collective_seconds(network, MP_ALL_GATHER, algorithm, group, bytes[k]) +
                   mp_collective_seconds(network, MP_REDUCE_SCATTER, algorithm, group, bytes[k]);
    return mp_collective_seconds(network, MP_ALL_REDUCE, algorithm, group, bytes_of_whole(x, op->in[1])) > seconds;
}

/* True if all dimensions with this factor can be split over the ranks. Rows of a look-up table and columns of a weight may
 * divide unevenly; the last rank then has fewer. */
static bool divides(const split_state *x, const mp_operator *op, const mp_operand_factors *f, int factor)
{
    const bool may_differ = !x->ranks->for_execution && (factor == f->rows || factor == f->columns || factor == f->exchanged);
    bool fits = true, any = false;
    int64_t cut_size = -1; /* whole size of a dimension with this factor that is sharded already; -1: none */
    for (int k = 0; k < op->n_in; k++) {
        const int d = mp_factor_of_input(x->model, op, f, k, factor);
        if (d < 0) continue;
        const mp_shard at = x->layouts[op->in[k]].at;
        const bool is_cut = at.dim == d; /* an earlier operator has already sharded this dimension */
        const int64_t size = dims_of(x, op->in[k])[d], outer = is_cut ? at.outer : 1;
        fits &= is_cut || size % (outer * x->n) == 0 || (may_differ && size >= 2 * x->n);
        if (is_cut) cut_size = size;
        any = true;
    }
    for (int o = 0; o < op->n_out; o++) {
        const int d = mp_factor_of_output(x->model, op, f, o, factor);
        if (d < 0) continue;
        const int64_t size = mp_operator_out(x->model, op, o)->dims[d];
        fits &= size == cut_size || size % x->n == 0 || (may_differ && size >= 2 * x->n);
    }
    return fits && any;
}

/* Returns the factor of the dimension along which an operand is sharded. 0: the operand is replicated, or this dimension
 * cannot be split. */
static int factor_of(const split_state *x, const mp_operator *op, const mp_operand_factors *f, int k)
{
    const int t = k < MP_OP_INPUTS ? op->in[k] : -1;
    return t < 0 || is_whole(x, t) ? 0 : f->in[k][x->layouts[t].at.dim];
}

/* Returns the factor by which an operator is split. 0: the operator is not split, and reads replicated tensors. */
static int choose(const split_state *x, const mp_operator *op, const mp_operand_factors *f)
{
    if (f->columns && op->in[1] >= 0 && is_weight(x, op->in[1])) {
        const int data = factor_of(x, op, f, 0), weight = factor_of(x, op, f, 1);
        const bool is_samples = x->data && data && data != f->contracted && data != f->columns && !weight;
        if (is_samples && divides(x, op, f, data) && !is_worth_columns(x, op)) return data;
        const int wanted = weight ? weight : data && data == f->contracted ? data : f->columns;
        if (divides(x, op, f, wanted)) return wanted;
        if (data && data != f->contracted && divides(x, op, f, data))
            return data; /* by rows: each rank multiplies its rows of the data by the whole weight */
        return 0;
    }
    if (f->rows && op->in[0] >= 0 && is_weight(x, op->in[0])) {
        const mp_tensor *table = mp_operator_in(x->model, op, 0), *y = mp_operator_out(x->model, op, 0);
        const int already = factor_of(x, op, f, 0);
        if (already) return already;
        if (mp_tensor_elements(table) > mp_tensor_elements(y) && divides(x, op, f, f->rows)) return f->rows;
    }
    for (int k = 0; k < op->n_in && k < MP_OP_INPUTS; k++) {
        const int factor = factor_of(x, op, f, k);
        if (factor && divides(x, op, f, factor)) return factor;
    }
    return 0;
}

/* ---- operands and results ---- */

/* Replaces operand k by a tensor with the placement that the split of the operator requires. */
static mp_status settle_operand(split_state *x, int index, const mp_operand_factors *f, int k, int factor, mp_shard of,
                                bool is_linear)
{
    const mp_operator *op = &x->model->operators[index];
    int tensor = op->in[k];
    if (tensor < 0) return MP_OK;
    if (x->layouts[tensor].sum) tensor = x->layouts[tensor].sum;
    const int dim = factor ? mp_factor_of_input(x->model, op, f, k, factor) : -1;
    if (dim >= 0)
        MP_CHECK(take_part(x, op, (mp_shard){dim, of.outer}, &tensor));
    else if (!is_whole(x, tensor))
        MP_CHECK(gather(x, op, factor > 0, &tensor));
    else if (factor && x->layouts[tensor].trains && !is_linear)
        MP_CHECK(replicate(x, &tensor));
    x->layouts[tensor].is_read = true;
    x->model->operators[index].in[k] = tensor;
    return MP_OK;
}

/* Returns the placement to which the partial sums of a result are scattered; dim -1: they are summed on every rank. */
static mp_shard sequence_of(const split_state *x, const mp_tensor *y)
{
    if (x->data && y->rank > 0 && y->dims[0] % x->n == 0) return (mp_shard){.dim = 0, .outer = 1};
    if (!x->sequence || y->rank < 2 || y->rank > 3) return whole;
    const bool is_lines = y->rank == 2 && x->batch > 1 && y->dims[0] % (x->batch * x->n) == 0;
    const mp_shard at = {.dim = y->rank - 2, .outer = is_lines ? x->batch : 1}, samples = {.dim = 0, .outer = 1};
    if (y->dims[at.dim] % (at.outer * x->n) == 0) return at;
    return y->dims[0] % x->n == 0 ? samples : whole;
}

/* Returns the number of runs (mp_shard.outer) of the results' placement. *is_dealt: each rank has all elements that it
 * needs. */
static int64_t outer_of_results(const split_state *x, const mp_operator *op, const mp_operand_factors *f, int factor,
                                mp_shard of, bool *is_dealt)
{
    const int64_t pieces = factor ? mp_split_pieces(x->model, op, f, factor) : 1;
    *is_dealt = pieces && (f->joins || of.outer % pieces == 0);
    return !*is_dealt ? of.outer : f->joins ? of.outer * pieces : of.outer / pieces;
}

/* Determines the placements of the results of an operator that is split by a factor. */
static mp_status settle_results(split_state *x, int index, const mp_operand_factors *f, int factor, mp_shard of)
{
    bool trains = false;
    bool is_dealt;
    const int64_t outer = outer_of_results(x, &x->model->operators[index], f, factor, of, &is_dealt);
    if (!is_dealt && !x->out->misdealt_for) x->out->misdealt_for = x->model->operators[index].name;
    for (int k = 0; k < x->model->operators[index].n_in; k++)
        trains |= x->model->operators[index].in[k] >= 0 && x->layouts[x->model->operators[index].in[k]].trains;
    for (int o = 0; o < x->model->operators[index].n_out; o++) {
        const mp_operator *op = &x->model->operators[index];
        const int y = op->out[o];
        if (y < 0) continue;
        x->layouts[y].trains = trains && op->op->gradient != MP_GRADIENT_NONE && mp_dtype_is_float(x->model->tensors[y].dtype);
        const int dim = factor ? mp_factor_of_output(x->model, op, f, o, factor) : -1;
        if (dim >= 0) {
            MP_CHECK(cut(x, y, (mp_shard){dim, outer}));
        } else if (factor && !f->is_of_batch &&
                   !(op->op->traits & MP_TRAIT_LOSS)) { /* the sum of a loss is a single number and is not scattered */
            const mp_shard at = sequence_of(x, &x->model->tensors[y]);
            int sum;
            MP_CHECK(exchange(x, at.dim < 0 ? "AllReduce" : "ReduceScatter", y, at, at.dim, &sum));
            x->layouts[y].sum = sum;
        }
    }
    return MP_OK;
}

/* ---- operators that only change the shape of a tensor ---- */

static mp_status visit_reshape(split_state *x, int index)
{
    const mp_operator *op = &x->model->operators[index];
    int from = op->in[0];
    const int to = op->out[0];
    if (x->layouts[from].sum) from = x->layouts[from].sum;
    mp_shard at =
        is_whole(x, from) ? whole : mp_split_reshaped(&x->model->tensors[from], x->layouts[from].at, &x->model->tensors[to]);
    if (!is_whole(x, from) && at.dim < 0) MP_CHECK(gather(x, op, false, &from));
    x->layouts[from].is_read = true;
    x->layouts[to].trains = x->layouts[from].trains;
    x->model->operators[index].in[0] = from;
    return cut(x, to, at);
}

/* Computes the factors of an operator. During the call, the operands have the dimensions of the whole tensors. */
static bool factors_of(split_state *x, const mp_operator *op, mp_operand_factors *f)
{
    int64_t *parts[MP_OP_INPUTS];
    const int n = op->n_in < MP_OP_INPUTS ? op->n_in : MP_OP_INPUTS;
    if (!op->op->factors || op->n_in > n) return false;
    for (int k = 0; k < n; k++) {
        mp_tensor *t = mp_operator_in(x->model, op, k);
        parts[k] = t ? t->dims : NULL;
    }
    for (int k = 0; k < n; k++)
        if (parts[k]) mp_operator_in(x->model, op, k)->dims = (int64_t *)dims_of(x, op->in[k]);
    const bool is_known = op->op->factors(x->model, op, f);
    for (int k = 0; k < n; k++)
        if (parts[k]) mp_operator_in(x->model, op, k)->dims = parts[k];
    return is_known;
}

/* Permits splitting a batch normalization by samples. Each rank then uses its own statistics, as in data parallelism. */
static void own_samples(mp_operand_factors *f)
{
    enum { SAMPLES = 2, ADDED = 5 };
    f->in[0][0] = f->in[ADDED][0] = f->out[0][0] = SAMPLES;
}

static mp_status visit(split_state *x, int index)
{
    const mp_operator *op = &x->model->operators[index];
    mp_operand_factors f = {.columns = 0};
    mp_shard of = whole;
    x->chunk = op->chunk > 0 ? op->chunk : 0;
    if (op->op->gradient == MP_GRADIENT_VIEW && !op->op->factors) return visit_reshape(x, index);
    for (int k = 0; k < op->n_in; k++) { /* reuses the tensors that were gathered or summed for earlier operators */
        if (op->in[k] >= 0 && x->layouts[op->in[k]].sum) op->in[k] = x->layouts[op->in[k]].sum;
        if (op->in[k] >= 0 && x->layouts[op->in[k]].gathered[0]) op->in[k] = x->layouts[op->in[k]].gathered[0];
    }
    const bool is_known = factors_of(x, op, &f);
    if (x->data && is_known && f.is_of_batch) own_samples(&f);
    if (turns(op) && is_from_outside(x, op->in[0]) &&
        is_whole(x, op->in[0])) { /* a permuted or cast parameter is placed later, by the operator that reads it */
        x->layouts[op->out[0]].trains = x->layouts[op->in[0]].trains;
        return MP_OK;
    }
    int factor = is_known ? choose(x, op, &f) : 0;
    for (int k = 0; factor && k < op->n_in && k < MP_OP_INPUTS; k++) {
        const int t = op->in[k], d = mp_factor_of_input(x->model, op, &f, k, factor);
        if (d >= 0 && x->layouts[t].at.dim == d) of = x->layouts[t].at;
    }
    bool is_dealt;
    (void)outer_of_results(x, op, &f, factor, of, &is_dealt);
    if (x->ranks->for_execution && !is_dealt) factor = 0;
    if (factor && factor == f.columns && of.dim < 0)
        of.outer = mp_split_pieces_of_columns(x->model, &x->readers, x->n, op->out[0]);
    bool is_partial = factor && op->n_out > 0;
    for (int o = 0; factor && o < op->n_out; o++) is_partial &= mp_factor_of_output(x->model, op, &f, o, factor) < 0;
    const bool is_linear =
        is_partial && op->op->gradient == MP_GRADIENT_SPLIT; /* a bias is added once, after the sum of the partial results */
    const int n_in = op->n_in;
    for (int k = 0; k < n_in; k++) MP_CHECK(settle_operand(x, index, &f, k, factor, of, is_linear));
    return settle_results(x, index, &f, factor, of);
}

static int64_t parameter_bytes(const mp_model *model)
{
    int64_t bytes = 0;
    for (size_t t = 0; t < model->n_tensors; t++)
        if (model->tensors[t].role == MP_ROLE_PARAMETER) bytes += mp_tensor_bytes(&model->tensors[t]);
    return bytes;
}

/* Changes the data inputs so that each rank has its share of the batch. */
static mp_status cut_samples(split_state *x, int tensor)
{
    const mp_tensor *t = &x->model->tensors[tensor];
    MP_ENSURE(t->dims[0] % x->n == 0, x->err, MP_INVALID,
              "data=1 splits the batch over %lld ranks, but '%s' has %lld samples; choose a multiple", (long long)x->n, t->name,
              (long long)t->dims[0]);
    return cut(x, tensor, (mp_shard){.dim = 0, .outer = 1});
}

static mp_status split_all(split_state *x)
{
    const size_t n = x->model->n_operators;
    MP_OWNED bool *trained = mp_alloc(x->model->n_tensors + 1, sizeof *trained);
    MP_CHECK(follow(x));
    MP_ENSURE(trained, x->err, MP_NOMEM, "no memory to split %zu tensors", x->model->n_tensors);
    MP_CHECK(mp_model_consumers(x->model, &x->readers, x->err));
    mp_model_mark_trained(x->model, trained);
    for (size_t t = 0; t < x->model->n_tensors; t++) {
        const mp_tensor *tensor = &x->model->tensors[t];
        x->layouts[t].trains = trained[t];
        if (tensor->role == MP_ROLE_DATA && tensor->rank > 0 && !tensor->is_target && !x->batch) x->batch = tensor->dims[0];
    }
    for (size_t t = 0; t < x->n_layouts && x->data; t++) {
        const mp_tensor *tensor = &x->model->tensors[t];
        const bool is_samples = tensor->role == MP_ROLE_DATA && tensor->rank > 0 && !tensor->is_target;
        if (is_samples && tensor->dims[0] == x->batch) MP_CHECK(cut_samples(x, (int)t));
    }
    for (size_t k = 0; k < n; k++)
        if (!x->model->operators[k].removed) MP_CHECK(visit(x, (int)k));
    MP_CHECK(mp_model_sort(x->model, x->err)); /* moves each exchange before the first operator that reads its result */
    return mp_split_mark_sums(x->model, x->err);
}

mp_status mp_model_split(mp_model *model, const mp_ranks *ranks, mp_split *out, mp_error *err)
{
    split_state x = {.model = model,
                     .ranks = ranks,
                     .n = ranks->mesh.size[MP_DIM_TP],
                     .sequence = ranks->mesh.sequence,
                     .data = ranks->mesh.data,
                     .out = out,
                     .err = err};
    *out = (mp_split){.group = mp_mesh_group(&ranks->mesh, MP_DIM_TP), .whole_bytes = parameter_bytes(model)};
    if (x.n == 1) return MP_OK;
    mp_status st = split_all(&x);
    out->part_bytes = parameter_bytes(model);
    if (st == MP_OK && !(out->placements = mp_alloc(x.n_layouts, sizeof *out->placements))) st = MP_NO_MEMORY(err);
    for (size_t t = 0; st == MP_OK && t < x.n_layouts; t++) out->placements[t] = x.layouts[t].at;
    out->n_tensors = x.n_layouts;
    mp_free(x.layouts);
    mp_consumers_free(&x.readers);
    return st;
}

void mp_split_free(mp_split *split)
{
    mp_free(split->placements);
    split->placements = NULL;
}
