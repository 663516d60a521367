/* test_devices.c - devices are found by the common names of cards and by the names that drivers report. */
#include "estimator/training/training.h"
#include "memplan/workloads/process_memory.h"
#include "tests/cases/test.h"

TEST(devices_are_found_as_people_and_drivers_call_them)
{
    static const struct {
        const char *written, *name;
    } people[] = {{"A100", "a100"}, {"RTX 3090", "rtx3090"}, {"rtx-4090", "rtx4090"}, {"L40s", "l40s"}, {"MI300X", "mi300x"}},
      drivers[] = {{"NVIDIA A100-SXM4-80GB", "a100"}, {"NVIDIA A10", "a10"},   {"NVIDIA L4", "l4"},
                   {"NVIDIA L40S", "l40s"},           {"NVIDIA L40", "l40"},   {"NVIDIA GeForce RTX 4090", "rtx4090"},
                   {"NVIDIA RTX A6000", "a6000"},     {"Tesla T4", "t4"},      {"NVIDIA RTX A4000", NULL},
                   {"NVIDIA T400 4GB", NULL},         {"NVIDIA H200", "h200"}, {"NVIDIA H100 80GB HBM3", "h100"}};
    for (size_t k = 0; k < sizeof people / sizeof *people; k++)
        assert_string_equal(mp_device_find(people[k].written)->name, people[k].name);
    for (size_t k = 0; k < sizeof drivers / sizeof *drivers; k++) {
        const mp_device *found = mp_device_of_card(drivers[k].written);
        if (drivers[k].name)
            assert_string_equal(found->name, drivers[k].name);
        else
            assert_null(found);
    }
    assert_null(mp_device_find("a1000"));
    assert_null(mp_device_find("a"));
}

TEST(a_process_takes_the_allocators_memory_and_the_context)
{
    enum { MIB = 1 << 20 };
    /* contexts measured after a training step: xMem's runs on two cards; 0.1 of the memory is the tolerance of a linear rule */
    static const struct {
        const char *card;
        int64_t context_mib, workspace_kib;
    } cases[] = {{"NVIDIA GeForce RTX 3060", 134, 8320}, {"rtx4060", 120, 8320}, {"NVIDIA H100 80GB HBM3", 400, 32768}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        mp_process_memory m;
        assert_true(mp_process_memory_of(cases[k].card, "convolution", INT64_C(7) << 30, &m));
        assert_in_range(m.context_bytes / MIB, cases[k].context_mib * 9 / 10, cases[k].context_mib * 11 / 10);
        assert_int_equal(m.workspace_bytes, cases[k].workspace_kib << 10);
        assert_int_equal(m.process_bytes, (INT64_C(7) << 30) + m.context_bytes);
        assert_true(m.likely_bytes > m.process_bytes && m.likely_bytes < m.process_bytes + m.process_bytes / 10);
        assert_true(m.n_jobs > 0 && m.median_error > 0);
    }
    mp_process_memory same = {.n_jobs = -7};
    assert_false(mp_process_memory_of("NVIDIA RTX A4000", "other", 1, &same));
    assert_false(mp_process_memory_of("mi300x", "other", 1, &same));
    assert_false(mp_process_memory_of("h100", "others", 1, &same));
    assert_false(mp_process_memory_of("h100", "other", -1, &same));
    assert_int_equal(same.n_jobs, -7);
    assert_true(mp_process_memory_of("h100", "other", 1 << 30, &same));
    assert_int_equal(same.n_jobs, 0);
    assert_int_equal(same.n_processors, 132); /* NVIDIA's whitepaper of Hopper, SXM5 */
    assert_int_equal(same.capability, 90);
}
