/* report_page.h - a report as one page for a browser. Private to formats/ and cli/. */
#pragma once

#include "memplan/plan.h"
#include "memplan/sweep.h"

typedef struct mp_report_request {
    const mp_graph *graph;
    const mp_plan *plan;   /* NULL: keep-all */
    const mp_sweep *sweep; /* NULL: no trade-off curve */
    const char *title;
    int64_t floor_bytes;
} mp_report_request;

/* Writes one HTML file that needs nothing else and loads nothing: a summary; live memory over the steps with zoom; the
 * tensors with search, lifetimes and, where the graph knows them, the lines of the network's program; the trade-off
 * curve; modules; checkpoints. The page shows at most 3,000 columns of steps and the 2,000 largest tensors. Atomic, as
 * mp_file_write. The same input gives the same page. MP_INVALID: no steps, or such that cannot run; MP_IO, MP_NOMEM. */
mp_status mp_report_page(const mp_report_request *request, const char *path, mp_error *err);
