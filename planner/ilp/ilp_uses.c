/* ilp_uses.c - which place makes a storage, and which places need it. */
#include "planner/ilp/ilp_build.h"

#include "estimator/base/memory.h"

#include <stdlib.h>

static mp_status add_use(mp_ilp_builder *b, int storage, int place)
{
    if (!mp_grow(&b->uses, &b->uses_capacity, b->n_uses + 1, sizeof *b->uses)) return MP_NO_MEMORY(b->err);
    b->uses[b->n_uses++] = (mp_ilp_use){storage, place};
    return MP_OK;
}

static int compare_places(const void *a, const void *b)
{
    const int x = *(const int *)a, y = *(const int *)b;
    return x < y ? -1 : x > y;
}

/* Sorts and leaves each once; returns how many there are. */
static size_t unique(int *places, size_t n)
{
    size_t kept = 0;
    if (n) qsort(places, n, sizeof *places, compare_places);
    for (size_t k = 0; k < n; k++)
        if (kept == 0 || places[kept - 1] != places[k]) places[kept++] = places[k];
    return kept;
}

static int compare_uses(const void *a, const void *b)
{
    const mp_ilp_use *x = a, *y = b;
    if (x->storage != y->storage) return x->storage < y->storage ? -1 : 1;
    return x->place < y->place ? -1 : x->place > y->place;
}

/* The last place that makes s, of a sum the last adder. */
static int made_at(const mp_ilp_model *m, int s, const int *place_of)
{
    int last = m->birth[s];
    for (int a = m->graph->adders_start[s]; a < m->graph->adders_start[s + 1]; a++)
        if (place_of[m->graph->adders[a]] > last) last = place_of[m->graph->adders[a]];
    return last;
}

static bool reads_in_base(const mp_ilp_model *m, int place, int s)
{
    const mp_form *form = mp_ilp_form(m, place);
    for (size_t i = 0; i < form->n_reads; i++)
        if (form->reads[i] == s) return true;
    return false;
}

/* An update that is fused into backward waits for what it reads and for the readers of what it writes. Its gradients are held
 * for them: these places count as uses of all that it reads. Otherwise what updates read is held to the end. */
static mp_status add_uses_of_update(mp_ilp_builder *b, int update, const int *place_of)
{
    mp_status st = MP_OK;
    const mp_ilp_model *m = b->m;
    const mp_graph *graph = m->graph;
    const mp_form *form = &graph->nodes[update].forms[0];
    size_t n = 0;
    for (size_t w = 0; w < form->n_writes; w++)
        for (int k = graph->readers_start[form->writes[w]]; k < graph->readers_start[form->writes[w] + 1]; k++) {
            const int place = place_of[graph->readers[k]];
            if (place >= 0 && reads_in_base(m, place, form->writes[w])) b->waits[n++] = place;
            if (n > (size_t)m->n_places) n = unique(b->waits, n);
        }
    for (size_t r = 0; r < form->n_reads; r++) {
        if (m->birth[form->reads[r]] >= 0) b->waits[n++] = made_at(m, form->reads[r], place_of);
        if (n > (size_t)m->n_places) n = unique(b->waits, n);
    }
    n = unique(b->waits, n);
    for (size_t r = 0; r < form->n_reads; r++) {
        const int s = form->reads[r];
        if (m->birth[s] < 0) continue;
        if (graph->fuse == MP_FUSE_NONE) MP_TRY(add_use(b, s, m->n_places));
        for (size_t k = 0; k < n && graph->fuse == MP_FUSE_BACKWARD; k++)
            if (b->waits[k] != m->birth[s]) MP_TRY(add_use(b, s, b->waits[k]));
        if (!b->held_for[update]) b->held_for[update] = s + 1;
    }
done:
    return st;
}

mp_status mp_ilp_collect_uses(mp_ilp_builder *b)
{
    mp_status st = MP_OK;
    mp_ilp_model *m = b->m;
    const mp_graph *graph = m->graph;
    int *place_of = mp_alloc(graph->n_nodes, sizeof *place_of);
    if (!place_of) return MP_NO_MEMORY(b->err);
    for (size_t s = 0; s < graph->n_storages; s++) m->birth[s] = -1;
    for (size_t i = 0; i < graph->n_nodes; i++) place_of[i] = -1;
    for (int p = 0; p < m->n_places; p++) {
        const mp_form *form = mp_ilp_form(m, p);
        place_of[m->node[p]] = p;
        for (size_t i = 0; i < form->n_writes + form->n_adds; i++) {
            const int s = i < form->n_writes ? form->writes[i] : form->adds[i - form->n_writes];
            if (mp_storage_is_static(&graph->storages[s])) continue;
            if (m->birth[s] < 0)
                m->birth[s] = p;
            else
                MP_TRY(add_use(b, s, p)); /* a further contribution to a sum */
        }
        for (size_t i = 0; i < form->n_reads; i++)
            if (m->birth[form->reads[i]] >= 0) MP_TRY(add_use(b, form->reads[i], p));
    }
    for (size_t s = 0; s < graph->n_storages; s++)
        if (graph->storages[s].carried && m->birth[s] >= 0) MP_TRY(add_use(b, (int)s, m->n_places));
    for (size_t i = 0; i < graph->n_nodes; i++)
        if (graph->nodes[i].phase == MP_PHASE_UPDATE) MP_TRY(add_uses_of_update(b, (int)i, place_of));
    if (b->n_uses) qsort(b->uses, b->n_uses, sizeof *b->uses, compare_uses);
    m->uses = mp_alloc(b->n_uses, sizeof *m->uses);
    if (!m->uses) {
        st = MP_NO_MEMORY(b->err);
        goto done;
    }
    size_t n = 0;
    for (size_t s = 0, k = 0; s < graph->n_storages; s++) {
        m->uses_start[s] = (int)n;
        for (int last = -1; k < b->n_uses && b->uses[k].storage == (int)s; k++) {
            if (b->uses[k].place != last) m->uses[n++] = b->uses[k].place;
            last = b->uses[k].place;
        }
    }
    m->uses_start[graph->n_storages] = (int)n;
done:
    mp_free(place_of);
    return st;
}
