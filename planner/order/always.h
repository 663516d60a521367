/* always.h - what a node reads, writes and adds to whatever alternative it takes: that part of mp_precedence. */
#pragma once

#include "planner/order/precedence.h"

/* True if the node always adds to s, writes it, or reads it; the last is for storages that are not always live. */
bool mp_always_adds(const mp_precedence *order, int node, int s);
bool mp_always_writes(const mp_precedence *order, int node, int s);
bool mp_always_reads(const mp_precedence *order, int node, int s);
/* The same of reads of storages that are always live too. */
bool mp_always_reads_any(const mp_precedence *order, int node, int s);
/* True if the contributions to s always come one after the other, so that the first and the last stand for all. */
bool mp_adds_in_turn(const mp_precedence *order, int s);

/* For mp_precedence_new: allocates and fills all that precedence.h calls "always", and what holds of each node alone;
 * mp_precedence_free releases it, after a failure too. MP_NOMEM. O(total list length * log). */
mp_status mp_precedence_find_always(mp_precedence *order, mp_error *err);
