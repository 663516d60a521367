/* cmd_profile.c - measures what each node of the training step takes on the machine at hand. */
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/messages.h"
#include "cli/quantities.h"
#include "cli/train_report.h"
#include "formats/costs_json.h"
#include "planner/arena.h"

enum { STEPS = 5 }; /* without --steps; the first one warms up and does not count */

static mp_status measure(const options *o, train_outcome *t, mp_error *err)
{
    mp_status st = MP_OK;
    mp_feed *feed = NULL;
    mp_parameter_source *source = NULL;
    mp_hyper hyper = mp_hyper_default((mp_optimizer)mp_optimizer_find(o->optimizer));
    mp_train_request request = {.program = t->subject.program,
                                .execution = {.hyper = hyper, .seed = (uint64_t)o->seed, .profile = true},
                                .n_steps = o->steps > 1 ? o->steps : STEPS};
    MP_TRY(train_keep_all(t->subject.graph, &t->plan, err));
    MP_TRY(mp_parameter_source_open(t->subject.program, o->operands[0], (uint64_t)o->seed, &source, err));
    MP_TRY(mp_inputs_open_feed(t->subject.program, NULL, 0, (uint64_t)o->seed, &feed, err));
    request.plan = t->plan;
    request.feed = feed;
    request.parameters = source;
    MP_TRY(mp_train(&request, &t->after, err));
    double steps = (double)(t->after.n_losses - 1);
    for (size_t k = 0; k < t->subject.graph->n_nodes; k++) t->after.node_seconds[k] /= steps;
done:
    mp_feed_free(feed);
    mp_parameter_source_free(source);
    return st;
}

int cmd_profile(options *o)
{
    mp_error err = {0};
    train_outcome t = {0};
    int rc = EXIT_DONE;
    if (!o->out) return usage_error("profile needs a file to write: -o costs.json");
    if (!option_given(o, OPT_DEVICE)) o->device = "cpu";
    mp_status st = subject_load(o->operands[0], o, &t.subject, &err);
    if (st == MP_OK && !t.subject.program) st = MP_FAIL(&err, MP_INVALID, "profile runs a model on a backend: --device cpu");
    if (st == MP_OK && t.subject.program->bindings->loss < 0)
        st = MP_FAIL(&err, MP_INVALID, "a training step has a loss, so --loss none is not for profile");
    if (st != MP_OK) {
        rc = input_failed(&err);
    } else if (measure(o, &t, &err) != MP_OK || mp_costs_write(o->out, t.subject.graph, t.after.node_seconds, &err) != MP_OK) {
        rc = output_failed(&err);
    } else if (strcmp(o->out, "-") != 0) {
        char title[256], text[QUANTITY_MAX];
        printf("%s, %s: a step takes %s with everything kept.\n", subject_title(&t.subject, title, sizeof title),
               t.subject.graph->target, seconds_text(t.after.step_seconds, text));
        print_profile(t.subject.graph, t.after.node_seconds, 1);
    }
    mp_report_free(&t.after);
    mp_plan_free(t.plan);
    subject_free(&t.subject);
    return rc;
}
