/* main.c - the function main: finds the command, runs it, and returns its exit status. */
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/exhausted.h"
#include "cli/messages/input.h"
#include "cli/messages/interrupt.h"
#include "cli/messages/messages.h"
#include "cli/messages/screen.h"
#include "cli/options/commands.h"
#include "cli/options/help.h"
#include "cli/options/options.h"
#include "cli/options/outputs.h"
#include "estimator/base/clock.h"

/* If an operand or an input file is "-", stores the bytes of standard input, so that they can be read like a file. Refuses a
 * second "-". */
static int keep_input(const options *o)
{
    size_t n = 0;
    if (commands[o->command].max_operands < 0) return EXIT_DONE;
    for (size_t k = 0; k < o->n_operands; k++) n += !strcmp(o->operands[k], "-");
    const char *const files[] = {o->output.plan, o->training.resume};
    for (size_t k = 0; k < sizeof files / sizeof *files; k++) n += files[k] && !strcmp(files[k], "-");
    if (o->model.costs && !strcmp(o->model.costs, "-"))
        return usage_error(
            "--costs: standard input is not possible, because graphs and plans store the file's name; name a file");
    if (n > 1) return usage_error("standard input can be read once, but %zu files are '-'; name the others", n);
    return n ? input_keep() : EXIT_DONE;
}

/* Runs the command. Before that, checks that its output files can be written, so that no result of long work is lost. */
static int answer(const command *c, options *o)
{
    int rc = keep_input(o);
    if (rc == EXIT_DONE) rc = outputs_try(o);
    if (o->talk.quiet) screen_keep_verdicts_whole();
    if (rc == EXIT_DONE) rc = c->run(o);
    if (rc == EXIT_DONE) outputs_say(o);
    return rc;
}

static int run(int argc, char **argv)
{
    if (argc < 2) {
        help_overview(stderr);
        return EXIT_USAGE;
    }
    const char *name = argv[1];
    if (!strcmp(name, "--help") || !strcmp(name, "-h")) name = "help";
    if (!strcmp(name, "--version") || !strcmp(name, "-V")) name = "version";
    const command *c = command_named(name);
    if (!c) return EXIT_USAGE;
    options o;
    const double begun = mp_clock_now();
    int rc = options_parse((command_id)(c - commands), argc - 2, argv + 2, &o);
    o.search.begun = begun;
    if (rc == EXIT_DONE && o.talk.help)
        (options_ask_for_all_help(&o) ? help_command : help_command_short)(stdout, c);
    else if (rc == EXIT_DONE)
        rc = answer(c, &o);
    options_free(&o);
    return rc;
}

/* If standard input, output or error is closed, opens /dev/null with its descriptor. Otherwise another file could get its
 * descriptor. Standard input is opened for writing and the others for reading, so that using them fails as on a closed file. */
static bool stand_in_for_closed(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == STDOUT_FILENO ? O_RDONLY : O_WRONLY) != fd) return false;
    return true;
}

int main(int argc, char **argv)
{
    exhausted_catch();
    interrupt_begin();
    if (!stand_in_for_closed()) return EXIT_NO;
    return output_end(run(argc, argv));
}
