/* ilp_build.h - what the files share that build the integer programme of recomputation. Not for others. */
#ifndef PLANNER_ILP_BUILD_H
#define PLANNER_ILP_BUILD_H

#include "planner/ilp/ilp.h"

typedef struct mp_ilp_use {
    int storage, place;
} mp_ilp_use;

typedef struct mp_ilp_builder {
    mp_ilp_model *m;
    mp_ilp_use *uses;
    size_t n_uses, uses_capacity;
    bool *needed;  /* per place, for one stage: running it again can be of use */
    int *waits;    /* room for the places that an update waits for */
    int *held_for; /* per node: 1 + some storage that is held for this update; 0: none */
    mp_error *err;
} mp_ilp_builder;

static inline const mp_form *mp_ilp_form(const mp_ilp_model *m, int place)
{
    return &m->graph->nodes[m->node[place]].forms[0];
}
/* Where the numbers of columns stand. */
static inline int *mp_ilp_run(const mp_ilp_model *m, int stage, int place)
{
    return &m->run[(size_t)stage * (size_t)m->n_places + (size_t)place];
}
static inline int *mp_ilp_held(const mp_ilp_model *m, int stage, int storage)
{
    return &m->held[(size_t)stage * m->graph->n_storages + (size_t)storage];
}
static inline int *mp_ilp_used(const mp_ilp_model *m, int stage, int storage)
{
    return &m->used[(size_t)stage * m->graph->n_storages + (size_t)storage];
}

/* Appends a column and tells its number. MP_NOMEM. */
mp_status mp_ilp_add_column(mp_ilp_builder *b, mp_ilp_column column, int *index);
/* Whether s is used in stage i at `place` or after it by what runs there in any case. */
bool mp_ilp_has_fixed_use(const mp_ilp_model *m, int i, int s, int place);
/* birth, uses_start and uses of the model; held_for. MP_NOMEM. */
mp_status mp_ilp_collect_uses(mp_ilp_builder *b);
/* The rows of all stages, and the columns of in-place pairs. MP_NOMEM. */
mp_status mp_ilp_add_rows(mp_ilp_builder *b);

#endif
