/* help.c - prints the tables of commands and options as text for a terminal of 80 columns. */
#include "cli/options/help.h"

#include <string.h>

#include "formats/base/text.h"

enum { COLUMNS = 79, LEFT = 26 }; /* width of help texts in columns; the column at which explanations of options begin */

void help_wrap(FILE *to, const char *text, int indent, int column, int columns)
{
    bool any = false;
    while (*text) {
        const int length = (int)strcspn(text, " ");
        if (any && column + 1 + length > columns) {
            fprintf(to, "\n%*s", indent, "");
            column = indent;
        } else if (any) {
            fputc(' ', to);
            column++;
        }
        fprintf(to, "%.*s", length, text);
        column += length;
        any = true;
        text += length + (text[length] == ' ');
    }
    fputc('\n', to);
}

bool help_takes(const command *c, const mp_option_row *row)
{
    return !row->instead && row->commands >> (c - commands) & 1;
}

const char *help_choices(const mp_option_row *row, const char *quote)
{
    const char *text = "";
    for (size_t k = 0; row->choice && row->choice(k); k++)
        text = mp_text("%s%s%s%s%s", text, k ? ", " : "; one of ", quote, row->choice(k), quote);
    return *text && row->otherwise ? mp_text("%s (default: %s%s%s)", text, quote, row->otherwise, quote) : text;
}

/* Prints a row of two columns: an option or a command on the left, its explanation on the right. */
static void row_of(FILE *to, const char *left, const char *text)
{
    int n = fprintf(to, "  %-*s", LEFT - 4, left);
    if (n > LEFT - 2) n = fprintf(to, "\n%*s", LEFT - 2, "") - 1;
    fputs("  ", to);
    help_wrap(to, text, LEFT, n + 2, COLUMNS);
}

/* ---- all commands ---- */

static void command_line(FILE *to, const command *c)
{
    row_of(to, mp_text("%s %s", c->name, c->operands), c->summary);
}

void help_overview(FILE *to)
{
    static const struct {
        const char *title;
        command_id commands[6];
        size_t n;
    } groups[] = {{"What you need first:", {CMD_ESTIMATE, CMD_PLAN, CMD_APPLY, CMD_FIT, CMD_PARALLEL}, 5},
                  {"Pictures:", {CMD_REPORT, CMD_TIMELINE, CMD_DRAW, CMD_SWEEP}, 4},
                  {"Running and checking:", {CMD_CHECK, CMD_TRAIN, CMD_PROFILE}, 3}};
    bool shown[N_COMMANDS] = {0};
    fputs("memplan - the memory of a training step, and what to recompute to need less\n\n"
          "usage: memplan COMMAND ...\n",
          to);
    for (size_t g = 0; g < sizeof groups / sizeof *groups; g++) {
        fprintf(to, "\n%s\n", groups[g].title);
        for (size_t k = 0; k < groups[g].n; k++) {
            command_line(to, &commands[groups[g].commands[k]]);
            shown[groups[g].commands[k]] = true;
        }
    }
    fputs("\nMore:\n", to);
    for (size_t k = 0; k < N_COMMANDS; k++)
        if (!shown[k]) command_line(to, &commands[k]);
    fputs(
        "\nMODEL is an ONNX file, the name of a known network ('memplan models'), or a\n"
        "training graph: one that 'memplan graph' wrote (its name ends in .json), or one\nin Graphviz's DOT (.dot, .gv).\n"
        "'memplan COMMAND --help' lists the common options of a command, and\n'memplan COMMAND --help all' lists all.\n"
        "Exit status: 0 done; 1 the answer is no, or the system failed; 2 bad usage or\nbad input; 3 the answer is not known; "
        "130 stopped by Ctrl-C before there was an\nanswer, 143 by SIGTERM.\n",
        to);
}

/* ---- one command ---- */

/* The groups of options, in the order in which help prints them. */
typedef enum group { COMMON, SEARCH, MODELS, COPIES, RANKS, RUNS, ANSWERS, EXPERIMENTS, N_GROUPS } group;

static const char *const headings[N_GROUPS] = {
    [COMMON] = "common options", [SEARCH] = "the search",          [MODELS] = "the model and its training",
    [COPIES] = "copies",         [RANKS] = "many devices",         [RUNS] = "the training run",
    [ANSWERS] = "the answer",    [EXPERIMENTS] = "for experiments"};

enum { FEW = 4 }; /* the short help also prints the other options of a command if they are at most this number */

