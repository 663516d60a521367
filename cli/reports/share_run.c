/* share_run.c - prints the trainings of the jobs of a split: losses, parameters and memory of each job alone and of all by
 * turns. */
#include "cli/reports/share.h"

#include <stdio.h>
#include <string.h>

#include "cli/messages/quantities.h"
#include "cli/messages/screen.h"
#include "formats/json/json.h"

void print_sharing_run(const mp_sharing *s, const mp_sharing_run *r)
{
    const mp_turns *t = &r->turns;
    puts("\nRun by turns, a step of each, in one arena:");
    screen_row("  %2s  %6s  %9s  %12s  %9s  %9s", "", "steps", "a step", "last loss", "losses", "weights");
    for (size_t i = 0; i < r->n; i++) {
        const mp_report *alone = &r->alone[i], *now = &t->reports[i];
        const bool losses = !memcmp(alone->losses, now->losses, now->n_losses * sizeof *now->losses);
        screen_row("  %2zu  %6zu  %9s  %12.6g  %9s  %9s  %s", i + 1, now->n_losses, seconds_text(now->step_seconds),
                   now->losses[now->n_losses - 1], losses ? "as alone" : "differ",
                   strcmp(alone->weights_hash, now->weights_hash) ? "differ" : "as alone",
                   mp_sharing_job_of(s, i)->workload.title);
    }
    screen_text(2, "  static %s, arena %s; of the arena %s bytes were used, %s", mp_bytes_text(t->static_bytes),
                mp_bytes_text(t->arena_bytes), count_text(t->measured_arena_bytes),
                mp_sharing_run_is_as_planned(r) ? "as planned" : mp_text("where %s are planned", count_text(t->arena_bytes)));
}

json_t *sharing_run_json(const mp_sharing_run *r)
{
    json_t *jobs = json_array();
    for (size_t i = 0; i < r->n; i++) {
        const mp_report *now = &r->turns.reports[i];
        json_t *losses = json_array();
        for (size_t k = 0; k < now->n_losses; k++) mp_json_append(&losses, json_real(now->losses[k]));
        mp_json_append(&jobs,
                       json_pack("{s:o, s:s, s:f, s:b}", "losses", losses, "weights_hash", now->weights_hash, "step_seconds",
                                 now->step_seconds, "identical", (int)mp_reports_are_same(&r->alone[i], now)));
    }
    return json_pack("{s:I, s:I, s:I, s:o}", "static_bytes", (json_int_t)r->turns.static_bytes, "arena_bytes",
                     (json_int_t)r->turns.arena_bytes, "measured_arena_bytes", (json_int_t)r->turns.measured_arena_bytes,
                     "jobs", jobs);
}
