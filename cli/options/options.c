/* options.c - parses the words after a command as options, according to the option table. */
#include "cli/options/options.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/messages/messages.h"
#include "cli/options/commands.h"
#include "estimator/base/memory.h"
#include "estimator/base/quantities.h"
#include "executor/kernel/backend.h"
#include "formats/base/nearest.h"
#include "formats/base/text.h"
#include "memplan/budget.h"
#include "memplan/solver.h"
#include "memplan/training.h"
#include "memplan/workloads/own_device.h"

bool option_given(const options *o, option_id id)
{
    return o->given[id];
}

static void *field_of(options *o, const mp_option_row *row)
{
    return (char *)o + row->offset;
}

static bool is_list(const mp_option_row *row)
{
    return row->kind == MP_VALUE_LIST || row->kind == MP_VALUE_BINDING;
}

const char *option_dashes(const mp_option_row *row)
{
    return row->name[1] ? "--" : "-";
}

/* True if `word`, of `length` bytes, is this name. name NULL: false. */
static bool is_name(const char *name, const char *word, size_t length)
{
    return name && strlen(name) == length && !strncmp(name, word, length);
}

/* Returns the index of the option with this name or former name of `length` bytes, without dashes; -1 if there is none. An
 * option with a one-letter name has one dash, all others have two. */
static int find_option(const char *word, size_t length, int n_dashes, command_id command)
{
    for (int k = 0; k < N_OPTIONS; k++) {
        const mp_option_row *row = &option_rows[k];
        if ((is_name(row->name, word, length) || is_name(row->former, word, length)) && (length > 1) == (n_dashes == 2) &&
            row->commands >> command & 1)
            return k;
    }
    return n_dashes == 1 && length == 1 && *word == 'h' ? OPT_HELP : -1;
}

/* An option of earlier versions, with a sentence that names the alternative. */
static const struct {
    const char *name, *instead;
} removed[] = {
    {"exchange", "ranks always sum gradients in a ring; omit it"},
    {"second-stream", "no recorded run was faster with it; --fuse backward runs updates between the steps of backward"},
};

const char *solver_present_name(const char *name)
{
    const mp_solver *solver = mp_solver_find(name);
    if (!solver || !strcmp(solver->name, name)) return name;
    complain("the searcher '%s' is now called '%s'; a later release will not accept the old name", name, solver->name);
    return solver->name;
}

static int unknown_option(const char *word, size_t length, command_id command)
{
    const size_t skip = strspn(word, "-");
    for (size_t k = 0; k < sizeof removed / sizeof *removed; k++)
        if (is_name(removed[k].name, word + skip, length - skip))
            return usage_error("--%s is removed: %s", removed[k].name, removed[k].instead);
    mp_nearest n = mp_nearest_to(mp_text("%.*s", (int)(length - skip), word + skip));
    for (int k = 0; k < N_OPTIONS; k++)
        if (option_rows[k].commands >> command & 1 && option_rows[k].name[1]) mp_nearest_offer(&n, option_rows[k].name);
    const char *close = mp_nearest_found(&n);
    if (close)
        return usage_error("%s takes no option %.*s; did you mean --%s?", commands[command].name, (int)length, word, close);
    return usage_error("%s takes no option %.*s; 'memplan help %s' lists its options", commands[command].name, (int)length,
                       word, commands[command].name);
}

/* Returns " (--pipeline-schedule takes '1f1b')" if exactly one other option of the command accepts the refused value, otherwise
 * "". */
static const char *taken_elsewhere(const mp_option_row *row, const char *value, command_id command)
{
    const char *name = NULL;
    for (int k = 0; k < N_OPTIONS; k++) {
        const mp_option_row *other = &option_rows[k];
        if (other == row || !(other->commands >> command & 1) || other->kind != MP_VALUE_CHOICE) continue;
        if (!mp_choice_taken(other, value)) continue;
        if (name) return "";
        name = other->name;
    }
    return name ? mp_text(" (--%s takes '%s')", name, value) : "";
}

static int bad_choice(const mp_option_row *row, const char *value, command_id command)
{
    const char *list = "";
    mp_nearest n = mp_nearest_to(value);
    for (size_t k = 0; row->choice(k); k++) {
        /* for devices no name is suggested, because "a6000" is another device and no misspelling of "a100" */
        if (!row->also) mp_nearest_offer(&n, row->choice(k));
        list = mp_text("%s%s%s", list, k ? ", " : "", row->choice(k));
    }
    const char *close = mp_nearest_found(&n);
    if (close) return usage_error("--%s: there is no '%s'; did you mean '%s'?", row->name, value, close);
    return usage_error("--%s: there is no '%s'; use one of: %s%s%s%s", row->name, value, list, row->others ? ", " : "",
                       row->others ? row->others : "", taken_elsewhere(row, value, command));
}

