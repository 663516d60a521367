/* test_copies_fail.c - faults during copies: each gives one sentence and leaves no files. A training resumes from its last save
 * with the same results. */
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "estimator/base/memory.h"
#include "executor/cpu/cpu.h"
#include "memplan/arena.h"
#include "tests/cases/test.h"
#include "tests/cases/training_case.h"
#include "tests/oracles/random_offload.h"

enum { STEPS = 5 };

static char folder[512], saved[600];

static int set_up(void **state)
{
    const char *place = getenv("TMPDIR");
    (void)state;
    snprintf(folder, sizeof folder, "%s/memplan-copies-XXXXXX", place ? place : "/tmp");
    if (!mkdtemp(folder)) return -1;
    snprintf(saved, sizeof saved, "%s.safetensors", folder);
    return 0;
}

/* rmdir fails if a file remains in the folder. */
static int tear_down(void **state)
{
    (void)state;
    unlink(saved);
    return rmdir(folder);
}

int main(void)
{
    return test_run(set_up, tear_down);
}

static training_case begin_on(const mp_backend *backend)
{
    mp_training_options options = {.optimizer = MP_OPTIMIZER_MOMENTUM, .fuse = MP_FUSE_NONE, .dtype = MP_DTYPE_FLOAT};
    return training_begin_on(backend, "tests/gradients/cnn.onnx", 0, &options);
}

/* Returns keep-all with copies, and adds the copy nodes to the case's graph. */
static mp_plan *with_copies(training_case *t, int64_t bytes[2])
{
    mp_plan *plain = training_keep_all(t);
    offload_all(t->program->graph);
    mp_plan *plan = random_offload(t->program->graph, 1, plain->steps, plain->n_steps, bytes);
    mp_plan_free(plain);
    return plan;
}

/* Returns the descriptor of the open unnamed file in the folder; -1: none. */
static int descriptor_in(const char *where)
{
    int found = -1;
    DIR *all = opendir("/proc/self/fd");
    assert_non_null(all);
    for (struct dirent *d = readdir(all); d; d = readdir(all)) {
        char path[300], target[600] = "";
        snprintf(path, sizeof path, "/proc/self/fd/%s", d->d_name);
        const ssize_t n = readlink(path, target, sizeof target - 1);
        if (n > 0 && !strncmp(target, where, strlen(where)) && strstr(target, "(deleted)"))
            found = (int)strtol(d->d_name, NULL, 10);
    }
    closedir(all);
    return found;
}

static void put_in_place(int file, const char *path, int flags)
{
    const int other = open(path, flags);
    assert_true(file >= 0 && other >= 0 && dup2(other, file) == file);
    close(other);
}

static void assert_refused(training_case *t, const mp_plan *plan, const mp_execution_options *options, mp_status status,
                           const char *part)
{
    mp_error err = {0};
    mp_execution *e = NULL;
    const mp_status st = mp_execution_new(t->program, plan, options, &e, &err);
    assert_null(e);
    if (st != status || !strstr(err.message, part))
        fail_msg("%s: \"%s\" instead of \"%s\"", mp_status_text(st), err.message, part);
}

/* Returns a copy back of the plan. `another` is a copy out of a different storage that it could read at that time. */
static mp_alternative *copy_back(const mp_graph *g, const mp_plan *plan, int *another)
{
    for (int t = 0; t < (int)plan->n_steps; t++) {
        mp_alternative *back = &g->nodes[plan->steps[t].node].alternatives[plan->steps[t].alternative];
        for (int u = 0; back->returns && u < t; u++) {
            const mp_node *out = &g->nodes[plan->steps[u].node];
            *another = out->alternatives->writes[0];
            if ((out->flags & MP_NODE_OPTIONAL) && mp_step_end(plan->steps, u) <= t && *another != back->reads[0]) return back;
        }
    }
    fail_msg("nothing is copied back");
    return NULL;
}

TEST(what_cannot_be_executed_is_refused)
{
    int64_t bytes[2];
    training_case t = begin_on(&mp_cpu);
    mp_plan *plan = with_copies(&t, bytes);
    mp_graph *g = t.program->graph;
    mp_execution_options options = {.hyper = mp_hyper_default(MP_OPTIMIZER_MOMENTUM)};
    options.tiers[1].capacity_bytes = plan->tiers[1].peak_bytes - 1;
    assert_refused(&t, plan, &options, MP_INFEASIBLE, " bytes of the tier 'host', which has ");
    options.tiers[1] = (mp_tier_memory){.folder = "/no/such/folder"};
    assert_refused(&t, plan, &options, MP_IO,
                   "cannot create a file for the tier 'host' in /no/such/folder: No such file or directory");
    options.tiers[1].folder = NULL;
    int another = -1;
    mp_alternative *back = copy_back(g, plan, &another);
    const int copy = back->reads[0];
    back->reads[0] = another;
    assert_refused(&t, plan, &options, MP_UNSUPPORTED, " cannot be copied to ");
    back->reads[0] = copy;
    g->storages[copy].payload_bytes = g->storages[copy].bytes + 1;
    assert_refused(&t, plan, &options, MP_UNSUPPORTED, " have different sizes");
    g->storages[copy].payload_bytes = g->storages[copy].bytes;
    for (size_t s = 0; s < g->n_storages; s++) {
        if (g->storages[s].kind != MP_KIND_PARAMETER) continue;
        g->storages[s].tier = 1;
        assert_refused(&t, plan, &options, MP_UNSUPPORTED, ", but only copies may use the tier 'host'");
        break;
    }
    mp_plan_free(plan);
    training_end(&t);
}

