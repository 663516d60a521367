/* gather_chains_cuda.cu - runs an addition with the gathers of its operands as one launch. It adds rows of two tables, or rows
 * of a table and of a tensor. Example: the sum of the embeddings of tokens and of their types. */
#include "executor/operators/gathers/gather.cuh"

#include "executor/cuda/grid/family.cuh"
#include "executor/cuda/grid/vectors.cuh"

extern "C" {
#include "executor/kernel/chain.h"
#include "executor/operators/gathers/gathers.h"
}

namespace
{

/* An operand of the addition. */
struct term {
    bool is_gathered;
    mp_row_reader reader;
    const void *data; /* the table if is_gathered, else the tensor */
};

template <mp_dtype T> struct row_sum_of {
    enum { W = mp_width<T> };
    term terms[2];
    mp_divisor vectors; /* number of vectors per row */
    void *to;
    MP_BODY void load(const term &from, int64_t row, int64_t v, int64_t k, float (&x)[W]) const
    {
        const int64_t at = from.is_gathered ? from.reader.row(row) : 0;
        if (at < 0) { /* the index is outside of its axis */
            MP_UNROLL
            for (int e = 0; e < W; e++) x[e] = 0;
        } else {
            mp_load_vector(from.data, T, from.is_gathered ? at * vectors.by + v : k, W, x);
        }
    }
    MP_BODY void operator()(int64_t k) const
    {
        float a[W], b[W];
        int64_t v;
        const int64_t row = mp_divide_rest(k, &vectors, &v);
        load(terms[0], row, v, k, a);
        load(terms[1], row, v, k, b);
        MP_UNROLL
        for (int e = 0; e < W; e++) a[e] += b[e];
        mp_store_vector(to, T, k, W, a);
    }
};

static bool is_kind(const mp_call_chain_link *link, const char *kind)
{
    const mp_op *op = link->x->op->op;
    return !strcmp(op->name, kind) && !*op->domain && !link->x->is_backward;
}

/* True if each row of the gather's result is a whole row of a matrix. */
static bool is_row_gather(const mp_call_chain_link *link)
{
    if (!is_kind(link, "Gather") || link->is_read) return false;
    const mp_operands *x = link->x;
    const mp_index_plan *plan = (const mp_index_plan *)link->call->state;
    const mp_row_entries *rows = &plan->rows;
    if (!plan->by_rows || plan->by_condition || rows->first || rows->read_rank != 1 || rows->ranks > 1) return false;
    return x->in[0].rank == 2 && rows->n_rows == x->in[0].dims[0] && mp_array_is_plain(&x->in[0]) &&
           mp_array_is_plain(&x->out[0]) && x->out[0].dims[x->out[0].rank - 1] == x->in[0].dims[1];
}

/* Returns operand i of the addition: a gather of the chain, or a tensor. */
static term term_of(const mp_call_chain *chain, int i)
{
    const mp_call_chain_link *add = &chain->links[chain->n - 1];
    for (size_t k = 0; k + 1 < chain->n; k++) {
        const mp_operands *x = chain->links[k].x;
        const mp_index_plan *plan = (const mp_index_plan *)chain->links[k].call->state;
        if (x->op->out[0] == add->x->op->in[i]) return term{true, mp_row_reader(&plan->rows, &x->in[1]), x->in[0].data};
    }
    const mp_row_entries none = {};
    return term{false, mp_row_reader(&none, &add->x->in[i]), add->x->in[i].data};
}

template <mp_dtype T> static void sum(const mp_call_chain *chain)
{
    const mp_array *out = &chain->links[chain->n - 1].x->out[0];
    const int64_t vectors = out->dims[out->rank - 1] / mp_width<T>;
    const row_sum_of<T> f = {{term_of(chain, 0), term_of(chain, 1)}, mp_divisor_of(vectors), out->data};
    mp_each(mp_array_elements(out) / mp_width<T>, f);
}

static mp_status run(const mp_call_chain *chain, mp_error *err)
{
    MP_BY_DTYPE(chain->links[chain->n - 1].x->out[0].dtype, sum<T>(chain));
    return mp_launched(err);
}

static bool takes(mp_call_chain *chain)
{
    const mp_call_chain_link *add = &chain->links[chain->n - 1];
    const mp_array *out = &add->x->out[0];
    const int *in = add->x->op->in;
    if (chain->n < 2 || !is_kind(add, "Add") || in[0] == in[1] || out->rank < 1 || !mp_array_is_plain(out)) return false;
    if (!mp_takes_vectors(out->data, out->dtype)) return false;
    if (out->dims[out->rank - 1] % (out->dtype == MP_DTYPE_FLOAT ? mp_width<MP_DTYPE_FLOAT> : mp_width<MP_DTYPE_BFLOAT16>))
        return false;
    for (size_t k = 0; k + 1 < chain->n; k++) {
        const mp_operands *x = chain->links[k].x;
        if (!is_row_gather(&chain->links[k]) || (x->op->out[0] != in[0] && x->op->out[0] != in[1])) return false;
        if (!mp_takes_vectors(x->in[0].data, x->in[0].dtype)) return false;
    }
    if (chain->n == 3 && chain->links[0].x->op->out[0] == chain->links[1].x->op->out[0]) return false;
    for (int i = 0; i < 2; i++) {
        const mp_array *a = &add->x->in[i];
        if (a->dtype != out->dtype || !mp_array_same_layout(a, out)) return false;
        if (!term_of(chain, i).is_gathered && !mp_takes_vectors(a->data, a->dtype)) return false;
    }
    for (size_t k = 0; k < chain->n; k++) chain->links[k].uses_workspace = false;
    return true;
}

} // namespace

extern "C" mp_call_chain_run mp_cuda_chain_gather(mp_call_chain *chain)
{
    return takes(chain) ? run : NULL;
}