/* Returns the group of an option, from the struct that contains its field. */
static group group_of_field(const mp_option_row *row)
{
    const option_id id = (option_id)(row - option_rows);
    if (id >= OPT_OFFLOAD && id <= OPT_LINK) return COPIES;
    if (id >= OPT_MESH && id <= OPT_EXPLAIN) return RANKS;
    if (row->offset < offsetof(options, search)) return MODELS;
    if (row->offset < offsetof(options, training)) return SEARCH;
    return row->offset < offsetof(options, output) ? RUNS : ANSWERS;
}

static group group_of(const command *c, const mp_option_row *row)
{
    static const struct {
        option_id option;
        /* the commands in whose help the option belongs to the first group; 0: all commands that accept the option */
        unsigned commands;
    } first[] = {{OPT_BATCH, 0},
                 {OPT_BUDGET, 0},
                 {OPT_MEMORY, 0},
                 {OPT_PLAN, 0},
                 {OPT_OUT, 0},
                 {OPT_PICTURE, 0},
                 {OPT_CAPACITY, 0},
                 {OPT_DEVICES, 0},
                 {OPT_MESH, 0},
                 {OPT_DTYPE, 0},
                 {OPT_OPTIMIZER, 0},
                 {OPT_RULES, 0},
                 {OPT_OFFLOAD, 0},
                 {OPT_GLOBAL_BATCH, 0},
                 {OPT_EXPLAIN, 0},
                 {OPT_DEVICE, 0},
                 {OPT_OVERHEAD, 0},
                 {OPT_DATA, 1u << CMD_TRAIN},
                 {OPT_STEPS, 1u << CMD_TRAIN},
                 {OPT_LR, 0},
                 {OPT_FOR, 0},
                 {OPT_JSON, 0},
                 {OPT_TIME_LIMIT, 0}};
    if (row->for_experiments) return EXPERIMENTS;
    for (size_t k = 0; k < sizeof first / sizeof *first; k++)
        if (row == &option_rows[first[k].option] && (!first[k].commands || first[k].commands >> (c - commands) & 1))
            return COMMON;
    return group_of_field(row);
}

static void help_option(FILE *to, const mp_option_row *row)
{
    const char *name =
        mp_text("%s%s%s%s", option_dashes(row), row->name, row->argument ? " " : "", row->argument ? row->argument : "");
    row_of(to, name, mp_text("%s%s", row->help, help_choices(row, "")));
}

/* Prints the options of one group. */
static void help_group(FILE *to, const command *c, group wanted)
{
    bool any = false;
    for (int k = 0; k < N_OPTIONS; k++) {
        const mp_option_row *row = &option_rows[k];
        if (!help_takes(c, row) || group_of(c, row) != wanted) continue;
        if (!any) fprintf(to, "\n%s:\n", headings[wanted]);
        any = true;
        help_option(to, row);
    }
}

static int count_options(const command *c, bool common)
{
    int n = 0;
    for (int k = 0; k < N_OPTIONS; k++)
        n += help_takes(c, &option_rows[k]) && (group_of(c, &option_rows[k]) == COMMON) == common;
    return n;
}

static void help_data(FILE *to)
{
    fputs("\nwhat --data takes in train (docs/reference/training.md has examples):\n", to);
    row_of(to, "synthetic", "random numbers that suit what each input means to the network (the default)");
    row_of(to, "NAME=FILE", "for each input: .npy, or IDX as MNIST has it; the first dimension counts samples");
    row_of(to, "FILE.parquet", "for all inputs: the columns of their names; a rank of many reads its own rows");
    row_of(to, "target=FILE", "what the appended loss compares with: class numbers, or values for mse");
    row_of(to, "text=FILE", "for language models: windows of the file's bytes, and the byte that follows each");
    row_of(to, "vocabulary=FILE", "with text=FILE: which bytes or tokens there are");
    row_of(to, "NAME", "says only that this input is data and no parameter");
}

static void usage(FILE *to, const command *c)
{
    fprintf(to, "usage: memplan %s%s%s%s\n\n", c->name, *c->operands ? " " : "", c->operands,
            c->max_operands >= 0 ? " [OPTION...]" : "");
    help_wrap(to, c->summary, 0, 0, COLUMNS);
    fprintf(to, "\nexample:\n  %s\n", c->example);
}

void help_command(FILE *to, const command *c)
{
    usage(to, c);
    for (int g = 0; g < N_GROUPS; g++) help_group(to, c, (group)g);
    if (c == &commands[CMD_TRAIN]) help_data(to);
}

void help_command_short(FILE *to, const command *c)
{
    const int n_others = count_options(c, false);
    if (n_others <= FEW || !count_options(c, true)) {
        help_command(to, c);
        return;
    }
    usage(to, c);
    help_group(to, c, COMMON);
    fprintf(to, "\n'memplan %s --help all' lists %d more.\n", c->name, n_others);
}
