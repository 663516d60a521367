/* normalize_chains_cuda.cu - runs a normalization and its neighbours as one launch. In forward these are a Dropout and an Add
 * before it, or an Add alone, and a Dropout after it. In backward they are the gradients of the Dropouts before and after
 * it. */
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

static mp_normal_dropout dropout_of(const mp_call_chain_link *link)
{
    const mp_dropout *s = link ? (const mp_dropout *)link->call->state : NULL;
    if (!s || !s->drops) return {};
    return {mp_cuda_pass_of(&link->x->run), (uint32_t)link->x->op_index, s->ratio};
}

static bool are_rows(const mp_array *a, const mp_array *b)
{
    return a->dtype == b->dtype && mp_array_same_layout(a, b);
}

/* True if b can be broadcast to a by repeating b along the leading dimensions of a. */
static bool repeats(const mp_array *a, const mp_array *b)
{
    if (a->dtype != b->dtype || b->rank > a->rank || b->rank < 1 || !mp_array_is_plain(a) || !mp_array_is_plain(b))
        return false;
    int d = 1;
    while (d <= b->rank && b->dims[b->rank - d] == a->dims[a->rank - d]) d++;
    for (int e = d; e <= b->rank; e++)
        if (b->dims[b->rank - e] != 1) return false;
    return d > 1;
}

/* The links of a chain, in order of execution; NULL: the link is missing. Forward: [before, add,] normal [, after]. Backward:
 * [after,] normal [, before]. */
struct links {
    const mp_call_chain_link *before, *add, *normal, *after;
    int branch; /* forward: index of the addition's operand that is the result of `before`; without `before`, one with all rows
                 */
};

/* ---- forward. */

static bool find_forward(const mp_call_chain *chain, links *out)
{
    const mp_call_chain_link *link = chain->links, *end = link + chain->n;
    *out = {};
    for (const mp_call_chain_link *k = link; k < end; k++)
        if (k->x->is_backward) return false;
    if (is_dropout(link)) out->before = link++;
    if (link < end && is_kind(link, "Add")) out->add = link++;
    if (link == end || !is_normalization(link)) return false;
    out->normal = link++;
    if (link < end && is_dropout(link)) out->after = link++;
    if (link < end || (out->before && !out->add) || (!out->add && !out->after)) return false;
    if (out->after && out->after->x->op->in[0] != out->normal->x->op->out[0]) return false;
    if (!out->add) return true;
    const mp_operator *add = out->add->x->op;
    if (add->in[0] == add->in[1] || out->normal->x->op->in[0] != add->out[0]) return false;
    out->branch = !are_rows(&out->add->x->in[0], &out->normal->x->in[0]);
    if (!out->before) return true;
    out->branch = add->in[1] == out->before->x->op->out[0];
    return !out->before->is_read && add->in[out->branch] == out->before->x->op->out[0];
}

static mp_normal_data data_of(const links *l)
{
    mp_normal_data d = mp_normal_operands(l->normal->call, l->normal->x);
    if (l->after && !l->normal->x->is_backward && !l->normal->is_read) d.y.data = NULL;
    if (l->after && l->normal->x->is_backward) d.dy = mp_operand_of(&l->after->x->d_out[0]);
    return d;
}

static mp_normal_chain forward_chain(const links *l)
{
    mp_normal_chain c = {};
    if (l->after) c.out = mp_output(l->after->x, 0);
    if (!l->add) return c;
    const mp_operands *add = l->add->x;
    const mp_array *residual = &add->in[1 - l->branch];
    c.branch = l->before ? mp_input(l->before->x, 0) : mp_input(add, l->branch);
    c.residual = mp_input(add, 1 - l->branch);
    if (l->add->is_read) c.sum = mp_output(add, 0);
    if (!are_rows(residual, &add->out[0]))
        c.residual_rows = mp_array_elements(residual) / mp_normal_of_call(l->normal->call)->form.length;
    return c;
}

static mp_status run_forward(const mp_call_chain *chain, mp_error *err)
{
    links l;
    find_forward(chain, &l);
    mp_normal_chain c = forward_chain(&l);
    c.before = dropout_of(l.before);
    c.after = dropout_of(l.after);
    const mp_normal_data d = data_of(&l);
    mp_normal_by_warps(mp_normal_of_call(l.normal->call), &d, false, &c, l.normal->x->workspace);
    return mp_launched(err);
}

