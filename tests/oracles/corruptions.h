/* corruptions.h - possible faults of a plan, each a small change. */
#pragma once

#include "tests/oracles/random_graph.h"

typedef struct corruption {
    const char *name;
    /* Changes a valid plan into a wrong one. False: the fault cannot occur in this plan, which may have been changed
     * nevertheless. */
    bool (*spoil)(const mp_graph *graph, mp_plan *plan, random_source *random);
    const char *fault; /* expected part of the checker's message */
    bool own_claim;    /* only memplan's own checker verifies this claim or rule; the independent verifier does not */
} corruption;

extern const corruption corruptions[], corruptions_of_places[], corruptions_beside[];
extern const size_t n_corruptions, n_corruptions_of_places, n_corruptions_beside;

/* Removes claims that a change of steps also makes wrong, so that the checker must find the change itself. */
void drop_claims(mp_plan *plan);

#define SPOIL(name) static bool name(const mp_graph *graph, mp_plan *plan, random_source *random)
#define UNUSED (void)graph, (void)random
