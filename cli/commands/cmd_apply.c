/* cmd_apply.c - prints a plan in the words of a framework. */
#include <string.h>

#include "cli/messages/messages.h"
#include "cli/options/commands.h"
#include "cli/reports/apply_report.h"

int cmd_apply(options *o)
{
    mp_error err = {0};
    subject s = {0};
    mp_plan *plan = NULL;
    bool fits = true;
    int rc = EXIT_DONE;
    if (!o->framework) return usage_error("apply needs a framework: --for pytorch");
    if (subject_load_with_plan(o->operands[0], o->operands[1], o, &s, &plan, &err) != MP_OK) {
        rc = err.code == MP_REFUTED ? output_failed(&err) : input_failed(&err);
    } else if (report_apply(&s, plan, o->framework, &fits, &err) != MP_OK) {
        rc = input_failed(&err);
    } else {
        if (strcmp(o->rules, "pytorch") && strcmp(o->framework, "paddle") && strcmp(o->framework, "jax"))
            complain("counted as memplan itself trains; a plan made with --rules pytorch counts what PyTorch keeps");
        rc = fits ? EXIT_DONE : EXIT_NO;
    }
    mp_plan_free(plan);
    subject_free(&s);
    return rc;
}
