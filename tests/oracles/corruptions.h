/* corruptions.h - the ways in which a plan can be wrong, one small change each. */
#pragma once

#include "tests/oracles/random_graph.h"

typedef struct corruption {
    const char *name;
    /* Spoils a plan that holds; false: this plan has nothing of the kind (it may have been changed all the same). */
    bool (*spoil)(const mp_graph *graph, mp_plan *plan, random_source *random);
    const char *fault; /* part of the message that the checker has to give */
    bool own_claim;    /* about a claim that only our checker looks at */
} corruption;

extern const corruption corruptions[], corruptions_of_places[], corruptions_beside[];
extern const size_t n_corruptions, n_corruptions_of_places, n_corruptions_beside;

/* Drops what a change of the steps makes wrong as well, so that the checker has to find the change itself. */
void drop_claims(mp_plan *plan);

#define SPOIL(name) static bool name(const mp_graph *graph, mp_plan *plan, random_source *random)
#define UNUSED (void)graph, (void)random
