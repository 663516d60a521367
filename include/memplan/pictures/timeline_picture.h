/* timeline_picture.h - a picture of memory use over the steps of a plan.
 *
 *     // given: const mp_graph *graph; const mp_plan *plan; mp_error *err
 *     MP_CHECK(mp_timeline_picture(graph, plan, "resnet50, batch 32", MP_VIEW_ALL, "timeline.svg", err));
 */
#pragma once

#include "memplan/plan.h"

typedef enum mp_timeline_view {
    MP_VIEW_ALL,    /* memory over the steps and, if the plan has offsets, the address map below */
    MP_VIEW_MEMORY, /* live memory by layer, and the largest tensors at the peak */
    MP_VIEW_ARENA   /* the address map */
} mp_timeline_view;

/* Draws the memory use of a plan for this graph (plan NULL: keep-all). `title` names the model. Each additional channel of
 * the graph has a lane with a bar from each step's issue to its wait. Views with live memory also have a panel per
 * additional tier, with live bytes, peak and budget. `path` ends in .svg, .png or .pdf; the file is replaced atomically.
 * MP_INVALID: the steps cannot run, MP_VIEW_ARENA is requested without offsets, or the path has another ending.
 * MP_UNSUPPORTED: the installed Graphviz cannot write the format. MP_IO, MP_NOMEM. */
mp_status mp_timeline_picture(const mp_graph *graph, const mp_plan *plan, const char *title, mp_timeline_view view,
                              const char *path, mp_error *err);
