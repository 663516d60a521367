/* test_bound_example.c - the worked example of docs/internals/bound.md: builds the graph from its tables and checks every
 * number in them. */
#include "memplan/bound.h"
#include "planner/bound/interval/bound_couple.h"
#include "tests/cases/bound_case.h"
#include "tests/cases/test.h"
#include "tests/oracles/oracle_exact.h"

/* ---- the tables of the document ---- */

enum { MOST_ROWS = 64, MOST_CELLS = 8, CELL = 64, WORDS = 4 };

typedef struct table_row {
    char cells[MOST_CELLS][CELL];
    int table;    /* index of the row's table */
    bool is_head; /* true: the first row of the table */
} table_row;

static table_row rows[MOST_ROWS];
static int n_rows;

static void read_row(const char *line, int table)
{
    table_row *row = &rows[n_rows];
    assert_true(n_rows < MOST_ROWS);
    *row = (table_row){.table = table, .is_head = !n_rows || rows[n_rows - 1].table != table};
    for (int k = 0; k < MOST_CELLS && *++line && *line != '\n'; k++) {
        const size_t length = strcspn(line, "|");
        const char *from = line + strspn(line, " "), *to = line + length;
        while (to > from && to[-1] == ' ') to--;
        assert_true(to - from < CELL);
        memcpy(row->cells[k], from, (size_t)(to - from));
        line += length;
    }
    n_rows++;
}

static int read_tables(void **state)
{
    (void)state;
    char line[256];
    bool is_inside = false, was_row = false;
    int table = 0;
    FILE *file = fopen("docs/internals/bound.md", "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        if (!strncmp(line, "## ", 3)) is_inside = !strcmp(line, "## A worked example\n");
        const bool is_row = is_inside && *line == '|';
        if (is_row && line[1] != '-') read_row(line, table += !was_row);
        was_row = is_row;
    }
    fclose(file);
    assert_true(n_rows > 30);
    return 0;
}

/* Returns the text in the row that begins with `name`, in this column of the table whose first column is called `table`. */
static const char *text_of(const char *table, const char *name, const char *column)
{
    int head = -1;
    for (int k = 0; k < n_rows; k++) {
        if (rows[k].is_head && !strcmp(rows[k].cells[0], table)) head = k;
        if (head < 0 || rows[k].table != rows[head].table || strcmp(rows[k].cells[0], name)) continue;
        for (int c = 1; c < MOST_CELLS; c++)
            if (!strcmp(rows[head].cells[c], column)) return rows[k].cells[c];
    }
    fail_msg("docs/internals/bound.md has no %s of %s %s", column, table, name);
    return NULL;
}

static double number_of(const char *table, const char *name, const char *column)
{
    char *end;
    const char *text = text_of(table, name, column);
    const double value = strtod(text, &end);
    if (end == text || *end) fail_msg("'%s' is no number (%s %s)", text, table, name);
    return value;
}

/* ---- the graph ---- */

static mp_graph *graph;

static int find_storage(const char *name)
{
    for (size_t s = 0; s < graph->n_storages; s++)
        if (!strcmp(graph->storages[s].name, name)) return (int)s;
    fail_msg("docs/internals/bound.md has no storage %s", name);
    return -1;
}

static int find_node(const char *name)
{
    if (!strcmp(name, "end")) return -1;
    for (size_t v = 0; v < graph->n_nodes; v++)
        if (!strcmp(graph->nodes[v].name, name)) return (int)v;
    fail_msg("docs/internals/bound.md has no node %s", name);
    return -1;
}

static void add_storage(const char *name)
{
    mp_storage *s;
    assert_int_equal(mp_graph_storage(graph, &s, NULL), MP_OK);
    s->name = mp_pool_format(graph->pool, "%s", name);
    s->bytes = s->payload_bytes = (int64_t)number_of("storage", name, "bytes");
    s->kind = *name == 'x' ? MP_KIND_INPUT : *name == 'g' ? MP_KIND_ACTIVATION_GRADIENT : MP_KIND_ACTIVATION;
}

