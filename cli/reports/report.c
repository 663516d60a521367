/* report.c - prints parts that several commands share: the storages that are live at the peak, static memory by kind, and names
 * of nodes. It also prints the kernels that compute attention, the data that a rank sends, and the peak under the other rules
 * (PyTorch's or memplan's). */
#include "cli/reports/report.h"

#include <stdio.h>
#include <string.h>

#include "cli/messages/messages.h"
#include "cli/messages/print.h"
#include "cli/messages/quantities.h"
#include "cli/messages/screen.h"
#include "executor/operators/aligned_rows.h"
#include "executor/program/program.h"
#include "formats/base/distinct_names.h"
#include "formats/base/file.h"
#include "formats/json/json.h"

enum { HOLDERS = 5, NAMED = 2, SHORT_NAME = 36 };

const char *static_text(const mp_graph *graph)
{
    static const char *const plural[MP_N_KINDS] = {[MP_KIND_PARAMETER] = "parameters",
                                                   [MP_KIND_OPTIMIZER_STATE] = "optimizer state",
                                                   [MP_KIND_BUFFER] = "buffers",
                                                   [MP_KIND_CONSTANT] = "constants",
                                                   [MP_KIND_INPUT] = "batch and outputs",
                                                   [MP_KIND_ACTIVATION] = "activations",
                                                   [MP_KIND_SAVED] = "saved",
                                                   [MP_KIND_GRADIENT] = "gradients",
                                                   [MP_KIND_ACTIVATION_GRADIENT] = "gradients of activations"};
    int64_t bytes[MP_N_KINDS] = {0};
    const int64_t all = mp_graph_static_bytes(graph);
    const char *kinds = "";
    for (size_t s = 0; s < graph->n_storages; s++)
        if (mp_storage_is_static(&graph->storages[s]) && graph->storages[s].tier == MP_TIER_DEVICE)
            bytes[graph->storages[s].kind] += graph->storages[s].bytes;
    for (int k = 0; k < MP_N_KINDS; k++)
        if (bytes[k]) kinds = mp_text("%s%s%s %s", kinds, *kinds ? ", " : "", plural[k], mp_bytes_text(bytes[k]));
    return all ? mp_text("static: %s (%s)", mp_bytes_text(all), kinds) : "static: nothing";
}

const char *node_text(const mp_graph *graph, int node)
{
    const mp_node *n = &graph->nodes[node];
    const char *phase = mp_phase_name(n->phase);
    const bool named = n->name && *n->name, op = n->op && *n->op, said = named && strstr(n->name, phase);
    const mp_label label = mp_node_label(graph, node);
    const char *name = named ? n->name : label.text;
    if (!op && said) return mp_text("%s", name);
    return mp_text("%s (%s%s%s)", name, op ? n->op : "", op && !said ? " " : "", said ? "" : phase);
}

/* Returns a name that is shortened to *most bytes. Its middle is omitted, because the begin and the end are most informative.
 * A mark is inserted between two gaps. */
static const char *elided(const char *name, const char *mark, const void *most)
{
    const size_t length = *(const size_t *)most, n = strlen(name);
    const char *gap = *mark ? mp_text("...%s...", mark) : "...";
    if (!*mark && n <= length) return name;
    const size_t space = length - strlen(gap), kept = space < n ? space : n;
    size_t head = kept / 2, tail = n - (kept - kept / 2);
    /* moves back to the first byte of a UTF-8 character, so that no character is split */
    while (head > 0 && ((unsigned char)name[head] & 0xC0) == 0x80) head--;
    while (tail < n && ((unsigned char)name[tail] & 0xC0) == 0x80) tail++;
    return mp_text("%.*s%s%s", (int)head, name, gap, name + tail);
}

/* Prints the peak in one sentence, with its node and the largest live storages. */
static void report_peak_shortly(const mp_graph *graph, const mp_timeline *timeline, int node, const int *spans, size_t n)
{
    static const size_t short_name = SHORT_NAME, long_name = 2 * SHORT_NAME;
    const char *source = graph->nodes[node].source, *largest = "";
    mp_label label;
    MP_OWNED_BY(mp_distinct_names_free) mp_distinct_names *names = mp_distinct_names_new();
    const char *full = node_text(graph, node), *peak = mp_distinct_name(names, full, full, elided, &long_name);
    for (size_t k = 0; k < n && k < NAMED; k++) {
        const int s = timeline->spans[spans[k]].storage;
        const char *title = mp_storage_title(graph, s, &label);
        largest = mp_text("%s%s%s %s", largest, k ? ", " : "", mp_bytes_text(graph->storages[s].bytes),
                          mp_distinct_name(names, title, title, elided, &short_name));
    }
    screen_text(2, "Peak at %s%s%s, step %d of %zu: %s%s; static: %s.", peak, source ? ", " : "", source ? source : "",
                timeline->peak_step + 1, timeline->n_steps, largest, n > NAMED ? ", ..." : "",
                mp_bytes_text(mp_graph_static_bytes(graph)));
}

