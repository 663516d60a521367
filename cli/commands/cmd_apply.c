/* cmd_apply.c - the command apply: prints settings of a framework that come close to a plan. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/apply/apply.h"
#include "cli/messages/messages.h"
#include "cli/options/commands.h"
#include "cli/options/load.h"
#include "cli/options/options.h"
#include "cli/reports/report.h"
#include "formats/base/text.h"
#include "formats/json/json.h"

static double overhead(const mp_plan *plan, int64_t ticks)
{
    return plan->baseline_ticks > 0 ? (double)ticks / (double)plan->baseline_ticks - 1 : 0;
}

static json_t *apply_json(const options *o, const mp_workload *s, const applied_means *found, const char *text)
{
    const mp_plan *plan = s->plan;
    return json_pack("{s:o, s:s, s:b, s:I, s:o, s:I, s:f, s:I, s:o}", "model", mp_json_text(s->graph->name), "framework",
                     o->output.framework, "fits", found->fits, "peak_bytes", (json_int_t)found->peak_bytes, "overhead",
                     mp_json_real_if(found->ticks >= 0, overhead(plan, found->ticks)), "plan_peak_bytes",
                     (json_int_t)plan->peak_bytes, "plan_overhead", overhead(plan, plan->ticks), "baseline_peak_bytes",
                     (json_int_t)plan->baseline_peak_bytes, "text", mp_json_text(text));
}

/* Prints the lines of code to standard output. With --json, stores them as a text in the JSON answer. */
static mp_status print_lines(const options *o, const mp_workload *s, applied_means *found, mp_error *err)
{
    MP_OWNED_BY(free) char *text = NULL;
    size_t size;
    FILE *to = o->talk.json ? open_memstream(&text, &size) : stdout;
    MP_ENSURE(to, err, MP_NOMEM, "out of memory");
    mp_status st = report_apply(s, o->output.framework, to, found, err);
    if (to == stdout) return st;
    if (fclose(to) != 0 && st == MP_OK) st = MP_FAIL(err, MP_NOMEM, "out of memory");
    if (st == MP_OK) st = answer_in_json("apply", apply_json(o, s, found, text), err);
    return st;
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
    applied_means found;
    if (!o->output.framework) return usage_error("apply needs a framework: --for pytorch");
    if (load_workload_with_plan(o->operands[0], o->operands[1], o, &s, &err) != MP_OK || refuse_copies(o, &err) != MP_OK ||
        print_lines(o, &s, &found, &err) != MP_OK)
        return input_failed(&err);
    if (strcmp(o->model.rules, "pytorch") && strcmp(o->output.framework, "paddle") && strcmp(o->output.framework, "jax"))
        complain("counted as memplan itself trains; a plan made with --rules pytorch counts what PyTorch keeps");
    return found.fits ? EXIT_DONE : EXIT_NO;
}
