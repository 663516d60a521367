/* report.c - lists of tensors by module, what is live at the peak, static memory by kind. */
#include "cli/reports/report.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/messages/messages.h"
#include "cli/messages/quantities.h"
#include "estimator/base/module_name.h"

enum {
    GROUPS_MAX = 12,  /* on a terminal modules are told apart as deeply as this many groups allow, */
    GROUPS_FULL = 32, /* and where everything is listed, as this many do */
    LINES_MAX = 24,   /* tensors listed on a terminal */
    DEPTH_MAX = 4,
    HOLDERS = 5
};

/* Tensors of modules have names that begin with a slash. */
static size_t module_length(const char *name, int depth)
{
    return name[0] == '/' ? mp_module_length(name, depth) : 0;
}

static bool same_module(const char *a, const char *b, int depth)
{
    size_t n = module_length(a, depth);
    return n == module_length(b, depth) && !strncmp(a, b, n);
}

/* Whether names[k] is the first of its group. */
static bool opens_group(const char *const *names, size_t k, int depth)
{
    for (size_t j = 0; j < k; j++)
        if (same_module(names[j], names[k], depth)) return false;
    return true;
}

static size_t count_groups(const char *const *names, size_t n, int depth)
{
    size_t groups = 0;
    for (size_t k = 0; k < n && groups <= GROUPS_FULL; k++) groups += opens_group(names, k, depth);
    return groups;
}

static void print_module(const char *path, size_t length)
{
    char text[256];
    printf("  %s\n", length ? mp_module_text(path, length, text, sizeof text) : "(no module)");
}

void report_tensors(const char *const *names, size_t n, const char *hint)
{
    bool cut = isatty(STDOUT_FILENO) && n > LINES_MAX;
    int depth = 1;
    while (depth < DEPTH_MAX && count_groups(names, n, depth + 1) <= (cut ? GROUPS_MAX : GROUPS_FULL)) depth++;
    size_t groups = count_groups(names, n, depth), most = n, hidden = 0;
    if (cut) most = groups < LINES_MAX / 2 ? LINES_MAX / groups : 2;
    for (size_t k = 0; k < n; k++) {
        if (!opens_group(names, k, depth)) continue;
        size_t listed = 0, left = 0;
        if (groups > 1 || module_length(names[k], depth)) print_module(names[k], module_length(names[k], depth));
        for (size_t j = k; j < n; j++) {
            if (!same_module(names[j], names[k], depth)) continue;
            if (listed < most) printf("    %s\n", names[j]);
            listed++;
        }
        left = listed > most ? listed - most : 0;
        if (left) printf("    ... and %zu more\n", left);
        hidden += left;
    }
    if (hidden) printf("  (all of them: %s)\n", hint);
}

void report_static(const mp_graph *graph)
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
    char text[QUANTITY_MAX];
    int64_t bytes[MP_N_KINDS] = {0};
    const char *between = "";
    for (size_t s = 0; s < graph->n_storages; s++)
        if (mp_storage_is_static(&graph->storages[s])) bytes[graph->storages[s].kind] += graph->storages[s].bytes;
    printf("always there: %s (", bytes_short(mp_graph_static_bytes(graph), text));
    for (int k = 0; k < MP_N_KINDS; k++) {
        if (!bytes[k]) continue;
        printf("%s%s %s", between, plural[k], bytes_short(bytes[k], text));
        between = ", ";
    }
    puts(")");
}

void report_node(const mp_graph *graph, int node)
{
    const mp_node *n = &graph->nodes[node];
    const char *phase = mp_phase_name(n->phase);
    bool named = n->name && *n->name, op = n->op && *n->op, said = named && strstr(n->name, phase);
    fputs(named ? n->name : mp_node_label(graph, node).text, stdout);
    if (op || !said) printf(" (%s%s%s)", op ? n->op : "", op && !said ? " " : "", said ? "" : phase);
}

void report_peak(const mp_graph *graph, const mp_timeline *timeline, int node)
{
    char text[QUANTITY_MAX];
    int spans[HOLDERS];
    mp_label label;
    if (timeline->peak_step < 0) return;
    size_t n = mp_timeline_holders(graph, timeline, timeline->peak_step, spans, HOLDERS);
    printf("The peak is at ");
    report_node(graph, node);
    printf(", step %d of %zu; the largest that lie there:\n", timeline->peak_step + 1, timeline->n_steps);
    if (graph->nodes[node].source) printf("  (it stands at %s)\n", graph->nodes[node].source);
    for (size_t k = 0; k < n && k < HOLDERS; k++) {
        int s = timeline->spans[spans[k]].storage;
        printf("  %12s  %s  %s\n", bytes_short(graph->storages[s].bytes, text), mp_kind_name(graph->storages[s].kind),
               mp_storage_title(graph, s, &label));
    }
    if (n > HOLDERS) printf("  %12s  and %zu smaller\n", "...", n - HOLDERS);
    printf("  and ");
    report_static(graph);
}

void report_second_stream(const mp_second_stream *effect, double tick_seconds)
{
    char hidden[QUANTITY_MAX], all[QUANTITY_MAX];
    printf("  second stream: %zu of %zu updates run beside backward; of their %s it hides %s\n", effect->n_beside,
           effect->n_updates, seconds_text((double)effect->update_ticks * tick_seconds, all),
           seconds_text((double)effect->hidden_ticks * tick_seconds, hidden));
}

json_t *second_stream_json(const mp_second_stream *effect, double tick_seconds)
{
    return json_pack("{sI sI sf sf}", "updates", (json_int_t)effect->n_updates, "beside", (json_int_t)effect->n_beside,
                     "update_seconds", (double)effect->update_ticks * tick_seconds, "hidden_seconds",
                     (double)effect->hidden_ticks * tick_seconds);
}

int print_json(json_t *json)
{
    if (!json) {
        complain("out of memory");
        return EXIT_NO;
    }
    json_dumpf(json, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(json);
    return EXIT_DONE;
}
