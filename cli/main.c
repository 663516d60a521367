/* main.c - the command table and the way into it. */
#include <stdio.h>
#include <string.h>

#include "cli/options/commands.h"
#include "cli/options/help.h"
#include "cli/options/messages.h"
#include "cli/options/nearest.h"

const command commands[N_COMMANDS] = {
    [CMD_ESTIMATE] = {"estimate", cmd_estimate, "MODEL", 1, 1, "how much memory a training step needs, where and why",
                      "memplan estimate resnet50.onnx --batch 32"},
    [CMD_PLAN] = {"plan", cmd_plan, "MODEL", 1, 1, "choose what to keep and what to recompute within a budget",
                  "memplan plan resnet50.onnx --batch 32 --budget 60% -o plan.json"},
    [CMD_GRAPH] = {"graph", cmd_graph, "MODEL", 1, 1, "write the training graph as JSON",
                   "memplan graph resnet50.onnx --batch 32 -o graph.json"},
    [CMD_CHECK] = {"check", cmd_check, "MODEL PLAN", 2, 2, "replay a plan and verify everything it claims",
                   "memplan check resnet50.onnx plan.json"},
    [CMD_PACK] = {"pack", cmd_pack, "FILE [PLAN]", 1, 2,
                  "place the buffers of a CSV file, or what a model's plan makes, in one block",
                  "memplan pack buffers.csv --capacity 1048576 -o placed.csv"},
    [CMD_TIMELINE] = {"timeline", cmd_timeline, "MODEL", 1, 1,
                      "draw memory over the steps, as a plan runs them or with everything kept",
                      "memplan timeline resnet50.onnx --plan plan.json -o timeline.svg"},
    [CMD_SWEEP] = {"sweep", cmd_sweep, "MODEL", 1, 1,
                   "the trade-off curve: what each searcher makes of each of several budgets",
                   "memplan sweep resnet50.onnx --batch 32 -o curve.svg"},
    [CMD_FIT] = {"fit", cmd_fit, "MODEL", 1, 1, "the largest batch that fits a memory, without and with recomputation",
                 "memplan fit resnet50.onnx --memory 16GiB --overhead 20%"},
    [CMD_DRAW] = {"draw", cmd_draw, "MODEL", 1, 1, "draw the model: what is kept, what is recomputed, what is dropped",
                  "memplan draw resnet50.onnx --plan plan.json -o resnet50.svg"},
    [CMD_TRAIN] = {"train", cmd_train, "MODEL", 1, 1, "train as a plan says, and measure the memory with and without it",
                   "memplan train resnet50.onnx --batch 8 --budget floor+50% --steps 5"},
    [CMD_PROFILE] = {"profile", cmd_profile, "MODEL", 1, 1, "measure what each part of the training step takes here",
                     "memplan profile resnet50.onnx --batch 8 -o costs.json"},
    [CMD_OPS] = {"ops", cmd_ops, "", 0, 0, "list the operators memplan knows, and what a device runs of them",
                 "memplan ops --device cuda"},
    [CMD_SOLVERS] = {"solvers", cmd_solvers, "", 0, 0, "list the searchers", "memplan solvers"},
    [CMD_DEVICES] = {"devices", cmd_devices, "", 0, 0, "list the device profiles", "memplan devices"},
    [CMD_HELP] = {"help", cmd_help, "[COMMAND]", 0, 1, "show this list, or the options of a command", "memplan help plan"},
    [CMD_VERSION] = {"version", cmd_version, "", 0, 0, "show the version", "memplan version"},
    [CMD_COMPLETE] = {"complete", cmd_complete, "WORD...", -1, -1, "list what may stand in place of the last word",
                      "memplan complete plan --solver ''"},
};

const command *command_find(const char *name)
{
    for (size_t k = 0; k < N_COMMANDS; k++)
        if (!strcmp(commands[k].name, name)) return &commands[k];
    return NULL;
}

const char *command_nearest(const char *name)
{
    nearest n = nearest_to(name);
    for (size_t k = 0; k < N_COMMANDS; k++) nearest_offer(&n, commands[k].name);
    return nearest_found(&n);
}

static int run(int argc, char **argv)
{
    if (argc < 2) {
        help_overview(stderr);
        return EXIT_USAGE;
    }
    const char *name = argv[1];
    if (!strcmp(name, "--help") || !strcmp(name, "-h")) name = "help";
    if (!strcmp(name, "--version")) name = "version";
    const command *c = command_find(name);
    if (!c) {
        const char *close = command_nearest(name);
        if (close) return usage_error("there is no command '%s'; did you mean '%s'?", name, close);
        return usage_error("there is no command '%s'; 'memplan help' lists them", name);
    }
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