static bool takes_forward(mp_call_chain *chain)
{
    links l;
    if (!find_forward(chain, &l)) return false;
    const mp_operands *x = l.normal->x;
    const mp_array *rows = &x->in[0];
    const mp_call_chain_link *const dropouts[] = {l.before, l.after};
    for (const mp_call_chain_link *k : dropouts)
        if (k && (!are_rows(&k->x->in[0], rows) || !are_rows(&k->x->out[0], rows))) return false;
    if (l.add) {
        const mp_operands *add = l.add->x;
        const mp_array *residual = &add->in[1 - l.branch];
        if (!are_rows(&add->in[l.branch], rows) || !are_rows(&add->out[0], rows)) return false;
        if (!are_rows(residual, rows) && !repeats(rows, residual)) return false;
        if (mp_array_elements(residual) % mp_normal_of_call(l.normal->call)->form.length) return false;
    }
    for (int o = 1; o < x->n_out; o++)
        if (x->out[o].data) return false;
    if (!x->extra[0].data) return false; /* the statistics would be in the workspace */
    for (size_t k = 0; k < chain->n; k++) chain->links[k].uses_workspace = false;
    const mp_normal_chain c = forward_chain(&l);
    const mp_normal_data d = data_of(&l);
    return mp_normal_fits_warps(mp_normal_of_call(l.normal->call), &d, false, &c);
}

/* ---- backward. */

static bool find_backward(const mp_call_chain *chain, links *out)
{
    const mp_call_chain_link *link = chain->links, *end = link + chain->n;
    *out = {};
    for (const mp_call_chain_link *k = link; k < end; k++)
        if (!k->x->is_backward) return false;
    if (is_dropout(link)) out->after = link++;
    if (link == end || !is_normalization(link)) return false;
    out->normal = link++;
    if (link < end && is_dropout(link)) out->before = link++;
    return link == end && chain->n > 1;
}

static mp_normal_chain backward_chain(const links *l)
{
    mp_normal_chain c = {};
    if (l->before) c.out = mp_input_gradient(l->before->x, 0);
    return c;
}

static mp_status run_backward(const mp_call_chain *chain, mp_error *err)
{
    links l;
    find_backward(chain, &l);
    mp_normal_chain c = backward_chain(&l);
    c.before = dropout_of(l.before);
    c.after = dropout_of(l.after);
    const mp_normal_data d = data_of(&l);
    mp_normal_by_warps(mp_normal_of_call(l.normal->call), &d, true, &c, l.normal->x->workspace);
    return mp_launched(err);
}

static bool takes_backward(mp_call_chain *chain)
{
    links l;
    if (!find_backward(chain, &l)) return false;
    const mp_array *dx = &l.normal->x->d_in[0], *dy = &l.normal->x->d_out[0], *rows = &l.normal->x->in[0];
    if (!dx->dtype || !l.normal->x->extra[0].data || !are_rows(dx, rows)) return false;
    if (l.before) {
        const mp_array *from = &l.before->x->d_out[0];
        if (dx->data != from->data || !are_rows(dx, from) || !are_rows(dx, &l.before->x->d_in[0])) return false;
    }
    if (l.after) {
        const mp_array *to = &l.after->x->d_in[0];
        if (l.after->is_read || dy->data != to->data || !are_rows(dy, to) || !are_rows(dy, &l.after->x->d_out[0])) return false;
    }
    for (size_t k = 0; k < chain->n; k++) chain->links[k].uses_workspace = &chain->links[k] == l.normal;
    const mp_normal_chain c = backward_chain(&l);
    const mp_normal_data d = data_of(&l);
    return (!l.before || c.out.data) && mp_normal_fits_warps(mp_normal_of_call(l.normal->call), &d, true, &c);
}

} // namespace

extern "C" mp_call_chain_run mp_cuda_chain_normalization(mp_call_chain *chain)
{
    return takes_forward(chain) ? run_forward : takes_backward(chain) ? run_backward : NULL;
}
