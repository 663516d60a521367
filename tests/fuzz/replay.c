/* replay.c - runs a fuzzing target without libFuzzer: PROGRAM [FILE|FOLDER...] [--mutate N] [--seed S]
 *
 * It runs every file, or every line of a .txt file except blank lines and lines that begin with #. If the target can change its
 * inputs, N changed inputs follow for each; equal N and S give equal inputs on every machine. Without files:
 * tests/fuzz/corpus/NAME of the program fuzz_NAME, with N = 20. It ends like a test, or with the target's abort; the input is
 * then in the file `fuzz-fault`. */
#include <dirent.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The target: runs one input and returns 0. On a fault it prints a sentence on standard error and aborts. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
/* Changes data[0..n) randomly into at most `most` bytes and returns their number; 0: unreadable input. Optional for a target.
 */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t most, unsigned seed) __attribute__((weak));

enum { INPUT_MAX = 1 << 20, PATHS_MAX = 4096, SECONDS_MAX = 60 };

static struct {
    unsigned mutate, seed;
    long n_runs;
    uint8_t input[INPUT_MAX];
    size_t n;
} all;

/* Stores the input after a fault or a timeout. */
static void keep(int number)
{
    FILE *f = fopen("fuzz-fault", "wb");
    if (f) {
        fwrite(all.input, 1, all.n, f);
        fclose(f);
    }
    signal(number, SIG_DFL);
    raise(number);
}

static void run(void)
{
    alarm(SECONDS_MAX);
    all.n_runs++;
    LLVMFuzzerTestOneInput(all.input, all.n);
}

static void run_with_changes(const uint8_t *data, size_t n)
{
    memcpy(all.input, data, all.n = n);
    run();
    for (unsigned k = 0; k < all.mutate && LLVMFuzzerCustomMutator; k++) {
        memcpy(all.input, data, n);
        all.n = LLVMFuzzerCustomMutator(all.input, n, INPUT_MAX, all.seed + k * 2654435761u + (unsigned)n);
        run();
    }
}

static void run_file(const char *path)
{
    static uint8_t data[INPUT_MAX];
    FILE *f = fopen(path, "rb");
    if (!f) {
        perror(path);
        exit(2);
    }
    const size_t n = fread(data, 1, sizeof data, f);
    fclose(f);
    const char *end = strrchr(path, '.');
    if (!end || strcmp(end, ".txt") != 0) {
        run_with_changes(data, n);
        return;
    }
    for (size_t from = 0, to; from < n; from = to + 1) {
        for (to = from; to < n && data[to] != '\n'; to++) continue;
        if (to > from && data[from] != '#') run_with_changes(data + from, to - from);
    }
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void run_path(const char *path)
{
    struct stat s;
    char *paths[PATHS_MAX];
    int n = 0;
    if (stat(path, &s) || !S_ISDIR(s.st_mode)) {
        run_file(path);
        return;
    }
    DIR *folder = opendir(path);
    for (struct dirent *e; folder && n < PATHS_MAX && (e = readdir(folder));) {
        if (*e->d_name == '.') continue;
        const size_t room = strlen(path) + strlen(e->d_name) + 2;
        if (!(paths[n] = malloc(room))) continue;
        snprintf(paths[n++], room, "%s/%s", path, e->d_name);
    }
    if (folder) closedir(folder);
    qsort(paths, (size_t)n, sizeof *paths, by_name);
    for (int k = 0; k < n; k++) {
        run_path(paths[k]);
        free(paths[k]);
    }
}

int main(int argc, char **argv)
{
    static const int faults[] = {SIGABRT, SIGSEGV, SIGFPE, SIGBUS, SIGALRM};
    char corpus[256];
    const char *name = strrchr(argv[0], '/');
    bool any = false;
    for (size_t k = 0; k < sizeof faults / sizeof *faults; k++) signal(faults[k], keep);
    for (int k = 1; k + 1 < argc; k++) {
        if (!strcmp(argv[k], "--mutate")) all.mutate = (unsigned)strtoul(argv[k + 1], NULL, 10);
        if (!strcmp(argv[k], "--seed")) all.seed = (unsigned)strtoul(argv[k + 1], NULL, 10);
    }
    for (int k = 1; k < argc; k++) {
        if (*argv[k] == '-') {
            k++;
            continue;
        }
        run_path(argv[k]);
        any = true;
    }
    if (!any) {
        name = name ? name + 1 : argv[0];
        snprintf(corpus, sizeof corpus, "tests/fuzz/corpus/%s", name + strlen("fuzz_"));
        all.mutate = 20;
        run_path(corpus);
    }
    printf("%ld inputs\n[  PASSED  ] 1 test(s).\n", all.n_runs);
    return all.n_runs > 0 ? 0 : 1;
}
