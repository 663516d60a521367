/* normalize_chains_cuda.cu - runs a normalization with its neighbours as one launch: Dropout, Add and the normalization,
 * without a dropout too; backward, the normalization and the Dropout before it. */
#include "executor/operators/normalizations/normalize_warps_cuda.cuh"

extern "C" {
#include "executor/operators/randoms/randoms.h"
}

namespace
{

static bool is_kind(const mp_call_chain_link *link, const char *kind)
{
    return !strcmp(link->x->op->op->name, kind) && !*link->x->op->op->domain;
}

static bool is_normalization(const mp_call_chain_link *link)
{
    const mp_operator *op = link->x->op;
#define IS(kind, domain_, rows, centered, epsilon) \
    if (!strcmp(op->op->name, kind) && !strcmp(op->op->domain, domain_)) return true;
    MP_NORMALIZATIONS(IS)
#undef IS
    return false;
}

/* True for a dropout that draws its numbers again in backward and gives no mask to other operators. */
static bool is_dropout(const mp_call_chain_link *link)
{
    const mp_operands *x = link->x;
    return is_kind(link, "Dropout") && x->alternative == 0 && !x->adds && (x->n_out < 2 || !x->out[1].data);
}

static void put_dropout(const mp_call_chain_link *link, mp_normal_chain *chain)
{
    const mp_dropout *s = (const mp_dropout *)link->call->state;
    chain->pass = s->drops ? mp_cuda_pass_of(&link->x->run) : NULL;
    chain->op = (uint32_t)link->x->op_index;
    chain->ratio = s->ratio;
}

/* ---- forward. */

/* The links of a chain of forward calls: [dropout,] addition, normalization. */
struct forward_links {
    const mp_call_chain_link *dropout, *add, *normal; /* dropout NULL: there is none */
    int branch;                                       /* the operand of the addition that comes from the dropout */
};

static bool find_forward(const mp_call_chain *chain, forward_links *out)
{
    const size_t n = chain->n;
    *out = {n == 3 ? &chain->links[0] : NULL, &chain->links[n - 2], &chain->links[n - 1], 0};
    if (n < 2 || n > 3 || out->normal->x->is_backward || !is_normalization(out->normal) || !is_kind(out->add, "Add"))
        return false;
    const mp_operator *add = out->add->x->op;
    if (out->add->x->is_backward || add->in[0] == add->in[1] || out->normal->x->op->in[0] != add->out[0]) return false;
    if (!out->dropout) return true;
    if (!is_dropout(out->dropout) || out->dropout->x->is_backward || out->dropout->is_read) return false;
    out->branch = add->in[1] == out->dropout->x->op->out[0];
    return add->in[out->branch] == out->dropout->x->op->out[0];
}

/* True if the arrays have the rows of the normalization. */
static bool are_rows(const mp_array *a, const mp_array *b)
{
    return a->dtype == b->dtype && mp_array_same_layout(a, b);
}

static mp_normal_chain forward_chain(const forward_links *links)
{
    const mp_operands *add = links->add->x;
    mp_normal_chain c = {};
    c.branch = links->dropout ? mp_input(links->dropout->x, 0) : mp_input(add, 0);
    c.residual = mp_input(add, 1 - links->branch);
    if (links->add->is_read) c.sum = mp_output(add, 0);
    return c;
}

static mp_status run_forward(const mp_call_chain *chain, mp_error *err)
{
    forward_links links;
    find_forward(chain, &links);
    const mp_operands *x = links.normal->x;
    mp_normal_chain c = forward_chain(&links);
    if (links.dropout) put_dropout(links.dropout, &c);
    const mp_normal_data d = mp_normal_operands(links.normal->call, x);
    mp_normal_by_warps(mp_normal_of_call(links.normal->call), &d, false, &c, x->workspace);
    return mp_launched(err);
}

static bool takes_forward(mp_call_chain *chain)
{
    forward_links links;
    if (!find_forward(chain, &links)) return false;
    const mp_operands *add = links.add->x, *x = links.normal->x;
    const mp_array *rows = &x->in[0];
    if (links.dropout && (!are_rows(&links.dropout->x->in[0], rows) || !are_rows(&links.dropout->x->out[0], rows)))
        return false;
    if (!are_rows(&add->in[0], rows) || !are_rows(&add->in[1], rows) || !are_rows(&add->out[0], rows)) return false;
    for (int o = 1; o < x->n_out; o++)
        if (x->out[o].data) return false;
    if (!x->extra[0].data) return false; /* the statistics would be in the workspace */
    for (size_t k = 0; k < chain->n; k++) chain->links[k].uses_workspace = false;
    const mp_normal_chain c = forward_chain(&links);
    const mp_normal_data d = mp_normal_operands(links.normal->call, x);
    return mp_normal_fits_warps(mp_normal_of_call(links.normal->call), &d, false, &c);
}

/* ---- backward. */

static mp_normal_chain backward_chain(const mp_call_chain *chain)
{
    mp_normal_chain c = {};
    c.dropped = mp_input_gradient(chain->links[1].x, 0);
    return c;
}

static mp_status run_backward(const mp_call_chain *chain, mp_error *err)
{
    const mp_call_chain_link *normal = &chain->links[0];
    mp_normal_chain c = backward_chain(chain);
    put_dropout(&chain->links[1], &c);
    const mp_normal_data d = mp_normal_operands(normal->call, normal->x);
    mp_normal_by_warps(mp_normal_of_call(normal->call), &d, true, &c, normal->x->workspace);
    return mp_launched(err);
}

static bool takes_backward(mp_call_chain *chain)
{
    const mp_call_chain_link *normal = &chain->links[0], *dropout = &chain->links[1];
    if (chain->n != 2 || !normal->x->is_backward || !dropout->x->is_backward) return false;
    if (!is_normalization(normal) || !is_dropout(dropout)) return false;
    const mp_array *dx = &normal->x->d_in[0], *from = &dropout->x->d_out[0];
    if (!dx->dtype || dx->data != from->data || !normal->x->extra[0].data) return false;
    if (!are_rows(dx, from) || !are_rows(dx, &dropout->x->d_in[0]) || !are_rows(dx, &normal->x->in[0])) return false;
    const mp_normal_chain c = backward_chain(chain);
    const mp_normal_data d = mp_normal_operands(normal->call, normal->x);
    return c.dropped.data && mp_normal_fits_warps(mp_normal_of_call(normal->call), &d, true, &c);
}

} // namespace

extern "C" mp_call_chain_run mp_cuda_chain_normalization(mp_call_chain *chain)
{
    return takes_forward(chain) ? run_forward : takes_backward(chain) ? run_backward : NULL;
}