void report_peak(const mp_graph *graph, const mp_timeline *timeline, int node, bool shortly)
{
    int spans[HOLDERS];
    mp_label label;
    if (timeline->peak_step < 0) return;
    size_t n = mp_timeline_holders(graph, timeline, timeline->peak_step, spans, HOLDERS);
    if (shortly) {
        report_peak_shortly(graph, timeline, node, spans, n);
        return;
    }
    screen_text(0, "The peak is at %s, step %d of %zu; the largest tensors in memory then:", node_text(graph, node),
                timeline->peak_step + 1, timeline->n_steps);
    if (graph->nodes[node].source) screen_text(2, "  (it stands at %s)", graph->nodes[node].source);
    for (size_t k = 0; k < n && k < HOLDERS; k++) {
        int s = timeline->spans[spans[k]].storage;
        screen_row("  %12s  %s  %s", mp_bytes_text(graph->storages[s].bytes), mp_kind_name(graph->storages[s].kind),
                   mp_storage_title(graph, s, &label));
    }
    if (n > HOLDERS) print("  %12s  and %zu smaller\n", "...", n - HOLDERS);
    screen_text(6, "  and %s", static_text(graph));
}

mp_status answer_in_json(const char *command, json_t *json, mp_error *err)
{
    MP_OWNED_BY(json_decref) json_t *given = json;
    MP_OWNED_BY(json_decref)
    json_t *all = json_pack("{s:o, s:i}", "format", json_sprintf("memplan-%s-answer", command), "version", 1);
    MP_OWNED char *text = all && given && json_object_update_missing(all, given) == 0 ? mp_json_print(all, 2) : NULL;
    MP_ENSURE(text, err, MP_NOMEM, "no memory for the answer");
    return mp_file_write_parts("-", (const mp_file_part[]){{text, strlen(text)}, {"\n", 1}}, 2, err);
}

int print_json(const char *command, json_t *json)
{
    mp_error err = {0};
    return answer_in_json(command, json, &err) == MP_OK ? EXIT_DONE : output_failed(&err);
}

typedef struct attention {
    mp_provider_group groups[MP_PROVIDER_GROUPS];
    size_t n, n_in_library, n_own;
} attention;

static const char own[] = "own kernels";

static attention count(const mp_program *program)
{
    attention a = {0};
    if (program) a.n = mp_program_providers(program, "ScaledDotProductAttention", a.groups);
    for (size_t g = 0; g < a.n; g++)
        *(strcmp(a.groups[g].provider, own) ? &a.n_in_library : &a.n_own) += a.groups[g].n_operators;
    return a;
}

void report_attention(const mp_program *program)
{
    const attention a = count(program);
    if (a.n) print("  attention: %zu in cuDNN, %zu in %s\n", a.n_in_library, a.n_own, own);
    for (size_t g = 0; g < a.n; g++)
        if (a.groups[g].reason[0])
            print("    %zu in %s: %s\n", a.groups[g].n_operators, a.groups[g].provider, a.groups[g].reason);
}

void attention_json(const mp_program *program, json_t **json)
{
    const attention a = count(program);
    if (!a.n) return;
    json_t *groups = json_array();
    for (size_t g = 0; groups && g < a.n; g++)
        json_array_append_new(groups, json_pack("{ss sI ss}", "provider", a.groups[g].provider, "operators",
                                                (json_int_t)a.groups[g].n_operators, "reason", a.groups[g].reason));
    mp_json_set(json, "attention",
                groups
                    ? json_pack("{sI sI so}", "cudnn", (json_int_t)a.n_in_library, "own", (json_int_t)a.n_own, "groups", groups)
                    : NULL);
}

static mp_aligned_rows aligned_rows(const mp_program *program, int64_t *bytes)
{
    const mp_aligned_rows rows = program ? mp_aligned_rows_of(program->model) : (mp_aligned_rows){0};
    *bytes = program ? rows.elements * mp_dtype_bits(program->options.dtype) / 8 : 0;
    return rows;
}

void report_aligned_rows(const mp_program *program)
{
    int64_t bytes;
    const mp_aligned_rows rows = aligned_rows(program, &bytes);
    if (rows.n_tensors)
        print("  aligned rows: %zu tensor%s, %s more, for faster matrix products\n", rows.n_tensors,
              rows.n_tensors == 1 ? "" : "s", mp_bytes_text(bytes));
}

