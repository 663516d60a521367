/* cmd_timeline.c - the command timeline: draws the live bytes at each step of a plan. */
#include <string.h>

#include "cli/messages/messages.h"
#include "cli/options/commands.h"
#include "cli/options/load.h"
#include "cli/options/options.h"
#include "cli/options/picture_file.h"
#include "cli/reports/pipeline.h"
#include "executor/workload/workload.h"
#include "formats/canvas/canvas.h"
#include "formats/pages/trace.h"
#include "memplan/pictures/timeline_picture.h"

static mp_timeline_view view_of(const output_options *o)
{
    if (!strcmp(o->view, "all")) return MP_VIEW_ALL;
    return !strcmp(o->view, "arena") ? MP_VIEW_ARENA : MP_VIEW_MEMORY;
}

int cmd_timeline(options *o)
{
    mp_error err = {0};
    MP_CLEARED_BY(mp_workload_free) mp_workload s = {0};
    const mp_timeline_view view = view_of(&o->output);
    if (!o->output.out) return usage_error("timeline needs a file to draw into: -o timeline.svg");
    bool is_pipeline;
    if (pipeline_asked(o, &is_pipeline, &err) != MP_OK) return input_failed(&err);
    if (is_pipeline && !o->output.plan) return pipeline_timeline(o);
    picture_file file;
    const int rc = picture_file_settle(o, "svg, png, pdf, json", &file);
    if (rc != EXIT_DONE) return rc;
    const bool trace = mp_is_trace_path(file.path);
    if (!trace && mp_canvas_check_path(file.path, &err) != MP_OK) return usage_error("-o: %s, or .json", err.message);
    if (trace && option_given(o, OPT_VIEW)) return usage_error("--view is for pictures, not for a trace (-o FILE.json)");
    if (view == MP_VIEW_ARENA && !o->output.plan) return usage_error("--view arena needs --plan, a plan with offsets");
    if (load_workload_with_plan(o->operands[0], o->output.plan, o, &s, &err) != MP_OK) return input_failed(&err);
    if (view == MP_VIEW_ARENA && s.plan->n_places == 0) {
        complain("%s: the plan has no offsets, so there is no address map to draw: memplan plan writes them", o->output.plan);
        return EXIT_NO;
    }
    mp_status st = picture_file_open(&file, &err);
    if (st == MP_OK && trace) st = mp_trace_write(s.graph, s.plan, s.heading, file.path, &err);
    if (st == MP_OK && !trace) st = mp_timeline_picture(s.graph, s.plan, s.heading, view, file.path, &err);
    return picture_file_close(&file, &o->output, st, &err) == MP_OK ? EXIT_DONE : output_failed(&err);
}
