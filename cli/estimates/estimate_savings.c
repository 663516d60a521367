/* estimate_savings.c - measures how much memory other options would save. It builds the graph again with one option changed. It
 * also measures evenly spread checkpoints. */
#include "cli/estimates/estimate.h"
#include "cli/options/load.h"
#include "cli/options/options.h"
#include "executor/workload/other_rules.h"

#include <stdio.h>
#include <string.h>

#include "cli/messages/quantities.h"
#include "cli/messages/screen.h"
#include "estimator/training/adapters.h"
#include "estimator/training/training.h"
#include "formats/json/json.h"
#include "memplan/sweep.h"
#include "memplan/update_effect.h"

enum { MOST_POINTS = 24 };

static void add(savings *out, const char *what, int64_t peak_bytes, int64_t ticks)
{
    if (out->n == SAVINGS_MAX || peak_bytes >= out->peak_bytes) return;
    saving *row = &out->rows[out->n++];
    *row = (saving){.peak_bytes = peak_bytes, .ticks = ticks};
    snprintf(row->what, sizeof row->what, "%s", what);
}

/* Adds the saving of one changed option; all other options stay as given. If memplan refuses the combination (for example
 * clipping with updates within backward), adds nothing. */
static mp_status try_options(const options *asked, const char *what, savings *out, mp_error *err)
{
    mp_error ours = {0};
    mp_update_effect effect;
    MP_CLEARED_BY(mp_workload_free) mp_workload s = {0};
    if (load_workload(asked->operands[0], asked, &s, &ours) == MP_OK &&
        mp_update_effect_of(s.graph, 1, &effect, &ours) == MP_OK)
        add(out, what, effect.peak_bytes, -1);
    MP_ENSURE(ours.code != MP_NOMEM, err, MP_NOMEM, "%s", ours.message);
    return MP_OK;
}

/* Measures LoRA adapters at the default positions of the library peft: on queries and values, by their names in
 * transformers. */
static mp_status try_adapters(const options *asked, const mp_model *model, savings *out, mp_error *err)
{
    enum { LEAST = 4 };
    static const char *const names[][2] = {
        {"8:*[qv]_proj*"}, {"8:*query*", "8:*value*"}, {"8:*[qv]_lin*"}, {"8:*qkv*"}, {"8:*c_attn*"}};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        size_t matrices = 0;
        options own = *asked;
        own.model.lora = (mp_text_list){.items = (const char **)names[k], .n = names[k][1] ? 2 : 1};
        for (size_t i = 0; i < own.model.lora.n; i++) {
            int rank;
            const char *pattern;
            if (mp_adapter_read(names[k][i], &rank, &pattern)) matrices += mp_adapter_matrices(model, pattern);
        }
        if (matrices < LEAST) continue;
        const char *second = names[k][1] ? mp_text(" --lora '%s'", names[k][1]) : "";
        return try_options(&own, mp_text("--lora '%s'%s", names[k][0], second), out, err);
    }
    return MP_OK;
}

static mp_status try_segments(const mp_workload *s, savings *out, mp_error *err)
{
    mp_error ours = {0};
    MP_OWNED mp_spread_point *points = NULL;
    size_t n = 0, best = 0;
    const mp_status st = mp_spread(s->graph, MOST_POINTS, &points, &n, &ours);
    if (st != MP_OK && st != MP_NOT_APPLICABLE) {
        *err = ours;
        return st;
    }
    for (size_t k = 0; k < n; k++)
        if (points[k].peak_bytes < points[best].peak_bytes) best = k;
    if (n)
        add(out,
            mp_text("recomputing all between %zu checkpoint%s", points[best].n_checkpoints,
                    points[best].n_checkpoints == 1 ? "" : "s"),
            points[best].peak_bytes, points[best].ticks);
    return MP_OK;
}

mp_status savings_find(const options *o, const mp_workload *s, int64_t peak_bytes, savings *out, mp_error *err)
{
    options asked = *o;
    *out = (savings){.peak_bytes = peak_bytes};
    for (size_t k = 0; k < s->graph->n_nodes; k++) out->ticks += s->graph->nodes[k].alternatives[0].ticks;
    if (!s->model || s->graph->n_nodes > MP_WORKLOAD_TRIED_NODES) return MP_OK;
    if (strcmp(o->model.fuse, "backward") != 0 && o->model.clip_norm <= 0 && o->model.accumulate <= 1) {
        asked.model.fuse = "backward";
        MP_CHECK(try_options(&asked, "--fuse backward", out, err));
    }
    asked = *o;
    asked.model.optimizer = "sgd";
    if (strcmp(o->model.optimizer, "sgd") != 0 && strcmp(o->model.optimizer, "none") != 0)
        MP_CHECK(try_options(&asked, "--optimizer sgd", out, err));
    asked = *o;
    asked.model.dtype = "bf16";
    const bool is_fp32 = !strcmp(o->model.dtype, "fp32") && !strcmp(o->model.amp, "none");
    if (is_fp32) MP_CHECK(try_options(&asked, "--dtype bf16", out, err));
    asked = *o;
    asked.model.amp = "bf16";
    if (is_fp32) MP_CHECK(try_options(&asked, "--amp bf16", out, err));
    asked = *o;
    asked.model.batch = o->model.batch / 2;
    if (asked.model.batch > 0) MP_CHECK(try_options(&asked, mp_text("--batch %lld", (long long)asked.model.batch), out, err));
    if (!o->model.lora.n && !o->model.freeze.n) MP_CHECK(try_adapters(o, s->model, out, err));
    return try_segments(s, out, err);
}

void report_savings(const savings *s, size_t most)
{
    if (!s->n) return;
    puts("What would help, each by itself:");
    for (size_t k = 0; k < s->n; k++) {
        const saving *row = &s->rows[k];
        const int64_t saved = s->peak_bytes - row->peak_bytes;
        size_t n_better = 0;
        for (size_t i = 0; i < s->n; i++) n_better += s->rows[i].peak_bytes < row->peak_bytes;
        if (n_better >= most) continue;
        screen_row("  %-38s %12s  %+6.1f %%%s", row->what, mp_text("-%s", mp_bytes_text(saved)),
                   -100.0 * (double)saved / (double)s->peak_bytes,
                   row->ticks >= 0 ? mp_text("  %s time", extra_text((double)row->ticks, (double)s->ticks)) : "");
    }
}

json_t *savings_json(const savings *s)
{
    json_t *list = json_array();
    for (size_t k = 0; k < s->n; k++) {
        const saving *row = &s->rows[k];
        mp_json_append(&list, json_pack("{s:o, s:I, s:o}", "what", mp_json_text(row->what), "peak_bytes",
                                        (json_int_t)row->peak_bytes, "overhead",
                                        mp_json_real_if(row->ticks >= 0 && s->ticks > 0,
                                                        s->ticks > 0 ? (double)row->ticks / (double)s->ticks - 1 : 0)));
    }
    return list;
}
