/* manual.c - a separate program for `make docs` and `make install`. It generates the command-line reference from the tables of
 * commands and options.
 *
 *     manual markdown       docs/reference/commands.md
 *     manual schema         docs/reference/schemas/options.json
 *     manual names          the commands that have a page
 *     manual man [NAME]     the man page memplan-NAME(1), or memplan(1)
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/options/help.h"

#define EXIT_STATUS                                                                                                           \
    "0: done. 1: the answer is no (the budget cannot be met, the plan does not hold), or the system failed. 2: bad usage or " \
    "bad input. 3: the answer is not known: no plan was found, and it is not proved that there is none."
#define MODELS                                                                                                               \
    "MODEL is an ONNX file, the name of a known network (memplan-models(1)), or a training graph: one that `memplan graph` " \
    "wrote (its name ends in .json), or one in "                                                                             \
    "Graphviz's "                                                                                                            \
    "DOT (.dot, .gv). PLAN is a file that `memplan plan -o` wrote."

/* True for options about the model: they shape the training graph, or every command with a model accepts them. The reference
 * describes them once for all commands. */
static bool is_shared(const mp_option_row *row)
{
    return row->key || row->commands == option_rows[OPT_DIM].commands;
}

static bool has_page(const command *c)
{
    return c->max_operands >= 0;
}

/* The sections of the page of commands. An option is described in the section of each command that accepts it, or once at the
 * end of the page. */
typedef enum section { OF_COMMAND, OF_MODEL, OF_SEVERAL } section;

static section section_of(const mp_option_row *row)
{
    if (is_shared(row)) return OF_MODEL;
    switch (row - option_rows) {
    case OPT_BUDGET:
    case OPT_RESERVE:
    case OPT_SOLVER:
    case OPT_SEED:
    case OPT_MOVES:
    case OPT_TIME_LIMIT:
    case OPT_TIMEOUT:
    case OPT_EFFORT:
    case OPT_KEEP_ORDER:
    case OPT_PLAN:
    case OPT_PICTURE:
    case OPT_FORMAT:
    case OPT_OUT:
    case OPT_LIST:
    case OPT_QUIET:
    case OPT_VERBOSE:
    case OPT_NO_PROGRESS:
    case OPT_COLOR:
    case OPT_JSON:
        return OF_SEVERAL;
    default:
        return OF_COMMAND;
    }
}

/* True for commands that read a model and accept the options about it. */
static bool has_model(const command *c)
{
    return help_takes(c, &option_rows[OPT_DIM]);
}

static bool has_shared(const command *c)
{
    bool any = false;
    for (int k = 0; k < N_OPTIONS; k++) any |= section_of(&option_rows[k]) == OF_SEVERAL && help_takes(c, &option_rows[k]);
    return any;
}

/* ---- Markdown ---- */

enum { COLUMNS = 118 };

static void escaped(FILE *to, const char *text)
{
    for (; *text; text++) fprintf(to, strchr("*<_[", *text) ? "\\%c" : "%c", *text);
}

/* Prints one option as a list item. Returns false if out of memory. */
static bool markdown_option(const mp_option_row *row)
{
    char *text = NULL;
    size_t size;
    FILE *to = open_memstream(&text, &size);
    if (!to) return false;
    fprintf(to, "* `%s%s%s%s`: ", option_dashes(row), row->name, row->argument ? " " : "", row->argument ? row->argument : "");
    escaped(to, row->help);
    fputs(help_choices(row, "`"), to);
    fputs(row->for_experiments ? " (for experiments)" : "", to);
    bool ok = !fclose(to);
    if (ok) help_wrap(stdout, text, 2, 0, COLUMNS);
    free(text);
    return ok;
}

/* Prints the options of a section: of command c, or with c NULL of all commands. Options for experiments are printed last. */
static bool markdown_options(const command *c, section which)
{
    bool ok = true, any = false;
    for (int last = 0; last < 2; last++)
        for (int k = 0; ok && k < N_OPTIONS; k++) {
            const mp_option_row *row = &option_rows[k];
            if (k == OPT_HELP || row->for_experiments != last || (c && !help_takes(c, row))) continue;
            if (section_of(row) != which) continue;
            any = true;
            ok = markdown_option(row);
        }
    if (any) putchar('\n');
    return ok;
}

/* False for commands that the table of commands describes completely: without operands and options of their own. */
static bool has_section(const command *c)
{
    return has_page(c) && (c->max_operands > 0 || strchr(c->example, '-'));
}

