/* test_exports.c - files from PyTorch's exporters (tests/networks/files, made by tests/exports.py --store). Each has PyTorch's
 * trained parameters. Two planned steps give exactly the losses and weights of two keep-all steps. */
#include <dirent.h>

#include "estimator/model/model.h"
#include "tests/cases/test.h"
#include "tests/cases/training_case.h"

#define FOLDER "tests/networks/files"

enum { STEPS = 2, FILES_MAX = 64, LEAST = 12 };

typedef struct outcome {
    double losses[STEPS];
    char hash[33];
} outcome;

static outcome run(training_case *t, mp_plan *plan)
{
    outcome o;
    const mp_hyper hyper = mp_hyper_default(MP_OPTIMIZER_ADAMW);
    mp_execution *e = training_execution(t, plan, &hyper);
    training_run(t, e, 0, STEPS, o.losses);
    mp_execution_hash(e, o.hash);
    mp_execution_free(e);
    mp_plan_free(plan);
    return o;
}

static void train(const char *name)
{
    char path[512];
    const mp_training_options options = {.optimizer = MP_OPTIMIZER_ADAMW, .dtype = MP_DTYPE_FLOAT, .options_json = "{}"};
    snprintf(path, sizeof path, FOLDER "/%s", name);
    training_case t = training_begin_as_users_do(path, &options);
    const outcome kept = run(&t, training_keep_all(&t)), planned = run(&t, training_plan(&t, 0.5));
    for (int k = 0; k < STEPS; k++)
        if (!isfinite(kept.losses[k])) fail_msg("%s: the loss is %g at step %d", name, kept.losses[k], k + 1);
    if (memcmp(kept.losses, planned.losses, sizeof kept.losses) != 0 || strcmp(kept.hash, planned.hash) != 0)
        fail_msg("%s: the plan changes the result: losses %.9g and %.9g, %.9g and %.9g", name, kept.losses[0], kept.losses[1],
                 planned.losses[0], planned.losses[1]);
    if (kept.losses[0] == kept.losses[1]) fail_msg("%s: the first step changes nothing", name);
    training_end(&t);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

TEST(every_export_trains_as_planned)
{
    char *names[FILES_MAX];
    int n = 0;
    DIR *folder = opendir(FOLDER);
    assert_non_null(folder);
    for (const struct dirent *entry; (entry = readdir(folder)) && n < FILES_MAX;)
        if (strstr(entry->d_name, ".onnx")) names[n++] = strdup(entry->d_name);
    closedir(folder);
    assert_in_range(n, LEAST, FILES_MAX - 1);
    qsort(names, (size_t)n, sizeof *names, by_name);
    for (int k = 0; k < n; k++) {
        train(names[k]);
        free(names[k]);
    }
}

/* Compares the numbers of tensors and elements with PyTorch's count of the parameters that affect the output. */
TEST(parameters_are_those_of_pytorch)
{
    char line[512], name[256];
    int n = 0, n_tensors;
    long n_elements;
    FILE *table = fopen(FOLDER "/parameters.txt", "r");
    assert_non_null(table);
    for (; fgets(line, sizeof line, table); n++) {
        const mp_training_options options = {.optimizer = MP_OPTIMIZER_ADAMW, .dtype = MP_DTYPE_FLOAT, .options_json = "{}"};
        char path[512];
        int found = 0;
        long elements = 0;
        if (sscanf(line, "%255s %d %ld", name, &n_tensors, &n_elements) != 3) fail_msg("parameters.txt: '%s'", line);
        snprintf(path, sizeof path, FOLDER "/%s", name);
        training_case t = training_begin_as_users_do(path, &options);
        for (size_t k = 0; k < t.model->n_tensors; k++) {
            const mp_tensor *x = &t.model->tensors[k];
            if (x->role != MP_ROLE_PARAMETER || x->producer >= 0 || x->rank < 0) continue;
            found++;
            elements += (long)mp_tensor_elements(x);
        }
        if (found != n_tensors || elements != n_elements)
            fail_msg("%s: %d parameters of %ld elements, and PyTorch has %d of %ld", name, found, elements, n_tensors,
                     n_elements);
        training_end(&t);
    }
    assert_true(n >= LEAST);
    fclose(table);
}
