/* test_public_memory.c - each public function runs with 0, 1, 2, ... allowed allocations until it succeeds. Failures return out
 * of memory, leave outputs unchanged and leak nothing. Each function of include/memplan is in this list, or in the list of
 * functions without allocations, which is also checked. */
#include <dirent.h>
#include <errno.h>

#include <jansson.h>

#include "tests/cases/public_calls.h"
#include "tests/cases/test.h"

#define HEADERS "include/memplan"

enum { EVERY = 300, HEADER_MAX = 1 << 16, FUNCTIONS_MIN = 170 };

/* Counts jansson's memory with memplan's. */
static void *get(size_t size)
{
    void *p = mp_alloc(1, size);
    if (!p) errno = ENOMEM; /* like malloc */
    return p;
}

/* Tests every number of allocations up to EVERY, then increasingly sparse ones, because later allocations repeat earlier
 * patterns. Returns the number of tests. */
static long sweep(public_world *w, const public_call *call)
{
    mp_error err = {0};
    long tried = 0;
    public_begin(call->name, w);
    w->allowed = -1;
    w->made = 0;
    if (call->run(w, &err) != MP_OK) fail_msg("%s: %s", call->name, err.message);
    const long made = w->made;
    if (made <= 0) fail_msg("%s allocates nothing", call->name);
    for (long k = 0; k < made && !public_is_wrong(); k += 1 + (k > EVERY ? k / 40 : 0), tried++) {
        const long live = mp_alloc_live;
        err = (mp_error){0};
        w->allowed = k;
        w->made = 0;
        const mp_status st = call->run(w, &err);
        if (st != MP_NOMEM || err.code != MP_NOMEM || !err.message[0])
            public_wrong(err.message[0] ? err.message : mp_status_text(st));
        if (mp_alloc_live != live) public_wrong("keeps memory");
    }
    return tried;
}

static void sweep_all(const public_call *calls)
{
    public_world w = public_world_new();
    long tried = 0, n = 0;
    int n_wrong = 0;
    for (; calls->name; calls++, n++) {
        tried += sweep(&w, calls);
        n_wrong += public_is_wrong();
    }
    print_message("%ld functions, %ld allocations failed\n", n, tried);
    public_world_free(&w);
    assert_int_equal(n_wrong, 0);
}

TEST(what_plans_survives_every_allocation_failure)
{
    sweep_all(public_graphs);
}

TEST(what_reads_and_writes_survives_every_allocation_failure)
{
    sweep_all(public_files);
}

TEST(what_trains_survives_every_allocation_failure)
{
    sweep_all(public_models);
}

TEST(what_cuts_for_many_devices_survives_every_allocation_failure)
{
    sweep_all(public_ranks);
}

TEST(workloads_survive_every_allocation_failure)
{
    sweep_all(public_workloads);
}

TEST(what_studies_plans_survives_every_allocation_failure)
{
    sweep_all(public_studies);
}

TEST(the_others_allocate_nothing)
{
    public_world w = public_world_new();
    public_call_without(&w);
    public_world_free(&w);
}

/* ---- the list of functions ---- */

static int rows_named(const public_call *calls, const char *name)
{
    int n = 0;
    for (; calls->name; calls++) n += !strcmp(calls->name, name);
    return n;
}

static int calls_named(const char *name)
{
    int n = 0;
    for (const char *const *call = public_without; *call; call++)
        n += strcspn(*call, "(") == strlen(name) && !strncmp(*call, name, strlen(name));
    return n;
}

/* Replaces comments and preprocessor lines by blanks. */
static void keep_declarations(char *text)
{
    bool line_begins = true;
    for (char *c = text; *c; c++) {
        char *end = NULL;
        if (c[0] == '/' && c[1] == '*') end = strstr(c + 2, "*/") + 2;
        if (c[0] == '#' && line_begins)
            for (end = c + strcspn(c, "\n"); *end && end[-1] == '\\';) end += 1 + strcspn(end + 1, "\n");
        line_begins = *c == '\n' || (line_begins && *c == ' ');
        if (!end) continue;
        memset(c, ' ', (size_t)(end - c));
        c = end - 1;
    }
}

/* Checks the functions declared in a header; returns their number. */
static int check_header(const char *name)
{
    static char text[HEADER_MAX];
    char path[600], function[80];
    int n = 0;
    snprintf(path, sizeof path, HEADERS "/%s", name);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    assert_true(feof(file));
    fclose(file);
    keep_declarations(text);
    for (const char *c = text; (c = strstr(c, "mp_")); n++) {
        const size_t length = strspn(c, "abcdefghijklmnopqrstuvwxyz0123456789_");
        const bool begins = c == text || !strchr("abcdefghijklmnopqrstuvwxyz0123456789_", c[-1]);
        if (!begins || c[length] != '(' || length >= sizeof function) {
            c += length;
            n--;
            continue;
        }
        snprintf(function, sizeof function, "%.*s", (int)length, c);
        const int listed = rows_named(public_graphs, function) + rows_named(public_files, function) +
                           rows_named(public_models, function) + rows_named(public_ranks, function) +
                           rows_named(public_workloads, function) + rows_named(public_studies, function) +
                           calls_named(function);
        if (listed != 1) fail_msg("%s of %s is listed %d times in tests/cases/public_*.c", function, path, listed);
        c += length;
    }
    return n;
}

/* Checks the headers of a folder below include/memplan ("": include/memplan itself); returns the number of declared functions.
 */
static int check_folder(const char *below)
{
    char path[300];
    int n = 0;
    snprintf(path, sizeof path, HEADERS "/%s", below);
    DIR *folder = opendir(path);
    assert_non_null(folder);
    for (const struct dirent *entry; (entry = readdir(folder));) {
        snprintf(path, sizeof path, "%s/%.200s", below, entry->d_name);
        if (strstr(entry->d_name, ".h")) n += check_header(path);
    }
    closedir(folder);
    return n;
}

TEST(every_public_function_is_listed_once)
{
    const int n = check_folder("") + check_folder("pictures") + check_folder("ranks");
    print_message("%d functions\n", n);
    assert_true(n >= FUNCTIONS_MIN);
}

int main(void)
{
    json_set_alloc_funcs(get, mp_free);
    return test_run(NULL, NULL);
}