static bool markdown_command(const command *c)
{
    bool options = help_takes(c, &option_rows[OPT_HELP]) && c->max_operands != 0;
    printf("## %s\n\n    memplan %s%s%s%s\n    %s\n\n", c->name, c->name, *c->operands ? " " : "", c->operands,
           options ? " [OPTION...]" : "", c->example);
    bool ok = markdown_options(c, OF_COMMAND);
    if (has_model(c))
        puts("[More options](#options-about-the-model).\n");
    else if (has_shared(c))
        puts("[More options](#options-of-several-commands).\n");
    return ok;
}

static bool markdown(void)
{
    puts("# Commands\n\n"
         "For users of the command line. `make docs` makes this page from the tables of commands and options. After\n"
         "`make install`, manual pages such as `man memplan-plan` have the same text. `memplan help plan` needs no "
         "installation.\n\n"
         "| command | what it does |\n|---|---|");
    for (size_t k = 0; k < N_COMMANDS; k++)
        if (has_section(&commands[k]))
            printf("| [`%s`](#%s) | %s |\n", commands[k].name, commands[k].name, commands[k].summary);
        else if (has_page(&commands[k]))
            printf("| `%s` | %s |\n", commands[k].name, commands[k].summary);
    puts("\nMODEL is an ONNX file, the name of a known network (`memplan models`), or a file with a training graph. A graph "
         "file is\n"
         "in JSON (`.json`, written by `memplan graph`) or in Graphviz's DOT (`.dot`, `.gv`; see [formats](formats.md)). "
         "Answers\n"
         "go to standard output, everything else to standard error, as `memplan: FILE:LINE:COL: sentence`. `--help`\n"
         "lists the common options of a command, `--help all` lists all.\n\n"
         "| exit status | meaning |\n|---|---|\n"
         "| 0 | done |\n"
         "| 1 | the answer is no (no plan can fit the budget, the plan does not hold), or the system failed (memory, disk) |\n"
         "| 2 | wrong usage or wrong input |\n"
         "| 3 | the answer is unknown: no plan was found, without a proof that there is none |\n"
         "| 130, 143 | stopped by Ctrl-C or by SIGTERM before there was an answer |\n");
    bool ok = true;
    for (size_t k = 0; ok && k < N_COMMANDS; k++)
        if (has_section(&commands[k])) ok = markdown_command(&commands[k]);
    puts("## Options about the model\n\n`memplan help COMMAND` lists the options that COMMAND accepts.\n");
    ok = ok && markdown_options(NULL, OF_MODEL);
    puts("## Options of several commands\n");
    ok = ok && markdown_options(NULL, OF_SEVERAL);
    return ok;
}

/* ---- the JSON schema of the `options` object in graph and plan files ---- */

static void schema_choice(const mp_option_row *row)
{
    printf("{\"enum\": [");
    for (size_t k = 0; row->choice(k); k++) printf("%s\"%s\"", k ? ", " : "", row->choice(k));
    printf("%s]}", row->otherwise ? "" : ", null");
}

static void schema_type(const mp_option_row *row)
{
    switch (row->kind) {
    case MP_VALUE_FLAG:
    case MP_VALUE_OFF:
        printf("{\"type\": \"boolean\"}");
        break;
    case MP_VALUE_CHOICE:
        if (!row->also) {
            schema_choice(row);
            break;
        } /* fall through */
    case MP_VALUE_TEXT:
    case MP_VALUE_MESH:
        printf("{\"type\": [\"string\", \"null\"]}");
        break;
    case MP_VALUE_LIST:
        printf("{\"type\": \"array\", \"items\": {\"type\": \"string\"}}");
        break;
    case MP_VALUE_BINDING:
        printf("{\"type\": \"object\", \"additionalProperties\": {\"type\": \"integer\", \"minimum\": 0}}");
        break;
    case MP_VALUE_COUNT:
    case MP_VALUE_BYTES:
        printf("{\"type\": [\"integer\", \"null\"], \"minimum\": %lld}", (long long)row->least);
        break;
    case MP_VALUE_PERCENT:
    case MP_VALUE_POSITIVE:
        printf("{\"type\": [\"number\", \"null\"], \"exclusiveMinimum\": 0}");
    }
}

