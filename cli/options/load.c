/* load.c - loads the workload of a command, and prints its notes on standard error. */
#include "cli/options/load.h"

#include <string.h>

#include "cli/messages/messages.h"
#include "cli/options/options.h"
#include "executor/workload/workload.h"
#include "memplan/workloads/row_chunks.h"

int refuse_open_chunks(const options *o)
{
    if (!mp_row_chunks_are_open(&o->model)) return EXIT_DONE;
    return usage_error("--row-chunks auto applies to plan and fit, because the best numbers differ between budgets; state the "
                       "numbers that 'memplan plan --row-chunks auto' chooses, such as head=8");
}

mp_status refuse_model_options(const char *path, const options *o, mp_error *err)
{
    MP_ABOUT(err, path);
    if (!mp_workload_is_graph(path)) return MP_OK;
    for (int k = 0; k < N_OPTIONS; k++)
        if (option_rows[k].key && option_given(o, (option_id)k))
            return MP_FAIL(err, MP_INVALID, "--%s applies to models, but the input is a training graph", option_rows[k].name);
    return MP_OK;
}

/* True if the command that made the plan has printed notes of this kind: notes about guessed settings and about the accuracy of
 * seconds. */
static bool was_printed_by_plan(mp_note_kind kind)
{
    return kind == MP_NOTE_GUESSES || kind == MP_NOTE_ACCURACY;
}

static void print_notes_of(const mp_workload *w, size_t first, bool is_planned, bool hides_accuracy)
{
    static const char *told[MP_N_NOTE_KINDS]; /* per kind of note: path of the model whose notes were printed last */
    bool is_new[MP_N_NOTE_KINDS];
    for (int k = 0; k < MP_N_NOTE_KINDS; k++) is_new[k] = !told[k] || strcmp(told[k], w->path) != 0;
    for (size_t k = first; k < w->n_notes; k++) {
        const mp_note *note = &w->notes[k];
        if (is_planned && was_printed_by_plan(note->kind)) continue;
        if (hides_accuracy && note->kind == MP_NOTE_ACCURACY) continue;
        if (is_new[note->kind] || note->kind == MP_NOTE_CHECKPOINT) complain("%s", note->text);
        told[note->kind] = w->path;
    }
}

void print_notes(const mp_workload *w, size_t first)
{
    print_notes_of(w, first, false, false);
}

static void print_new_notes(const options *o, const mp_workload *w)
{
    if (!o->talk.hides_notes) print_notes_of(w, 0, o->model.adopted, o->talk.hides_accuracy);
}

mp_status load_workload(const char *path, const options *o, mp_workload *out, mp_error *err)
{
    MP_CHECK(refuse_model_options(path, o, err));
    const mp_status st = mp_workload_load(path, &o->model, out, err);
    print_new_notes(o, out);
    return st;
}

mp_status load_workload_as_planned(const char *path, const char *plan_path, options *o, mp_workload *out, mp_error *err)
{
    MP_CHECK(refuse_model_options(path, o, err));
    const mp_status st = mp_workload_load_as_planned(path, plan_path, &o->model, o->given, out, err);
    print_new_notes(o, out);
    return st;
}

mp_status load_workload_with_plan(const char *path, const char *plan_path, options *o, mp_workload *out, mp_error *err)
{
    MP_CHECK(refuse_model_options(path, o, err));
    const mp_status st = mp_workload_load_with_plan(path, plan_path, &o->model, o->given, out, err);
    print_new_notes(o, out);
    return st;
}

const char *workload_program(const mp_workload *w)
{
    if (!json_object_get(w->details->options, "rules")) return "";
    return mp_workload_rules(w) == MP_RULES_PYTORCH ? ", in PyTorch" : ", in memplan";
}
