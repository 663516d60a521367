/* applied.h - what the frameworks' parts of apply share. */
#pragma once

#include "cli/apply/apply_report.h"
#include "cli/apply/blocks.h"

typedef struct applied {
    const subject *subject;
    const mp_graph *graph;
    const mp_plan *plan;
    mp_modules *modules;
    int64_t budget_bytes; /* of the plan; its peak where it has none */
    FILE *to;
    applied_means *found;
    mp_error *err;
} applied;

enum { APPLIED_TEXT_MAX = 1024 };

/* The first n bytes of a name (or all there are) between the quotes of Python: no name ends the text it stands in. `formatted`:
 * of an f-string. What does not fit into APPLIED_TEXT_MAX bytes is cut. Returns text. */
const char *applied_quoted(const char *name, int n, bool formatted, char *text);
/* A line of a list of names: "layers.3", */
void applied_list(const applied *x, const char *name);
/* "peak 4.79 GiB, time +10.0 %" */
void applied_cost(const applied *x, int64_t peak_bytes, int64_t ticks);
/* The first lines: what the plan is, and what is made of it. */
void applied_head(applied *x, const char *what, int64_t peak_bytes, int64_t ticks);
/* What the framework can do is not enough. */
mp_status applied_too_coarse(applied *x, const char *what, int64_t peak_bytes);