static int *storages_of(const char *names, size_t *n)
{
    int list[WORDS];
    char copy[CELL], *rest = copy;
    snprintf(copy, sizeof copy, "%s", names);
    *n = 0;
    for (const char *name; (name = strtok_r(rest, " ", &rest));) list[(*n)++] = find_storage(name);
    return mp_graph_list(graph, list, *n);
}

static void add_node(const char *name)
{
    mp_node *node;
    assert_int_equal(mp_graph_node(graph, &node, NULL), MP_OK);
    node->name = mp_pool_format(graph->pool, "%s", name);
    const char *phase = text_of("node", name, "phase");
    node->phase = !strcmp(phase, "forward") ? MP_PHASE_FORWARD : !strcmp(phase, "loss") ? MP_PHASE_LOSS : MP_PHASE_BACKWARD;
    mp_alternative *alternative = node->alternatives;
    alternative->ticks = (int64_t)number_of("node", name, "ticks");
    alternative->workspace_bytes = (int64_t)number_of("node", name, "workspace");
    alternative->reads = storages_of(text_of("node", name, "reads"), &alternative->n_reads);
    alternative->writes = storages_of(text_of("node", name, "writes"), &alternative->n_writes);
}

/* Calls `add` for the first cell of each row of a table. */
static void for_rows(const char *table, void (*add)(const char *name))
{
    int head = -1;
    for (int k = 0; k < n_rows; k++) {
        if (rows[k].is_head && !strcmp(rows[k].cells[0], table))
            head = k;
        else if (head >= 0 && rows[k].table == rows[head].table)
            add(rows[k].cells[0]);
    }
}

static mp_precedence *order;
static mp_bound_interval *interval;

static int64_t budget(void)
{
    return (int64_t)number_of("figure", "budget", "value");
}

static int set_up(void **state)
{
    if (!n_rows) read_tables(state);
    assert_int_equal(mp_graph_new("example", &graph, NULL), MP_OK);
    for_rows("storage", add_storage);
    for_rows("node", add_node);
    assert_int_equal(mp_graph_finish(graph, NULL), MP_OK);
    assert_int_equal(mp_precedence_new(graph, false, &order, NULL), MP_OK);
    assert_int_equal(mp_bound_interval_new(order, budget(), &interval, NULL), MP_OK);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    mp_bound_interval_free(interval);
    mp_precedence_free(order);
    mp_graph_free(graph);
    return 0;
}

/* ---- the numbers in the tables ---- */

static void six_nodes(void **state)
{
    (void)state;
    assert_int_equal(graph->n_nodes, 6);
    assert_int_equal(keep_all_peak(graph), number_of("figure", "keep-all peak", "value"));
    int64_t ticks = 0;
    for (size_t v = 0; v < graph->n_nodes; v++) ticks += graph->nodes[v].alternatives[0].ticks;
    assert_int_equal(ticks, number_of("figure", "ticks of every node once", "value"));
}

static void check_moment(const char *name)
{
    mp_bound_interval_start(interval, find_node(name));
    mp_bound_interval_end(interval, -1);
    const double free_bytes = number_of("at", name, "free");
    assert_int_equal(interval->free_bytes, free_bytes);
    assert_int_equal(budget() - interval->free_bytes, number_of("at", name, "needs itself"));
    assert_int_equal(mp_bound_interval_live_in(interval), number_of("at", name, "live-in if nothing is recomputed"));
    assert_true(mp_bound_interval_live_in(interval) > interval->free_bytes);
}

static void memory_is_short_at_two_moments(void **state)
{
    (void)state;
    int n = 0;
    for_rows("at", check_moment);
    for (int v = 0; v < (int)graph->n_nodes; v++) {
        mp_bound_interval_start(interval, v);
        mp_bound_interval_end(interval, -1);
        n += mp_bound_interval_live_in(interval) > interval->free_bytes;
    }
    assert_int_equal(n, 2);
}

static bool has_word(const char *text, const char *word)
{
    const char *at = strstr(text, word);
    return at && (at == text || at[-1] == ' ') && (!at[strlen(word)] || at[strlen(word)] == ' ');
}