TEST(memory_that_is_not_the_programs_is_not_copied)
{
    mp_backend other = mp_cpu;
    int64_t bytes[2];
    other.is_host = false;
    training_case t = begin_on(&other);
    mp_plan *plan = with_copies(&t, bytes);
    const mp_execution_options options = {.hyper = mp_hyper_default(MP_OPTIMIZER_MOMENTUM)};
    assert_refused(&t, plan, &options, MP_UNSUPPORTED, "the cpu backend does not copy to other tiers");
    mp_plan_free(plan);
    training_end(&t);
}

TEST(every_allocation_fails_in_turn)
{
    int64_t bytes[2];
    training_case t = begin_on(&mp_cpu);
    mp_plan *plan = with_copies(&t, bytes);
    mp_execution_options options = {.hyper = mp_hyper_default(MP_OPTIMIZER_MOMENTUM)};
    options.tiers[1].folder = folder;
    const long live = mp_alloc_live;
    for (long n = 0;; n++) {
        mp_error err = {0};
        mp_execution *e = NULL;
        mp_alloc_budget = n;
        const mp_status st = mp_execution_new(t.program, plan, &options, &e, &err);
        mp_alloc_budget = -1;
        mp_execution_free(e);
        assert_int_equal(mp_alloc_live, live);
        assert_int_equal(descriptor_in(folder), -1);
        if (st == MP_OK) break;
        assert_int_equal(st, MP_NOMEM);
    }
    mp_plan_free(plan);
    training_end(&t);
}

/* An mp_train_progress_call: after the third step the disk is full. */
static bool fill_disk(const mp_train_progress *now, void *data)
{
    (void)data;
    if (now->step == 3) put_in_place(descriptor_in(folder), "/dev/full", O_RDWR);
    return true;
}

/* Removes the folder after the third step; the training no longer needs it. */
static bool remove_folder(const mp_train_progress *now, void *data)
{
    (void)data;
    if (now->step == 3) assert_int_equal(rmdir(folder), 0);
    return true;
}

TEST(a_disk_that_fails_leaves_the_last_save)
{
    int64_t bytes[2];
    mp_error err = {0};
    mp_report report = {0}, broken = {0}, resumed = {0}, bereft = {0};
    training_case t = begin_on(&mp_cpu);
    mp_plan *plan = with_copies(&t, bytes);
    mp_train_request request = training_request(&t, plan, STEPS);
    request.execution.hyper = mp_hyper_default(MP_OPTIMIZER_MOMENTUM);
    request.execution.tiers[1].folder = folder;
    if (mp_train(&request, &report, &err) != MP_OK) fail_msg("%s", err.message);
    request.save = saved;
    request.save_every = 1;
    request.progress = fill_disk;
    assert_int_equal(mp_train(&request, &broken, &err), MP_IO);
    if (!strstr(err.message, "cannot be copied to the tier 'host' in ") || !strstr(err.message, folder) ||
        !strstr(err.message, ": No space left on device"))
        fail_msg("\"%s\"", err.message);
    assert_int_equal(descriptor_in(folder), -1);
    request.progress = NULL;
    request.resume = saved;
    request.save = NULL;
    request.n_steps = STEPS - 3;
    memset(&err, 0, sizeof err);
    if (mp_train(&request, &resumed, &err) != MP_OK) fail_msg("%s", err.message);
    assert_int_equal(resumed.first_step, 3);
    assert_string_equal(resumed.weights_hash, report.weights_hash);
    request.resume = NULL;
    request.n_steps = STEPS;
    request.progress = remove_folder;
    if (mp_train(&request, &bereft, &err) != MP_OK) fail_msg("%s", err.message);
    assert_string_equal(bereft.weights_hash, report.weights_hash);
    assert_int_equal(mkdir(folder, 0700), 0);
    mp_report_free(&report);
    mp_report_free(&broken);
    mp_report_free(&resumed);
    mp_report_free(&bereft);
    mp_plan_free(plan);
    training_end(&t);
}
