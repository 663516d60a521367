/* chain.c - compares the addresses of the calls of a chain. */
#include "executor/kernel/chain.h"

/* Memory that a call reads or writes. A workspace holds other data than arrays, so it must be disjoint from all of them. */
typedef struct area {
    const char *from, *to;
    bool writes, is_workspace;
} area;

/* Calls with more arrays are not chained. */
enum { AREAS = 32 };

static bool put(area *list, int *n, const mp_array *arrays, int n_arrays, bool writes)
{
    for (int k = 0; k < n_arrays; k++) {
        const char *data = arrays[k].data;
        if (!arrays[k].dtype || !data) continue;
        if (*n == AREAS) return false;
        list[(*n)++] = (area){data, data + mp_array_bytes(&arrays[k]), writes, false};
    }
    return true;
}

static bool areas_of(const mp_call_chain_link *link, area *list, int *n)
{
    const mp_operands *x = link->x;
    const char *room = x->workspace;
    *n = 0;
    if (room && link->uses_workspace) list[(*n)++] = (area){room, room + link->call->workspace_bytes, true, true};
    if (!put(list, n, x->in, x->n_in, false) || !put(list, n, x->out, x->n_out, !x->is_backward) ||
        !put(list, n, x->extra, MP_EXTRAS_MAX, !x->is_backward))
        return false;
    return !x->is_backward || (put(list, n, x->d_out, x->n_out, false) && put(list, n, x->d_in, x->n_in, true));
}

static bool are_compatible(const area *a, const area *b)
{
    const bool is_same = a->from == b->from && a->to == b->to;
    if (!a->writes && !b->writes) return true;
    if (a->to <= b->from || b->to <= a->from) return true;
    return is_same && !a->is_workspace && !b->is_workspace;
}

bool mp_call_chain_is_safe(const mp_call_chain *chain)
{
    area areas[MP_CHAIN_LINKS][AREAS];
    int n[MP_CHAIN_LINKS];
    for (size_t i = 0; i < chain->n; i++)
        if (!areas_of(&chain->links[i], areas[i], &n[i])) return false;
    for (size_t i = 0; i < chain->n; i++)
        for (size_t j = 0; j < i; j++)
            for (int a = 0; a < n[i]; a++)
                for (int b = 0; b < n[j]; b++)
                    if (!are_compatible(&areas[i][a], &areas[j][b])) return false;
    return true;
}
