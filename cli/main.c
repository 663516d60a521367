/* main.c - from the words of the command line to a command, and its exit status. */
#include <stdio.h>
#include <string.h>

#include "cli/options/commands.h"
#include "cli/options/help.h"

static int run(int argc, char **argv)
{
    if (argc < 2) {
        help_overview(stderr);
        return EXIT_USAGE;
    }
    const char *name = argv[1];
    if (!strcmp(name, "--help") || !strcmp(name, "-h")) name = "help";
    if (!strcmp(name, "--version")) name = "version";
    const command *c = command_named(name);
    if (!c) return EXIT_USAGE;
    options o;
    int rc = options_parse((command_id)(c - commands), argc - 2, argv + 2, &o);
    if (rc == EXIT_DONE && o.help)
        help_command(stdout, c);
    else if (rc == EXIT_DONE)
        rc = c->run(&o);
    options_free(&o);
    return rc;
}

int main(int argc, char **argv)
{
    int rc = run(argc, argv);
    if (fflush(stdout) || ferror(stdout)) {
        complain("cannot write to standard output");
        return EXIT_NO;
    }
    return rc;
}
