/* test_kernels.c - the CPU's kernel tables compared with the operator table: every trainable operator has forward and backward
 * kernels, and no row is duplicate or unused. */
#include "estimator/model/ops.h"
#include "executor/cpu/base/families.h"
#include "tests/cases/test.h"

/* Operators without a CPU kernel: they are never between a parameter and a loss, only the GPU's backend creates them, or they
 * belong to experts on ranks. */
static const char *const not_run[] = {
    "MatMulInteger", "ConvInteger", "Multinomial", "NonZero", "Unique", "BatchNormalizationRelu", "BatchNormalizationAddRelu",
    "AllToAll"};

static bool is_listed(const char *kind)
{
    for (size_t k = 0; k < sizeof not_run / sizeof *not_run; k++)
        if (!strcmp(not_run[k], kind)) return true;
    return false;
}

TEST(every_operator_of_the_registry_runs)
{
    int n = 0, n_trained = 0;
    for (size_t k = 0; k < mp_op_count(); k++) {
        const mp_op *row = mp_op_row(k);
        mp_operator op = {.kind = row->name, .domain = row->domain, .op = row};
        const mp_kernel *kernel = mp_cpu_kernel(&op);
        if (is_listed(row->name)) {
            assert_null(kernel);
            continue;
        }
        if (!kernel) fail_msg("%s (%s) has no kernel", row->name, row->domain);
        bool trained =
            row->gradient == MP_GRADIENT_ONE || row->gradient == MP_GRADIENT_SPLIT || row->gradient == MP_GRADIENT_ALIAS;
        if (trained && !kernel->backward) fail_msg("%s (%s) has a gradient and no kernel for it", row->name, row->domain);
        n++;
        n_trained += trained;
    }
    assert_true(n > 160 && n_trained > 90);
}

#define TABLE(name) mp_cpu_##name,
static const mp_kernel *const families[] = {MP_CPU_FAMILIES(TABLE)};
#undef TABLE

TEST(every_row_stands_once_and_for_an_operator)
{
    for (size_t f = 0; f < sizeof families / sizeof *families; f++)
        for (const mp_kernel *row = families[f]; row->kind; row++) {
            int n = 0, n_ops = 0;
            for (size_t g = 0; g < sizeof families / sizeof *families; g++)
                for (const mp_kernel *other = families[g]; other->kind; other++)
                    n += !strcmp(row->kind, other->kind) && !strcmp(row->domain, other->domain);
            for (size_t k = 0; k < mp_op_count(); k++)
                n_ops += !strcmp(row->kind, mp_op_row(k)->name) && !strcmp(row->domain, mp_op_row(k)->domain);
            if (n != 1) fail_msg("%s (%s) stands %d times in the tables", row->kind, row->domain, n);
            if (!n_ops) fail_msg("%s (%s) is not in the registry", row->kind, row->domain);
        }
}