static int append(mp_text_list *list, const char *value)
{
    if (!mp_grow(&list->items, &list->capacity, list->n + 1, sizeof *list->items)) {
        complain("out of memory");
        return EXIT_NO;
    }
    list->items[list->n++] = value;
    return EXIT_DONE;
}

static int append_binding(const mp_option_row *row, mp_text_list *list, const char *value)
{
    const char *equals = strrchr(value, '=');
    int64_t size;
    if (!equals || equals == value || !mp_count_parse(equals + 1, &size))
        return usage_error("--%s: '%s' is not of the form NAME=N", row->name, value);
    for (size_t k = 0; k < list->n; k++)
        if (!strncmp(list->items[k], value, (size_t)(equals - value) + 1))
            return usage_error("--%s: %.*s is given twice", row->name, (int)(equals - value), value);
    return append(list, value);
}

/* True if a text is valid UTF-8. Values of options are written to JSON, which requires UTF-8. */
static bool is_utf8(const char *text)
{
    json_t *json = json_string(text);
    if (json) json_decref(json);
    return json;
}

/* Stores a value in the field of an option. Precondition: the option takes a value. */
static int store(options *o, const mp_option_row *row, const char *value)
{
    void *field = field_of(o, row);
    if (value && !is_utf8(value)) return usage_error("%s%s: the value is not valid UTF-8", option_dashes(row), row->name);
    switch (row->kind) {
    case MP_VALUE_FLAG:
        *(bool *)field = true;
        break;
    case MP_VALUE_OFF:
        *(bool *)field = false;
        break;
    case MP_VALUE_TEXT:
        if (!*value) return usage_error("%s%s: the value is empty", option_dashes(row), row->name);
        *(const char **)field = value;
        break;
    case MP_VALUE_CHOICE:
        if (row->present) value = row->present(value);
        if (!mp_choice_taken(row, value)) return bad_choice(row, value, o->command);
        *(const char **)field = mp_choice_taken(row, value);
        break;
    case MP_VALUE_MESH: {
        mp_error err = {0};
        /* for parallel, the dimensions that --mesh does not name are free */
        const bool is_some = o->command == CMD_PARALLEL && row == &option_rows[OPT_MESH];
        if ((is_some ? mp_mesh_read_some : mp_mesh_read)(value, field, &err) != MP_OK)
            return usage_error("--%s: %s", row->name, err.message);
        break;
    }
    case MP_VALUE_LIST:
        return append(field, value);
    case MP_VALUE_BINDING:
        return append_binding(row, field, value);
    case MP_VALUE_COUNT: {
        int64_t count;
        if (!mp_count_parse(value, &count) || count < row->least)
            return usage_error("--%s: '%s' is not a whole number of at least %lld", row->name, value, (long long)row->least);
        *(int64_t *)field = count;
        break;
    }
    case MP_VALUE_BYTES: {
        mp_budget b;
        const char *why = "is a percentage; give bytes, like 64MiB";
        if (!mp_budget_parse(value, &b, &why) || b.kind != MP_BUDGET_BYTES || b.bytes < row->least)
            return usage_error("--%s: '%s' %s", row->name, value, why);
        *(int64_t *)field = b.bytes;
        break;
    }
    case MP_VALUE_PERCENT: {
        mp_budget b;
        const char *why;
        if (!mp_budget_parse(value, &b, &why) || b.kind != MP_BUDGET_OF_PEAK || b.percent <= 0)
            return usage_error("--%s: '%s' is not a percentage like 0.5%%", row->name, value);
        *(double *)field = b.percent / 100;
        break;
    }
    case MP_VALUE_POSITIVE: {
        char *end;
        double seconds = strtod(value, &end);
        if (end == value || *end || !isfinite(seconds) || seconds <= 0)
            return usage_error("--%s: '%s' is not a positive number", row->name, value);
        *(double *)field = seconds;
        break;
    }
    }
    return EXIT_DONE;
}