/* Checks a choice of held activations: their bytes add up, and the cost of the interval with this choice equals the row's. */
static void check_choice(const char *live)
{
    static const char column[] = "cost at λ = 0.625";
    const double lambda = 0.625, ticks = number_of("live at the loss", live, "ticks");
    const char *recomputed = text_of("live at the loss", live, "recomputed");
    int64_t bytes = 0, sum = 0;
    for (size_t s = 0; s < graph->n_storages; s++)
        if (has_word(live, graph->storages[s].name)) bytes += graph->storages[s].bytes;
    for (size_t v = 0; v < graph->n_nodes; v++)
        if (has_word(recomputed, graph->nodes[v].name)) sum += graph->nodes[v].alternatives[0].ticks;
    assert_int_equal(bytes, number_of("live at the loss", live, "bytes"));
    assert_int_equal(sum, ticks);
    const double cost = ticks + lambda * (double)(bytes - (int64_t)number_of("at", "loss", "free"));
    assert_true(cost == number_of("live at the loss", live, column));
    assert_true(cost >= number_of("stage", "interval loss end", "relaxed"));
}

static void a_choice_costs_what_its_row_says(void **state)
{
    (void)state;
    for_rows("live at the loss", check_choice);
    mp_bound_interval_start(interval, find_node("loss"));
    mp_bound_interval_end(interval, -1);
    assert_true(mp_bound_interval_solve(interval).multiplier == 0.625);
}

/* Checks a row of the table of stages: "STAGE FROM TO". */
static void check_stage(const char *row)
{
    char stage[16], from[16], to[16];
    const mp_bound_options options = {.effort = 1};
    assert_int_equal(sscanf(row, "%15s %15s %15s", stage, from, to), 3);
    const double relaxed = number_of("stage", row, "relaxed"), ticks = number_of("stage", row, "ticks");
    if (!strcmp(stage, "couple")) {
        const int nodes[] = {find_node(from), find_node(to)};
        int64_t coupled;
        assert_int_equal(mp_bound_couple(interval, nodes, 2, 32, &options, &coupled, NULL), MP_OK);
        assert_int_equal(coupled, ticks);
        assert_true(relaxed > ticks - 1 && relaxed <= ticks);
        return;
    }
    mp_bound_interval_start(interval, find_node(from));
    mp_bound_interval_end(interval, find_node(to));
    const mp_bound_value value = mp_bound_interval_solve(interval);
    assert_int_equal(value.ticks, ticks);
    assert_true((double)value.scaled == relaxed * (double)mp_bound_interval_scale(interval, 1));
}

static void stages_prove_what_their_rows_say(void **state)
{
    (void)state;
    for_rows("stage", check_stage);
}

static void the_answer_is_proved(void **state)
{
    (void)state;
    mp_bound bound;
    mp_bound_report report;
    int64_t cheapest;
    mp_bound_report_init(&report);
    const mp_bound_options options = {.any_order = true, .effort = 1, .report = &report};
    assert_int_equal(mp_bound_within(graph, budget(), &options, &bound, NULL), MP_OK);
    assert_true(oracle_exact(graph, budget(), true, &cheapest));
    assert_int_equal(cheapest, number_of("answer", "cheapest plan", "value"));
    assert_int_equal(bound.ticks, number_of("answer", "bound", "value"));
    assert_string_equal(mp_bound_stage_name(bound.stage), text_of("answer", "stage", "value"));
    assert_int_equal(bound.from, find_node(text_of("answer", "from", "value")));
    assert_int_equal(bound.to, -1);
    assert_true(bound.multiplier == number_of("answer", "multiplier", "value"));
    assert_int_equal(report.n, 1);
    assert_int_equal(report.evictions[0].storage, find_storage(text_of("answer", "recomputed", "value")));
    assert_int_equal(report.free_bytes, number_of("at", text_of("answer", "from", "value"), "free"));
    mp_bound_report_clear(&report);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(six_nodes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(memory_is_short_at_two_moments, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_choice_costs_what_its_row_says, set_up, tear_down),
        cmocka_unit_test_setup_teardown(stages_prove_what_their_rows_say, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_answer_is_proved, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("docs/internals/bound.md", tests, NULL, NULL);
}
