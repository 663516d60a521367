/* timeline_picture.h - a picture of memory over the steps of a training step.
 *
 *     MP_CHECK(mp_timeline_picture(graph, plan, "resnet50, batch 32", MP_VIEW_ALL, "timeline.svg", err));
 */
#pragma once

#include "memplan/plan.h"

typedef enum mp_timeline_view {
    MP_VIEW_ALL,    /* memory; below it the address map too, if the plan has offsets */
    MP_VIEW_MEMORY, /* live memory by layer, and the largest tensors at the peak */
    MP_VIEW_ARENA   /* the address map */
} mp_timeline_view;

/* Draws a plan of this graph (plan NULL: keep-all). `title` names the model. Each additional channel of the graph has a lane
 * with a bar from each step's issue to its wait. Views with live memory also have a panel per additional tier, with live bytes,
 * peak and budget. `path` ends in .svg, .png or .pdf; the file is replaced atomically. MP_INVALID: steps that cannot run,
 * MP_VIEW_ARENA without offsets, or another ending. MP_UNSUPPORTED: this Graphviz cannot write the format. MP_IO, MP_NOMEM. */
mp_status mp_timeline_picture(const mp_graph *graph, const mp_plan *plan, const char *title, mp_timeline_view view,
                              const char *path, mp_error *err);