/* Parses the option at argv[*k]. The value of the option is the next word, or follows '='. */
static int take_option(options *o, int argc, char **argv, int *k)
{
    const char *word = argv[*k], *equals = strchr(word, '=');
    size_t length = equals ? (size_t)(equals - word) : strlen(word);
    int n_dashes = word[1] == '-' ? 2 : 1;
    int id = length > (size_t)n_dashes ? find_option(word + n_dashes, length - (size_t)n_dashes, n_dashes, o->command) : -1;
    if (id < 0) return unknown_option(word, length, o->command);
    const mp_option_row *row = &option_rows[id];
    bool flag = row->kind == MP_VALUE_FLAG || row->kind == MP_VALUE_OFF;
    if (option_given(o, (option_id)id) && !is_list(row)) return usage_error("%.*s is given twice", (int)length, word);
    o->given[id] = true;
    if (is_name(row->former, word + n_dashes, length - (size_t)n_dashes))
        complain("--%s is now called --%s; a later release will not accept the old name", row->former, row->name);
    if (row->instead) complain("--%s is the old form of '%s'; a later release will not accept it", row->name, row->instead);
    if (flag && equals) return usage_error("%.*s takes no value", (int)length, word);
    if (flag) return store(o, row, NULL);
    if (equals) return store(o, row, equals + 1);
    if (*k + 1 >= argc || (!strncmp(argv[*k + 1], "--", 2) && argv[*k + 1][2]))
        return usage_error("%s needs a value: %s %s", word, word, row->argument);
    return store(o, row, argv[++*k]);
}

static int count_operands(const options *o)
{
    const command *c = &commands[o->command];
    if (o->n_operands > (size_t)c->max_operands)
        return usage_error("%s: unexpected '%s'; usage: memplan %s %s", c->name, o->operands[c->max_operands], c->name,
                           *c->operands ? c->operands : "takes nothing more");
    if (o->n_operands < (size_t)c->min_operands)
        return usage_error("%s: an argument is missing; usage: memplan %s %s [OPTION...]", c->name, c->name, c->operands);
    return EXIT_DONE;
}

/* If --device names a file, replaces the file's name by a text that describes the same device (own_device.h). */
static int read_device_file(options *o)
{
    mp_error err = {0};
    if (!o->model.device || !mp_device_is_file(o->model.device)) return EXIT_DONE;
    o->device_file = o->model.device;
    if (mp_device_file_read(o->model.device, &o->device_text, &err) != MP_OK) return input_failed(&err);
    o->model.device = o->device_text;
    return EXIT_DONE;
}

bool options_ask_for_all_help(const options *o)
{
    return o->talk.help && o->n_operands && !strcmp(o->operands[o->n_operands - 1], "all");
}

void options_take_card(options *o)
{
    const bool runs = o->command == CMD_TRAIN || o->command == CMD_PROFILE || o->training.runs;
    if (runs || option_given(o, OPT_RULES) || mp_backend_is_name(o->model.device)) return;
    o->model.rules = mp_rules_name(MP_RULES_PYTORCH);
}

/* Sets the fields of the workload's settings that depend on the command. */
static void settle_workload(options *o)
{
    mp_workload_options *m = &o->model;
    m->trains = o->command == CMD_TRAIN;
    m->opens_device = m->trains || o->command == CMD_PROFILE || (o->search.budget && !strcmp(o->search.budget, "auto"));
    m->runs_alone = o->command == CMD_PROFILE || o->command == CMD_SHARE;
    m->may_lack_folders = !option_given(o, OPT_OFFLOAD) && !m->trains;
    m->has_reserve = option_given(o, OPT_RESERVE);
    m->reserve_bytes = o->search.reserve;
}

int options_parse(command_id command, int argc, char **argv, options *o)
{
    *o = (options){.command = command};
    for (int k = 0; k < N_OPTIONS; k++) {
        const mp_option_row *row = &option_rows[k];
        if (row->kind == MP_VALUE_OFF) *(bool *)field_of(o, row) = true;
        if (row->otherwise) *(const char **)field_of(o, row) = row->otherwise;
    }
    o->operands = mp_alloc((size_t)argc, sizeof *o->operands);
    if (!o->operands) {
        complain("out of memory");
        return EXIT_NO;
    }
    bool raw = commands[command].max_operands < 0, options_over = raw;
    for (int k = 0; k < argc; k++) {
        if (!options_over && !strcmp(argv[k], "--")) {
            options_over = true;
        } else if (!options_over && argv[k][0] == '-' && argv[k][1]) {
            int rc = take_option(o, argc, argv, &k);
            if (rc) return rc;
        } else {
            o->operands[o->n_operands++] = argv[k];
        }
    }
    if (raw || o->talk.help) return EXIT_DONE;
    int rc = count_operands(o);
    if (!rc) rc = read_device_file(o);
    if (option_given(o, OPT_RULES) && mp_is_executor_rules(o->model.rules)) o->model.rules = mp_rules_name(MP_RULES_EXECUTOR);
    if (!rc && option_given(o, OPT_DEVICE)) options_take_card(o);
    settle_workload(o);
    return rc;
}

void options_free(options *o)
{
    for (int k = 0; k < N_OPTIONS; k++)
        if (is_list(&option_rows[k])) mp_text_list_free(field_of(o, &option_rows[k]));
    mp_free(o->operands);
    mp_free(o->device_text);
    mp_workload_options_free(&o->model);
}
