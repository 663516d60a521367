/* cmd_apply.c - the command apply: prints settings of a framework that come close to a plan. */
#include <string.h>

#include "cli/messages/messages.h"
#include "cli/options/commands.h"
#include "cli/options/load.h"
#include "cli/options/options.h"
#include "cli/reports/report.h"
#include "executor/workload/workload_source.h"
#include "formats/base/file.h"
#include "formats/json/json.h"
#include "memplan/framework_code.h"

static double overhead(const mp_plan *plan, int64_t ticks)
{
    return plan->baseline_ticks > 0 ? (double)ticks / (double)plan->baseline_ticks - 1 : 0;
}

static json_t *apply_json(const options *o, const mp_workload *s, const mp_framework_code *found)
{
    const mp_plan *plan = s->plan;
    return json_pack("{s:o, s:s, s:b, s:I, s:o, s:I, s:f, s:I, s:o}", "model", mp_json_text(s->graph->name), "framework",
                     o->output.framework, "fits", found->fits, "peak_bytes", (json_int_t)found->peak_bytes, "overhead",
                     mp_json_real_if(found->ticks >= 0, overhead(plan, found->ticks)), "plan_peak_bytes",
                     (json_int_t)plan->peak_bytes, "plan_overhead", overhead(plan, plan->ticks), "baseline_peak_bytes",
                     (json_int_t)plan->baseline_peak_bytes, "text", mp_json_text(found->text));
}

/* Prints the lines of code to standard output. With --json, stores them as a text in the JSON answer. */
static mp_status print_lines(const options *o, const mp_workload *s, mp_framework_code *found, mp_error *err)
{
    const mp_loss_chunks *head = &s->details->loss_chunks;
    const mp_framework_request request = {.graph = s->graph,
                                          .plan = s->plan,
                                          .title = s->title,
                                          .architecture = s->model && !s->file ? mp_workload_architecture(s->path) : NULL,
                                          .has_model = s->model,
                                          .head_chunks = head->n,
                                          .head_rows = head->n ? (head->n_rows + head->n - 1) / head->n : 0};
    MP_CHECK(mp_framework_code_of(&request, (mp_framework)mp_framework_find(o->output.framework), found, err));
    if (o->talk.json) return answer_in_json("apply", apply_json(o, s, found), err);
    return mp_file_write_parts("-", (const mp_file_part[]){{found->text, strlen(found->text)}}, 1, err);
}

static mp_status refuse_copies(const options *o, mp_error *err)
{
    MP_ABOUT(err, o->operands[0]);
    MP_ENSURE(!o->model.offload.n, err, MP_UNSUPPORTED,
              "the plan uses --offload, which 'memplan apply' does not support; make the plan without --offload");
    return MP_OK;
}

int cmd_apply(options *o)
{
    mp_error err = {0};
    MP_CLEARED_BY(mp_workload_free) mp_workload s = {0};
    MP_CLEARED_BY(mp_framework_code_free) mp_framework_code found = {0};
    if (!o->output.framework) return usage_error("apply needs a framework: --for pytorch");
    if (load_workload_with_plan(o->operands[0], o->operands[1], o, &s, &err) != MP_OK || refuse_copies(o, &err) != MP_OK ||
        print_lines(o, &s, &found, &err) != MP_OK)
        return input_failed(&err);
    if (strcmp(o->model.rules, "pytorch") && strcmp(o->output.framework, "paddle") && strcmp(o->output.framework, "jax"))
        complain("counted as memplan itself trains; a plan made with --rules pytorch counts what PyTorch keeps");
    return found.fits ? EXIT_DONE : EXIT_NO;
}