static void schema(void)
{
    puts("{\n  \"$schema\": \"https://json-schema.org/draft/2020-12/schema\",\n  \"$id\": \"memplan-options.json\",\n"
         "  \"title\": \"options of graphs and plans\",\n"
         "  \"description\": \"What a graph was built with. A key is the option of its name: docs/reference/commands.md. And "
         "threads: of the device, where one runs here that has some.\",\n"
         "  \"type\": \"object\",\n  \"additionalProperties\": false,\n  \"properties\": {");
    for (int k = 0; k < N_OPTIONS; k++) {
        const mp_option_row *row = &option_rows[k];
        if (!row->key) continue;
        printf("    \"%s\": ", row->key);
        schema_type(row);
        puts(",");
    }
    puts("    \"threads\": {\"type\": \"integer\", \"minimum\": 1}\n  }\n}");
}

/* ---- man pages, in roff ---- */

static void roff(const char *text)
{
    for (; *text; text++) {
        if (*text == '`') continue;
        if (*text == '\\')
            fputs("\\e", stdout);
        else if (*text == '-')
            fputs("\\-", stdout);
        else
            putchar(*text);
    }
}

static void roff_title(const char *name, const char *summary)
{
    printf(".TH \"%s\" 1 \"\" \"memplan %s\" \"memplan\"\n.SH NAME\n", name, MEMPLAN_VERSION);
    roff(name);
    printf(" \\- ");
    roff(summary);
    puts("\n.SH SYNOPSIS");
}

static void roff_option(const mp_option_row *row)
{
    printf(".TP\n\\fB");
    roff(option_dashes(row));
    roff(row->name);
    printf("\\fR%s\\fI", row->argument ? " " : "");
    roff(row->argument ? row->argument : "");
    printf("\\fR\n");
    roff(row->help);
    roff(help_choices(row, ""));
    puts(row->for_experiments ? " (for experiments)" : "");
}

static void roff_end(void)
{
    puts(".SH EXIT STATUS");
    roff(EXIT_STATUS);
    puts("\n.SH SEE ALSO");
}

static void man_command(const command *c)
{
    char name[64];
    snprintf(name, sizeof name, "memplan-%s", c->name);
    roff_title(name, c->summary);
    printf(".B memplan %s\n", c->name);
    if (*c->operands) printf(".I %s\n", c->operands);
    puts("[OPTION...]\n.SH DESCRIPTION");
    putchar(toupper((unsigned char)*c->summary));
    roff(c->summary + 1);
    puts(".");
    if (strstr(c->operands, "MODEL")) {
        puts(".PP");
        roff(MODELS);
        putchar('\n');
    }
    puts(".SH OPTIONS");
    /* the page lists the command's own options first, then the shared options for models */
    for (int shared = 0; shared < 2; shared++)
        for (int last = 0; last < 2; last++)
            for (int k = 0; k < N_OPTIONS; k++) {
                const mp_option_row *row = &option_rows[k];
                if (help_takes(c, row) && is_shared(row) == shared && row->for_experiments == last) roff_option(row);
            }
    puts(".SH EXAMPLE\n.nf");
    roff(c->example);
    puts("\n.fi");
    roff_end();
    puts(".BR memplan (1)");
}

static void man_overview(void)
{
    roff_title("memplan", "how much memory a training step needs, and what to recompute to need less");
    puts(".B memplan\n.I COMMAND\n[ARGUMENT...]\n.SH DESCRIPTION");
    roff(MODELS);
    puts("\n.SH COMMANDS");
    for (size_t k = 0; k < N_COMMANDS; k++) {
        if (!has_page(&commands[k])) continue;
        printf(".TP\n\\fB%s\\fR \\fI%s\\fR\n", commands[k].name, commands[k].operands);
        roff(commands[k].summary);
        putchar('\n');
    }
    roff_end();
    for (size_t k = 0, n = 0; k < N_COMMANDS; k++)
        if (has_page(&commands[k])) printf("%s.BR memplan\\-%s (1)", n++ ? " ,\n" : "", commands[k].name);
    putchar('\n');
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    const command *c = argc > 2 ? command_named(argv[2]) : NULL;
    if (!strcmp(what, "markdown")) {
        if (!markdown()) return EXIT_NO;
    } else if (!strcmp(what, "schema")) {
        schema();
    } else if (!strcmp(what, "names")) {
        for (size_t k = 0; k < N_COMMANDS; k++)
            if (has_page(&commands[k])) puts(commands[k].name);
    } else if (!strcmp(what, "man") && (c || argc == 2)) {
        if (c)
            man_command(c);
        else
            man_overview();
    } else {
        fputs("usage: manual markdown | schema | names | man [COMMAND]\n", stderr);
        return EXIT_USAGE;
    }
    return fflush(stdout) || ferror(stdout) ? EXIT_NO : EXIT_DONE;
}
