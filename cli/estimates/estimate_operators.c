/* estimate_operators.c - prints one row per operator, as a table, JSON or CSV. */
#include "cli/estimates/estimate.h"

#include <stdio.h>
#include <string.h>

#include "cli/messages/print.h"
#include "cli/messages/quantities.h"
#include "estimator/base/memory.h"
#include "formats/json/json.h"

json_t *flops_json(double flops)
{
    return flops < 9e18 ? json_integer((json_int_t)flops) : json_real(flops);
}

json_t *text_or_null(const char *text)
{
    return text ? mp_json_text(text) : json_null();
}

static json_t *operator_json(const mp_graph *graph, const mp_operator_summary *row)
{
    const mp_node *node = &graph->nodes[row->node];
    const int64_t before = row->backward_live_before_bytes, after = row->backward_live_after_bytes;
    return json_pack(
        "{s:o, s:o, s:o, s:f, s:f, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o}", "name", text_or_null(node->name), "op",
        text_or_null(node->op), "flops", flops_json(row->flops), "forward_seconds",
        (double)row->forward_ticks * graph->tick_seconds, "backward_seconds", (double)row->backward_ticks * graph->tick_seconds,
        "parameter_bytes", (json_int_t)row->parameter_bytes, "output_bytes", (json_int_t)row->output_bytes, "saved_bytes",
        (json_int_t)row->saved_bytes, "workspace_bytes", (json_int_t)row->workspace_bytes, "live_before_bytes",
        (json_int_t)row->live_before_bytes, "live_after_bytes", (json_int_t)row->live_after_bytes, "backward_live_before_bytes",
        mp_json_integer_if(before != -1, before), "backward_live_after_bytes", mp_json_integer_if(after != -1, after));
}

json_t *operators_json(const mp_graph *graph, const mp_summary *summary, mp_summary_column column)
{
    MP_OWNED mp_operator_summary *rows = NULL;
    if (mp_summary_sorted(graph, summary, column, &rows, NULL) != MP_OK) return NULL;
    json_t *list = json_array();
    for (size_t k = 0; k < summary->n_operators; k++) mp_json_append(&list, operator_json(graph, &rows[k]));
    return list;
}

/* Prints a CSV field, quoted if it contains a comma, a quote or a line break (RFC 4180). */
static void write_text(const char *text)
{
    const char *quote = text[strcspn(text, ",\"\r\n")] ? "\"" : "";
    print("%s", quote);
    for (const char *at = text, *end; *at; at = end) {
        end = at + strcspn(at, "\"");
        print("%.*s%s", (int)(end - at), at, *end ? "\"\"" : "");
        end += *end == '"';
    }
    print("%s", quote);
}

static void write_field(const json_t *value)
{
    if (json_is_string(value))
        write_text(json_string_value(value));
    else if (json_is_integer(value))
        print("%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        print("%.17g", json_real_value(value));
}

mp_status operators_csv(const mp_graph *graph, const mp_summary *summary, mp_summary_column column, mp_error *err)
{
    MP_OWNED_BY(json_decref) json_t *list = operators_json(graph, summary, column);
    MP_ENSURE(list, err, MP_NOMEM, "%zu operators", summary->n_operators);
    for (size_t k = 0; k < json_array_size(list); k++) {
        const char *key, *between = "";
        json_t *value, *object = json_array_get(list, k);
        if (k == 0) {
            json_object_foreach(object, key, value)
            {
                print("%s%s", between, key);
                between = ",";
            }
            putchar('\n');
            between = "";
        }
        json_object_foreach(object, key, value)
        {
            print("%s", between);
            write_field(value);
            between = ",";
        }
        putchar('\n');
    }
    return MP_OK;
}

/* Returns a number of bytes as text; "-" if it is negative, which means that the quantity does not exist. */
static const char *bytes_or_dash(int64_t bytes)
{
    return bytes < 0 ? "-" : mp_bytes_text(bytes);
}

mp_status report_operators(const mp_graph *graph, const mp_summary *summary, mp_summary_column column, mp_error *err)
{
    const double tick = graph->tick_seconds;
    MP_OWNED mp_operator_summary *rows = NULL;
    MP_CHECK(mp_summary_sorted(graph, summary, column, &rows, err));
    print("\nOperators, with all that lies in memory before and after they run:\n");
    print("%59s%34s  %34s\n", "", "------------ forward -----------", "------------ backward -----------");
    print("%11s %11s %11s %11s %10s %11s %11s %10s  %11s %11s %10s  %-24s %s\n", "output", "saved", "parameters", "workspace",
          "FLOPs", "before", "after", "time", "before", "after", "time", "operator", "name");
    for (size_t k = 0; k < summary->n_operators; k++) {
        const mp_operator_summary *op = &rows[k];
        const char *kind = graph->nodes[op->node].op, *name = graph->nodes[op->node].name;
        const bool back = op->backward_live_before_bytes >= 0;
        print("%11s %11s %11s %11s %10s %11s %11s %10s  %11s %11s %10s  %-24s %s\n", mp_bytes_text(op->output_bytes),
              mp_bytes_text(op->saved_bytes), mp_bytes_text(op->parameter_bytes), mp_bytes_text(op->workspace_bytes),
              flops_text(op->flops), mp_bytes_text(op->live_before_bytes), mp_bytes_text(op->live_after_bytes),
              seconds_text((double)op->forward_ticks * tick), bytes_or_dash(op->backward_live_before_bytes),
              bytes_or_dash(op->backward_live_after_bytes), back ? seconds_text((double)op->backward_ticks * tick) : "-",
              kind ? kind : "", name ? name : "");
    }
    return MP_OK;
}
