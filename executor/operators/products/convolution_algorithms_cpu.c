/* convolution_algorithms_cpu.c - the implementations that oneDNN has for a convolution, by name. */
#include "executor/operators/products/convolution_algorithms_cpu.h"

#include <stdio.h>
#include <string.h>

typedef struct seeker {
    const mp_convolution *convolution;
    mp_convolution_pass pass;
    const char *name;            /* NULL: list them */
    dnnl_primitive_desc_t found; /* the one of that name */
    mp_algorithms *list;
} seeker;

static bool lies_so(const dnnl_memory_desc_t *wanted, const dnnl_memory_desc_t *is)
{
    return wanted && dnnl_memory_desc_equal(wanted, is);
}

static void name_of(const mp_convolution *c, mp_convolution_pass pass, const_dnnl_primitive_desc_t desc,
                    char name[MP_ALGORITHM_NAME])
{
    dnnl_query_t src = pass == MP_CONVOLVE_DATA ? dnnl_query_diff_src_md : dnnl_query_src_md;
    dnnl_query_t dst = pass == MP_CONVOLVE_FORWARD ? dnnl_query_dst_md : dnnl_query_diff_dst_md;
    bool here = lies_so(dnnl_primitive_desc_query_md(desc, src, 0), &c->src) &&
                lies_so(dnnl_primitive_desc_query_md(desc, dst, 0), &c->dst);
    snprintf(name, MP_ALGORITHM_NAME, "%.*s%s", MP_ALGORITHM_NAME - 16, mp_convolution_implementation(desc),
             here ? "" : " reordered");
}

/* Whether two names are of one kind of implementation ("jit:avx512_core", "jit:avx2"), on activations that lie alike: oneDNN
 * lists the one for the newer processor first. */
static bool of_a_kind(const char *a, const char *b)
{
    size_t n = strcspn(a, ":");
    return n == strcspn(b, ":") && !strncmp(a, b, n) && !strchr(a, ' ') == !strchr(b, ' ');
}

static void put(mp_algorithms *list, const char *name)
{
    for (int k = 0; k < list->n; k++)
        if (of_a_kind(list->list[k].name, name)) return;
    if (list->n == MP_ALGORITHMS) return;
    snprintf(list->list[list->n].name, MP_ALGORITHM_NAME, "%s", name);
    list->list[list->n++].is_deterministic = true;
}

static bool visit(void *data, dnnl_primitive_desc_t *desc)
{
    seeker *s = data;
    char name[MP_ALGORITHM_NAME];
    name_of(s->convolution, s->pass, *desc, name);
    if (s->list) {
        if (!mp_convolution_is_slow(*desc)) put(s->list, name);
        return true;
    }
    if (strcmp(name, s->name) != 0) return true;
    s->found = *desc;
    *desc = NULL;
    return false;
}

/* Activations as they lie first, then as oneDNN wants them. */
static mp_status seek(seeker *s, mp_error *err)
{
    static const dnnl_alg_kind_t algorithms[] = {dnnl_convolution_direct, dnnl_convolution_winograd};
    const mp_convolution *c = s->convolution;
    dnnl_memory_desc_t src = mp_dnnl_any(&c->src), weights = mp_dnnl_any(&c->weights), dst = mp_dnnl_any(&c->dst);
    for (int a = 0; a < 2; a++)
        for (int any = 0; any < 2 && !s->found; any++)
            MP_CHECK(mp_convolution_each(c, s->pass, algorithms[a], any ? &src : &c->src, &weights, any ? &dst : &c->dst, visit,
                                         s, err));
    return MP_OK;
}

mp_status mp_convolution_algorithms(const mp_convolution *c, mp_convolution_pass pass, mp_algorithms *out, mp_error *err)
{
    mp_status st = MP_OK;
    seeker s = {.convolution = c, .pass = pass, .list = out};
    dnnl_primitive_desc_t best = NULL;
    char name[MP_ALGORITHM_NAME];
    out->n = 0;
    MP_TRY(mp_convolution_best(c, pass, &best, err));
    name_of(c, pass, best, name);
    put(out, name);
    MP_TRY(seek(&s, err));
done:
    if (best) dnnl_primitive_desc_destroy(best);
    return st;
}

mp_status mp_convolution_named(const mp_convolution *c, mp_convolution_pass pass, const char *name, dnnl_primitive_desc_t *out,
                               mp_error *err)
{
    seeker s = {.convolution = c, .pass = pass, .name = name};
    MP_CHECK(seek(&s, err));
    MP_ENSURE(s.found, err, MP_UNSUPPORTED, "%s ('%s'): oneDNN has no implementation '%s' of it here", c->op->kind, c->op->name,
              name);
    *out = s.found;
    return MP_OK;
}
