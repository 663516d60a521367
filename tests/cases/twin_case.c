/* twin_case.c - runs one case on both backends, and whole tests with the twin instead of the GPU. */
#include "tests/cases/twin_case.h"
#include "tests/cases/test.h"

#include <sys/wait.h>
#include <unistd.h>

#include "executor/cpu/cpu.h"
#include "tests/cases/backend_case.h"

const mp_backend *twin;

int twin_load(void **state)
{
    mp_error err = {0};
    (void)state;
    twin = backend_named("cuda_twin", &err);
    if (!twin) fprintf(stderr, "%s\n", err.message);
    return twin ? 0 : -1;
}

/* Returns the greatest difference of two arrays, relative to the greatest value. */
double twin_difference(const mp_array *a, const mp_array *b)
{
    double greatest = 1e-3, most = 0;
    for (int64_t k = 0; k < mp_array_elements(a); k++) {
        double x = kernel_get(a, k), y = kernel_get(b, k);
        if (x == y || (x != x && y != y)) continue;
        if (fabs(x) > greatest) greatest = fabs(x);
        if (!(fabs(x - y) <= most)) most = fabs(x - y);
    }
    return most / greatest;
}

static void compare(const kernel_run *a, const kernel_run *b, const mp_array *x, const mp_array *y, unsigned flags)
{
    double most = flags & KERNEL_BFLOAT16 ? 1.0 / 128 : 2e-6; /* one rounding step of bfloat16 is half of 1/128 */
    (void)b;
    if (!x->dtype || !x->data) return;
    if (!(twin_difference(x, y) <= most))
        fail_msg("%s(%s)(%s), flags %u: differs by %g from the CPU", a->c->kind, a->c->inputs, a->c->attributes, flags,
                 twin_difference(x, y));
}

/* Fills gradients that backward overwrites with arbitrary bytes. */
static void dirty(const kernel_run *r, unsigned flags)
{
    for (int i = 0; (flags & KERNEL_BACKWARD) && !(flags & KERNEL_ADDS) && i < r->backward.n_in; i++) {
        const mp_array *d = &r->backward.d_in[i];
        if (d->dtype && d->data) memset(d->data, 0x41, (size_t)mp_array_bytes(d));
    }
}

static void check(const kernel_case *c, unsigned flags)
{
    kernel_use(&mp_cpu);
    kernel_run *a = kernel_begin(c, MP_MODE_TRAIN, flags & ~(unsigned)KERNEL_ALIGNED_ROWS);
    dirty(a, flags);
    kernel_forward(a);
    if (flags & KERNEL_BACKWARD) kernel_backward(a);
    kernel_use(twin);
    kernel_run *b = kernel_begin(c, MP_MODE_TRAIN, flags);
    dirty(b, flags);
    const mp_kernel *kernel = twin->kernel(twin, b->forward.op);
    if (kernel == mp_cpu.kernel(&mp_cpu, b->forward.op)) fail_msg("%s has no kernel of its own", c->kind);
    kernel_forward(b);
    if (flags & KERNEL_BACKWARD) kernel_backward(b);
    for (int o = 0; o < a->forward.n_out; o++) compare(a, b, &a->forward.out[o], &b->forward.out[o], flags);
    for (int i = 0; (flags & KERNEL_BACKWARD) && i < a->forward.n_in; i++)
        compare(a, b, &a->backward.d_in[i], &b->backward.d_in[i], flags);
    kernel_end(a);
    kernel_use(&mp_cpu);
    kernel_end(b);
}

void twin_check(const kernel_case *c, bool has_gradient)
{
    static const unsigned alternatives[] = {0, KERNEL_CHANNELS_LAST, KERNEL_BFLOAT16, KERNEL_BFLOAT16 | KERNEL_CHANNELS_LAST};
    for (size_t k = 0; k < sizeof alternatives / sizeof *alternatives; k++) {
        check(c, alternatives[k]);
        if (!has_gradient) continue;
        check(c, alternatives[k] | KERNEL_BACKWARD);
        check(c, alternatives[k] | KERNEL_BACKWARD | KERNEL_ADDS);
    }
}

void twin_check_aligned_rows(const kernel_case *c)
{
    for (unsigned flags = 0; flags < 4; flags++)
        check(c, KERNEL_ALIGNED_ROWS | KERNEL_BACKWARD | (flags & 1 ? KERNEL_BFLOAT16 : 0) | (flags & 2 ? KERNEL_ADDS : 0));
}

void twin_passes(const char *const *tests)
{
    char folder[2000], line[4200];
    ssize_t n = readlink("/proc/self/exe", folder, sizeof folder - 1);
    assert_true(n > 0);
    folder[n] = 0;
    *strrchr(folder, '/') = 0;
    for (size_t k = 0; tests[k]; k++) {
        snprintf(line, sizeof line, "MEMPLAN_TEST_BACKEND=cuda_twin '%s/test_%s' > '%s/test_%s.twin.log' 2>&1", folder,
                 tests[k], folder, tests[k]);
        int status = system(line);
        if (!WIFEXITED(status) || WEXITSTATUS(status)) fail_msg("see %s/test_%s.twin.log", folder, tests[k]);
    }
}
