/* same_timeline.h - compares the timeline with the simulator. */
#pragma once

#include "memplan/timeline.h"

/* Fails the test unless timeline and simulator agree on valid steps; the message contains `seed`. */
void same_timeline(const mp_graph *graph, const mp_step *steps, size_t n, unsigned long long seed);
