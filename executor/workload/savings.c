/* savings.c - measures how much memory other settings would save. It builds the graph again with one setting changed. It also
 * measures evenly spread checkpoints. */
#include "memplan/workloads/savings.h"

#include <stdio.h>
#include <string.h>

#include "estimator/training/adapters.h"
#include "estimator/training/training.h"
#include "formats/base/text.h"
#include "memplan/studies/sweep.h"
#include "memplan/studies/update_effect.h"
#include "memplan/workloads/other_rules.h"

enum { MOST_POINTS = 24 };

static void add(mp_savings *out, const char *what, int64_t peak_bytes, int64_t ticks)
{
    if (out->n == MP_SAVINGS_MAX || peak_bytes >= out->peak_bytes) return;
    mp_saving *row = &out->rows[out->n++];
    *row = (mp_saving){.peak_bytes = peak_bytes, .ticks = ticks};
    snprintf(row->what, sizeof row->what, "%s", what);
}

/* Adds the saving of one changed option; all other options stay as given. If memplan refuses the combination (for example
 * clipping with updates within backward), adds nothing. */
static mp_status try_options(const char *path, const mp_workload_options *asked, const char *what, mp_savings *out,
                             mp_error *err)
{
    mp_error ours = {0};
    mp_update_effect effect;
    MP_CLEARED_BY(mp_workload_free) mp_workload s = {0};
    if (mp_workload_load(path, asked, &s, &ours) == MP_OK && mp_update_effect_of(s.graph, 1, &effect, &ours) == MP_OK)
        add(out, what, effect.peak_bytes, -1);
    MP_ENSURE(ours.code != MP_NOMEM, err, MP_NOMEM, "%s", ours.message);
    return MP_OK;
}

/* Measures LoRA adapters at the default positions of the library peft: on queries and values, by their names in
 * transformers. */
static mp_status try_adapters(const mp_workload *s, const mp_workload_options *asked, mp_savings *out, mp_error *err)
{
    enum { LEAST = 4 };
    static const char *const names[][2] = {
        {"8:*[qv]_proj*"}, {"8:*query*", "8:*value*"}, {"8:*[qv]_lin*"}, {"8:*qkv*"}, {"8:*c_attn*"}};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        size_t matrices = 0;
        mp_workload_options own = *asked;
        own.lora = (mp_text_list){.items = (const char **)names[k], .n = names[k][1] ? 2 : 1};
        for (size_t i = 0; i < own.lora.n; i++) {
            int rank;
            const char *pattern;
            if (mp_adapter_read(names[k][i], &rank, &pattern)) matrices += mp_adapter_matrices(s->model, pattern);
        }
        if (matrices < LEAST) continue;
        const char *second = names[k][1] ? mp_text(" --lora '%s'", names[k][1]) : "";
        return try_options(s->path, &own, mp_text("--lora '%s'%s", names[k][0], second), out, err);
    }
    return MP_OK;
}

static mp_status try_segments(const mp_workload *s, mp_savings *out, mp_error *err)
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

mp_status mp_savings_find(const mp_workload_options *given_options, const mp_workload *s, int64_t peak_bytes, mp_savings *out,
                          mp_error *err)
{
    mp_workload_options changed_options = *given_options;
    *out = (mp_savings){.peak_bytes = peak_bytes};
    for (size_t k = 0; k < s->graph->n_nodes; k++) out->ticks += s->graph->nodes[k].alternatives[0].ticks;
    if (!s->model || s->graph->n_nodes > MP_WORKLOAD_TRIED_NODES) return MP_OK;
    if (strcmp(given_options->fuse, "backward") != 0 && given_options->clip_norm <= 0 && given_options->accumulate <= 1) {
        changed_options.fuse = "backward";
        MP_CHECK(try_options(s->path, &changed_options, "--fuse backward", out, err));
    }
    changed_options = *given_options;
    changed_options.optimizer = "sgd";
    if (strcmp(given_options->optimizer, "sgd") != 0 && strcmp(given_options->optimizer, "none") != 0)
        MP_CHECK(try_options(s->path, &changed_options, "--optimizer sgd", out, err));
    changed_options = *given_options;
    changed_options.dtype = "bf16";
    const bool is_fp32 = !strcmp(given_options->dtype, "fp32") && !strcmp(given_options->amp, "none");
    if (is_fp32) MP_CHECK(try_options(s->path, &changed_options, "--dtype bf16", out, err));
    changed_options = *given_options;
    changed_options.amp = "bf16";
    if (is_fp32) MP_CHECK(try_options(s->path, &changed_options, "--amp bf16", out, err));
    changed_options = *given_options;
    changed_options.batch = given_options->batch / 2;
    if (changed_options.batch > 0)
        MP_CHECK(try_options(s->path, &changed_options, mp_text("--batch %lld", (long long)changed_options.batch), out, err));
    if (!given_options->lora.n && !given_options->freeze.n) MP_CHECK(try_adapters(s, given_options, out, err));
    return try_segments(s, out, err);
}
