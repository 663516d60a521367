/* same_timeline.h - the timeline held against the simulator. */
#pragma once

#include "memplan/timeline.h"

/* Fails the test unless timeline and simulator agree on steps that obey all rules; `seed` is for the message. */
void same_timeline(const mp_graph *graph, const mp_step *steps, size_t n, unsigned long long seed);
