/* report_page.h - writes a report on a plan as one HTML page. Private to formats/ and cli/. */
#pragma once

#include "memplan/plan.h"
#include "memplan/studies/sweep.h"

typedef struct mp_report_request {
    const mp_graph *graph;
    const mp_plan *plan;   /* the plan that the page shows; NULL: keep-all */
    const mp_sweep *sweep; /* the trade-off curve that the page shows; NULL: none */
    const char *title;
    int64_t floor_bytes;
} mp_report_request;

/* Writes a self-contained HTML file that loads nothing else. It shows a summary, the timeline picture with zoom,
 * the trade-off curve, modules, and checkpoints. It also lists the tensors with search, lifetimes and, if known, the source
 * lines in the user's program. The page shows at most 2,000 columns of steps and the 2,000 largest tensors. Atomic, as
 * mp_file_write. The same input gives the same page. MP_INVALID: no steps, or steps that cannot run. MP_UNSUPPORTED: the
 * installed Graphviz cannot write SVG. MP_IO, MP_NOMEM. */
mp_status mp_report_page(const mp_report_request *request, const char *path, mp_error *err);
