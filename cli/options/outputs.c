/* outputs.c - the output files that options name: checks them before the command's work, and prints their sizes afterwards. */
#include "cli/options/outputs.h"

#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/messages/messages.h"
#include "cli/options/commands.h"
#include "cli/options/options.h"
#include "formats/base/file.h"
#include "formats/base/text.h"
#include "formats/data/checkpoint.h"
#include "formats/onnx/onnx_weights.h"

/* Returns the path of the output file that option k names. Returns NULL if option k names no output file, or if it names
 * standard output. */
static const char *output_of(const options *o, int k)
{
    const mp_option_row *row = &option_rows[k];
    const char *path = row->is_output && o->given[k] ? *(const char *const *)((const char *)o + row->offset) : NULL;
    return path && strcmp(path, "-") ? path : NULL;
}

/* True if the path leads to this file, by any name or link. */
static bool is_file(const char *path, const struct stat *file)
{
    struct stat info;
    const int failed = strcmp(path, "-") ? stat(path, &info) : fstat(STDIN_FILENO, &info);
    return !failed && S_ISREG(info.st_mode) && info.st_dev == file->st_dev && info.st_ino == file->st_ino;
}

static bool is_source(const mp_text_list *sources, const struct stat *file)
{
    bool found = false;
    for (size_t k = 0; !found && k < sources->n; k++) {
        const char *equals = strchr(sources->items[k], '=');
        found = is_file(equals ? equals + 1 : sources->items[k], file);
    }
    return found;
}

static bool is_weights(const char *model, const struct stat *file)
{
    mp_onnx_weights *weights = NULL;
    /* if the model cannot be read, no error is reported here, because the command reports it when it loads the model */
    const bool found =
        mp_onnx_weights_open(model, NULL, &weights, NULL) == MP_OK && mp_onnx_weights_in(weights, file->st_dev, file->st_ino);
    mp_onnx_weights_close(weights);
    return found;
}

/* Returns a noun for the file's role as an input of this run, such as "the model"; NULL if it is no input. The file that
 * --resume reads does not count as an input, because the run may overwrite it. */
static const char *input_in(const options *o, option_id output, const struct stat *file)
{
    const struct {
        const char *path, *what;
    } named[] = {{o->output.plan, "the plan"},
                 {o->model.costs, "the costs"},
                 {o->device_file, "the device"},
                 {output == OPT_SAVE ? NULL : o->training.resume, "the state to resume from"},
                 {o->model.class_weights, "the weights of classes"},
                 {o->model.pos_weight, "the weights of positives"}};
    for (size_t k = 0; k < o->n_operands; k++)
        if (is_file(o->operands[k], file)) return k ? "the plan" : "the model";
    for (size_t k = 0; k < sizeof named / sizeof *named; k++)
        if (named[k].path && is_file(named[k].path, file)) return named[k].what;
    if (is_source(&o->model.data, file) || is_source(&o->training.test, file)) return "data";
    return o->n_operands && is_weights(o->operands[0], file) ? "weights of the model" : NULL;
}

/* Refuses an output file that is an input of the same run, and so would be overwritten. */
static int spare_inputs(const options *o)
{
    struct stat info;
    for (int k = 0; k < N_OPTIONS; k++) {
        const char *path = output_of(o, k);
        if (!path || stat(path, &info) != 0 || !S_ISREG(info.st_mode)) continue;
        const char *what = input_in(o, (option_id)k, &info), *name = option_rows[k].name;
        if (what)
            return usage_error("-%s%s %s: this run would overwrite the file from which it reads %s; name another file",
                               name[1] ? "-" : "", name, path, what);
    }
    return EXIT_DONE;
}

/* If the output is JSON or a table, refuses names for -o with the extension of a picture, or of a file that memplan reads
 * (.onnx, .dot, .gv). */
static int spare_endings(const options *o)
{
    static const char *const others[] = {".onnx", ".dot", ".gv", ".svg", ".png", ".pdf", ".html"};
    const char *path = output_of(o, OPT_OUT), *ending = path ? strrchr(path, '.') : NULL;
    for (size_t k = 0; ending && k < sizeof others / sizeof *others; k++)
        if (!strcasecmp(ending, others[k]))
            return usage_error("-o %s: %s does not write %s files; choose another file ending", path, commands[o->command].name,
                               others[k]);
    return EXIT_DONE;
}

int outputs_try(const options *o)
{
    mp_error err = {0};
    int rc = spare_inputs(o);
    if (rc == EXIT_DONE) rc = spare_endings(o);
    if (rc != EXIT_DONE) return rc;
    for (int k = 0; k < N_OPTIONS; k++) {
        const char *path = output_of(o, k);
        if (path && (k == OPT_SAVE ? mp_checkpoint_try : mp_file_try)(path, &err) != MP_OK) return output_failed(&err);
    }
    return EXIT_DONE;
}

void outputs_say(const options *o)
{
    struct stat info;
    /* the answer of the command `plan` states the name of its file itself */
    if (o->command == CMD_PLAN || o->talk.quiet || !isatty(STDERR_FILENO)) return;
    for (int k = 0; k < N_OPTIONS; k++) {
        const char *path = output_of(o, k);
        if (path && stat(path, &info) == 0 && S_ISREG(info.st_mode))
            complain("wrote %s (%s)", path, mp_bytes_text(info.st_size));
    }
}

const char *output_part(const char *name, const char *part, int number)
{
    const char *dot = strrchr(name, '.'), *slash = strrchr(name, '/');
    const size_t stem = dot && (!slash || dot > slash) ? (size_t)(dot - name) : strlen(name);
    return mp_text("%.*s.%s%d%s", (int)stem, name, part, number, name + stem);
}