void aligned_rows_json(const mp_program *program, json_t **json)
{
    int64_t bytes;
    const mp_aligned_rows rows = aligned_rows(program, &bytes);
    if (rows.n_tensors)
        mp_json_set(json, "aligned_rows",
                    json_pack("{sI sI}", "tensors", (json_int_t)rows.n_tensors, "bytes", (json_int_t)bytes));
}

void report_attention_form(const mp_attention_report *form)
{
    if (!form->n && !form->n_missed) return;
    print("\nAttention: %d recognised", form->n);
    if (form->n_missed) print(", %d written out, whose scores are kept", form->n_missed);
    putchar('\n');
    if (!form->n_missed) return;
    const bool is_operator = *form->kind;
    print("  at %s: %s%s%s%s%s\n", form->missed, form->breaks, is_operator ? " (" : "", form->kind, is_operator ? ") " : " ",
          form->why);
}

json_t *attention_form_json(const mp_attention_report *form)
{
    if (!form->n_missed) return json_pack("{si si}", "recognised", form->n, "written_out", 0);
    return json_pack("{si si s{ss ss ss ss}}", "recognised", form->n, "written_out", form->n_missed, "first", "product",
                     form->missed, "at", form->breaks, "op", form->kind, "why", form->why);
}

/* ---- the data that a rank sends ---- */

void print_rank_traffic(const mp_workload *s, const mp_rank_traffic *sent, double step_seconds)
{
    const int64_t n = mp_mesh_devices(&s->ranks.mesh);
    const mp_split *split = &s->details->split;
    if (n <= 1) return;
    const char *step = step_seconds > 0 ? mp_text(" A step takes %s.", seconds_text(step_seconds)) : "";
    const bool is_one = sent->n_collectives == 1;
    screen_text(2, "One rank of %s: %s.%s In a step it sends %s in %s collective%s, which take%s %s%s.", count_text(n),
                mp_mesh_write(&s->ranks.mesh).text, step, mp_bytes_text(sent->sent_bytes),
                count_text((int64_t)sent->n_collectives), is_one ? "" : "s", is_one ? "s" : "", seconds_text(sent->seconds),
                is_one ? "" : " one after the other");
    if (s->ranks.network.slowdown > 0)
        screen_text(2,
                    "By the stated rate, computing during collectives takes %.3g %% longer. This adds up to %s per step, which "
                    "is not in its times.",
                    100 * s->ranks.network.slowdown, seconds_text(s->ranks.network.slowdown * sent->seconds));
    if (split->n_gathered)
        screen_text(2, "%s tensors are gathered for operators that are not split, first for '%s'.",
                    count_text((int64_t)split->n_gathered), split->gathered_for);
}

json_t *rank_traffic_json(const mp_workload *s, const mp_rank_traffic *sent, double step_seconds)
{
    const int64_t n = mp_mesh_devices(&s->ranks.mesh);
    return json_pack("{s:s, s:I, s:I, s:I, s:f, s:I, s:o}", "mesh", mp_mesh_write(&s->ranks.mesh).text, "devices",
                     (json_int_t)n, "collectives", (json_int_t)sent->n_collectives, "sent_bytes", (json_int_t)sent->sent_bytes,
                     "collective_seconds", sent->seconds, "gathered_tensors", (json_int_t)s->details->split.n_gathered,
                     "seconds", mp_json_real_if(step_seconds > 0, step_seconds));
}

static bool is_warning(const char *accuracy)
{
    return !strncmp(accuracy, "warning: ", strlen("warning: "));
}

void report_accuracy(const char *accuracy)
{
    if (*accuracy && !is_warning(accuracy)) screen_text(4, "  %s", accuracy);
}

void accuracy_json(const char *accuracy, json_t **json)
{
    if (*accuracy) mp_json_set(json, "accuracy", json_string(accuracy));
}

/* ---- the other rules ---- */

const char *other_rules_name(const mp_other_rules *other)
{
    return other->rules == MP_RULES_PYTORCH ? "in PyTorch" : "in memplan";
}

const char *other_rules_text(const mp_other_rules *other, int64_t peak_bytes)
{
    if (!other->is_known || other->peak_bytes == peak_bytes) return "";
    return mp_text(", %s %s", mp_bytes_text(other->peak_bytes), other_rules_name(other));
}

const char *other_rules_option(const mp_other_rules *other)
{
    return other->rules == MP_RULES_PYTORCH ? "--rules pytorch" : "--rules executor";
}

json_t *other_rules_json(const mp_other_rules *other)
{
    if (!other->is_known) return json_null();
    return json_pack("{s:s, s:I}", "rules", mp_rules_name(other->rules), "peak_bytes", (json_int_t)other->peak_bytes);
}
